"""Which rows come together in which batch: a pure function of seed, epoch and index."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from elman.errors import DataError, SettingError
from elman.seeding import generator, stream_seed

RowOrder = Literal["shuffled", "stored"]


class EpochOrder:
    """Batches of row numbers, each row once an epoch, the last batch smaller, none dropped.

    `order` "shuffled": rows are shuffled anew in each epoch, sorted by length inside pools of
    `length_pool` batches, and the batches are shuffled; all of it a pure function of (seed, epoch).
    A large pool pads little, and makes batches of rows that are alike, whose gradients lead a
    little astray; a pool of 1 leaves every batch to chance. "stored": rows come in the order given,
    in every epoch.

    Raises `DataError` where there is no row.
    """

    def __init__(
        self,
        lengths_N: npt.NDArray[np.int64],
        *,
        batch_size: int,
        seed: int,
        order: RowOrder,
        length_pool: int = 1,
    ) -> None:
        if batch_size < 1:
            raise SettingError("batch_size must be an int >= 1", got=str(batch_size))
        if length_pool < 1:
            raise SettingError("length_pool must be an int >= 1", got=str(length_pool))
        if len(lengths_N) == 0:
            raise DataError("there is no line to learn from", got="0 lines", allowed="at least 1")
        self.lengths_N, self.batch_size, self.order = lengths_N, batch_size, order
        self.length_pool, self.seed = length_pool, seed
        # The order of the epoch last asked for: one epoch is held at a time.
        self._epoch_at_hand = -1
        self._rows_in_order_N: npt.NDArray[np.int64] = np.arange(len(lengths_N))
        self._batches_in_order_N: npt.NDArray[np.int64] = np.arange(self.batches_per_epoch)

    @property
    def batches_per_epoch(self) -> int:
        """ceil(rows / batch_size), the same in every epoch."""
        return -(-len(self.lengths_N) // self.batch_size)

    def rows(self, epoch: int, index: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows of one batch: [B] int64; IndexError outside the epoch."""
        if not 0 <= index < self.batches_per_epoch:
            raise IndexError(f"batch {index} of {self.batches_per_epoch}")
        if self.order == "shuffled" and epoch != self._epoch_at_hand:
            self._arrange(epoch)
        first = int(self._batches_in_order_N[index]) * self.batch_size
        return self._rows_in_order_N[first : first + self.batch_size]

    def _arrange(self, epoch: int) -> None:
        """Work out the order of one epoch from (seed, epoch) alone, and keep it at hand."""
        draw = generator(stream_seed(self.seed, "order") + epoch, "order")
        shuffled_N = torch.randperm(len(self.lengths_N), generator=draw).numpy()
        pools_N = np.arange(len(shuffled_N)) // (self.length_pool * self.batch_size)
        by_length_N = np.lexsort((self.lengths_N[shuffled_N], pools_N))
        self._rows_in_order_N = shuffled_N[by_length_N]
        self._batches_in_order_N = torch.randperm(self.batches_per_epoch, generator=draw).numpy()
        self._epoch_at_hand = epoch
