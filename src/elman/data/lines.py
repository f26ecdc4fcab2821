"""Lines as sequences of their own, grouped by length, each read once an epoch."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from elman.data.batches import TokenBatch
from elman.data.token_array import LineArray
from elman.errors import DataError, SettingError
from elman.seeding import generator, stream_seed

LineOrder = Literal["shuffled", "stored"]


class LineBatches:
    """Batches of whole lines: input [S] x1 … xn, target x1 … xn [S], n + 1 targets a line.

    `order` "shuffled": lines are shuffled anew in each epoch, sorted by length inside pools of
    `length_pool` batches, and the batches are shuffled; all of it a pure function of (seed, epoch).
    A large pool pads little, and makes batches of lines that are alike, whose gradients lead a
    little astray; a pool of 1 leaves every batch to chance. "stored": lines come in the order
    given, in every epoch. The last lines make a smaller batch; none is dropped. Padding is `pad_id`
    in inputs and targets.

    Raises `DataError` where there is no line.
    """

    def __init__(
        self,
        lines: LineArray,
        *,
        batch_size: int,
        boundary_id: int,
        pad_id: int,
        seed: int,
        order: LineOrder,
        length_pool: int = 1,
    ) -> None:
        if batch_size < 1:
            raise SettingError("batch_size must be an int >= 1", got=str(batch_size))
        if length_pool < 1:
            raise SettingError("length_pool must be an int >= 1", got=str(length_pool))
        if len(lines) == 0:
            raise DataError("there is no line to learn from", got="0 lines", allowed="at least 1")
        self.lines, self.batch_size, self.order = lines, batch_size, order
        self.length_pool = length_pool
        self.boundary_id, self.pad_id, self.seed = boundary_id, pad_id, seed
        self._ids_N = np.asarray(lines.ids)
        self._num_targets = int(lines.lengths_N.sum()) + len(lines)
        # The order of the epoch last asked for: one epoch is held at a time.
        self._epoch_at_hand = -1
        self._lines_in_order_N: npt.NDArray[np.int64] = np.arange(len(lines))
        self._batches_in_order_N: npt.NDArray[np.int64] = np.arange(self.batches_per_epoch(0))

    @property
    def num_targets(self) -> int:
        """Targets in one epoch: the tokens of every line and one stop mark each."""
        return self._num_targets

    @property
    def num_sequences(self) -> int:
        """Lines."""
        return len(self.lines)

    def batches_per_epoch(self, epoch: int) -> int:
        """Return ceil(lines / batch_size), the same in every epoch."""
        return -(-len(self.lines) // self.batch_size)

    def line_numbers(self, epoch: int, index: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the lines in one batch, row by row: [B] int64."""
        if not 0 <= index < self.batches_per_epoch(epoch):
            raise IndexError(f"batch {index} of {self.batches_per_epoch(epoch)}")
        if self.order == "shuffled" and epoch != self._epoch_at_hand:
            self._arrange(epoch)
        first = int(self._batches_in_order_N[index]) * self.batch_size
        return self._lines_in_order_N[first : first + self.batch_size]

    def batch(self, epoch: int, index: int) -> TokenBatch:
        """Return batch `index` of `epoch`: as wide as its longest line and its stop mark."""
        rows_B = self.line_numbers(epoch, index)
        lengths_B = self.lines.lengths_N[rows_B]
        starts_B = self.lines.starts_N[rows_B]
        shape = (len(rows_B), int(lengths_B.max()) + 1)
        inputs_BT = np.full(shape, self.pad_id, dtype=np.int64)
        targets_BT = np.full(shape, self.pad_id, dtype=np.int64)
        inputs_BT[:, 0] = self.boundary_id
        targets_BT[np.arange(shape[0]), lengths_B] = self.boundary_id
        steps_T = np.arange(shape[1] - 1)
        inside_BT = steps_T < lengths_B[:, None]
        tokens_N = self._ids_N[(starts_B[:, None] + steps_T)[inside_BT]]
        inputs_BT[:, 1:][inside_BT] = tokens_N
        targets_BT[:, :-1][inside_BT] = tokens_N
        return TokenBatch(
            torch.from_numpy(inputs_BT),
            torch.from_numpy(targets_BT),
            torch.from_numpy(lengths_B + 1),
            continues=False,
        )

    def _arrange(self, epoch: int) -> None:
        """Work out the order of one epoch from (seed, epoch) alone, and keep it at hand."""
        draw = generator(stream_seed(self.seed, "order") + epoch, "order")
        shuffled_N = torch.randperm(len(self.lines), generator=draw).numpy()
        pools_N = np.arange(len(shuffled_N)) // (self.length_pool * self.batch_size)
        by_length_N = np.lexsort((self.lines.lengths_N[shuffled_N], pools_N))
        self._lines_in_order_N = shuffled_N[by_length_N]
        num_batches = self.batches_per_epoch(epoch)
        self._batches_in_order_N = torch.randperm(num_batches, generator=draw).numpy()
        self._epoch_at_hand = epoch
