"""Randomness as a value: every draw comes from a generator made here from a seed and a purpose.

Streams with different purposes never share a generator, so that sampling during training, for
example, changes nothing in the training itself. Draws that must not depend on what was drawn before
take the number of their position (`uniform_at`) and need no generator.
"""

import hashlib
from typing import Literal

import torch

Purpose = Literal["initialisation", "dropout", "order", "sampling", "split"]


def stream_seed(seed: int, purpose: Purpose) -> int:
    """Return the 63-bit seed of the stream for `purpose`: a hash of both, the same everywhere."""
    digest = hashlib.sha256(f"{purpose}:{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(seed: int, purpose: Purpose) -> torch.Generator:
    """Return a new CPU generator for one purpose of one seed."""
    return torch.Generator().manual_seed(stream_seed(seed, purpose))


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
