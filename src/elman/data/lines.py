"""Lines as sequences of their own, each read once an epoch."""

import numpy as np
import numpy.typing as npt
import torch

from elman.data.batches import TokenBatch
from elman.data.order import EpochOrder, RowOrder
from elman.data.token_array import LineArray


class LineBatches:
    """Batches of whole lines: input [S] x1 … xn, target x1 … xn [S], n + 1 targets a line.

    Which lines come together is the matter of `EpochOrder`. Padding is `pad_id` in inputs and
    targets. Raises `DataError` where there is no line.
    """

    def __init__(
        self,
        lines: LineArray,
        *,
        batch_size: int,
        boundary_id: int,
        pad_id: int,
        seed: int,
        order: RowOrder,
        length_pool: int = 1,
    ) -> None:
        self._order = EpochOrder(
            lines.lengths_N,
            batch_size=batch_size,
            seed=seed,
            order=order,
            length_pool=length_pool,
        )
        self.lines, self.boundary_id, self.pad_id = lines, boundary_id, pad_id
        self._ids_N = np.asarray(lines.ids)
        self._num_targets = int(lines.lengths_N.sum()) + len(lines)

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
        return self._order.batches_per_epoch

    def line_numbers(self, epoch: int, index: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the lines in one batch, row by row: [B] int64."""
        return self._order.rows(epoch, index)

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
