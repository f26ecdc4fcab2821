"""Randomness as a value: every draw comes from a generator made here from a seed and a purpose.

Streams with different purposes never share a generator, so that sampling during training, for
example, changes nothing in the training itself. Draws that must not depend on what was drawn before
take the number of their position (`uniform_at`) and need no generator.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from elman.rows import RowShare

Purpose = Literal["initialisation", "dropout", "order", "sampling", "split"]


def stream_seed(seed: int, purpose: Purpose) -> int:
    """Return the 63-bit seed of the stream for `purpose`: a hash of both, the same everywhere."""
    digest = hashlib.sha256(f"{purpose}:{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(seed: int, purpose: Purpose) -> torch.Generator:
    """Return a new CPU generator for one purpose of one seed."""
    return torch.Generator().manual_seed(stream_seed(seed, purpose))


class RowGenerator(torch.Generator):
    """The generator of one of several processes that share the rows of each batch.

    All of them have the same one and draw for all rows; each keeps its own. A row then meets the
    same noise whichever process computes it, and the generators stay in step.
    """

    _share: RowShare | None = None

    @contextmanager
    def of_rows(self, share: RowShare | None) -> Iterator[None]:
        """Let rows drawn within be those of `share`; None: draws are of no rows of a batch."""
        before, self._share = self._share, share
        try:
            yield
        finally:
            self._share = before

    @property
    def share(self) -> RowShare | None:
        """Which rows are drawn now; None where draws are kept whole."""
        return self._share


def row_share_of(generator: torch.Generator) -> RowShare | None:
    """Return the rows that `generator` draws for; None where it draws for those at hand."""
    return generator.share if isinstance(generator, RowGenerator) else None


def rows_to_draw(generator: torch.Generator, num_rows: int) -> tuple[int, slice]:
    """Return for how many rows to draw where `num_rows` are at hand, and which of them to keep."""
    share = row_share_of(generator)
    return (num_rows, slice(None)) if share is None else (share.num_rows, share.held)


def uniform_at(key: int, position: int) -> float:
    """Return the uniform number in [0, 1) at `position` of the sequence of `key`, 53 bits of it.

    Philox4x32-10 of the counter (position, 0): two of its words are the number. Both arguments are
    below 2^64. Source: J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
    The native generator has the same.
    """
    low, high, _, _ = philox((position & _WORD, position >> 32, 0, 0), (key & _WORD, key >> 32))
    return float((high << 32 | low) >> 11) * 2.0**-53


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the block of four 32-bit words of `counter` under `key`: Philox4x32, ten rounds."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & _WORD, (a >> 32) ^ c3 ^ k1, a & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


_WORD = 0xFFFFFFFF
