"""Randomness as a value: every draw comes from a generator made here from a seed and a purpose.

Streams with different purposes never share a generator, so that sampling during training, for
example, changes nothing in the training itself.
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
