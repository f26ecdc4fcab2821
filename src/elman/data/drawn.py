"""Batches that are drawn as they are asked for, from a task that is a function of chance."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from elman.data.batches import Batch

DrawnT = TypeVar("DrawnT", bound=Batch)

BATCHES_PER_EPOCH = 1000
"""A drawn task has no end; what asks for epochs gets so many batches in each."""


class DrawnBatches(Generic[DrawnT]):
    """Batches of `draw`: `batch(epoch, index)` is a function of `seed` and its two numbers."""

    def __init__(self, draw: Callable[[np.random.Generator], DrawnT], *, seed: int) -> None:
        self._draw, self._seed = draw, seed

    @property
    def num_targets(self) -> int:
        """Answers of an epoch, where each batch has as many as the first."""
        return self.batch(0, 0).num_targets * BATCHES_PER_EPOCH

    @property
    def num_sequences(self) -> int:
        """As many as there are answers: nothing is read twice."""
        return self.num_targets

    def batches_per_epoch(self, epoch: int) -> int:
        """Return `BATCHES_PER_EPOCH`."""
        return BATCHES_PER_EPOCH

    def batch(self, epoch: int, index: int) -> DrawnT:
        """Return batch `index` of `epoch`, drawn anew; IndexError outside the epoch."""
        if not 0 <= index < BATCHES_PER_EPOCH:
            raise IndexError(f"batch {index} of {BATCHES_PER_EPOCH}")
        return self._draw(np.random.default_rng((self._seed, epoch, index)))
