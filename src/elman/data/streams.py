"""One long sequence cut into contiguous lanes, with nothing left over."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from elman.data.batches import TokenBatch
from elman.data.token_array import TokenArray
from elman.errors import DataError, SettingError


@dataclass(frozen=True)
class StreamFit:
    """Lanes and window that a stream can fill; `notice` says what was reduced, or is empty."""

    batch_size: int
    window: int
    notice: str


def fit_stream(
    num_ids: int, *, batch_size: int, window: int, boundary_id: int | None = None
) -> StreamFit:
    """Return the lanes and the window to use for a stream of `num_ids` ids.

    A stream of at least batch_size · window targets is left as asked for. A shorter one gets a
    window of at most its number of targets, and as many lanes as fill that window: fewer, longer
    lanes learn from the same targets in the same number of updates, with more context. Raises
    `DataError` where there is nothing to predict.
    """
    _require_sizes(batch_size, window)
    num_targets = _count_targets(num_ids, boundary_id)
    new_window = min(window, num_targets)
    lanes = min(batch_size, num_targets // new_window)
    if (lanes, new_window) == (batch_size, window):
        return StreamFit(batch_size, window, "")
    notice = (
        f"the text has {num_targets:,} tokens to predict, fewer than batch_size {batch_size} × "
        f"window {window}: using batch_size {lanes} and window {new_window}"
    )
    return StreamFit(lanes, new_window, notice)


class StreamBatches:
    """Windows over B contiguous lanes of a stream; every id but the first is a target once.

    With N targets, lane b holds N // B of them, the first N mod B lanes one more, so that the
    longest lane has ceil(N / B). Batch i holds positions i·T … i·T + T - 1 of each lane; a lane
    that has ended is empty there (lengths_B). Batch 0 starts from zeros, all others continue.
    `boundary_id`, where given, is a start mark before the first id, so that this is predicted too.
    Differs from the usual `batchify`, which drops up to B - 1 targets and the first of each lane.

    ids: [N] integers, a `TokenArray` or a NumPy array. Raises `DataError` before anything is built
    where there are fewer targets than lanes; `fit_stream` gives sizes that do.
    """

    def __init__(
        self,
        ids: TokenArray | npt.NDArray[np.integer],
        *,
        batch_size: int,
        window: int,
        boundary_id: int | None = None,
    ) -> None:
        _require_sizes(batch_size, window)
        self.ids_N = np.asarray(ids)
        self.batch_size, self.window, self.boundary_id = batch_size, window, boundary_id
        self._num_targets = _count_targets(len(self.ids_N), boundary_id)
        if self._num_targets < batch_size:
            raise DataError(
                f"a stream in {batch_size} lanes needs a token to predict in each",
                got=f"{len(self.ids_N)} tokens",
                allowed=f"at least {batch_size + (boundary_id is None)} tokens",
                hint="lower training.batch_size or give more text",
            )
        short, num_longer = divmod(self._num_targets, batch_size)
        lanes_B = np.arange(batch_size, dtype=np.int64)
        self._lane_lengths_B = short + (lanes_B < num_longer)
        self._lane_starts_B = lanes_B * short + np.minimum(lanes_B, num_longer)
        self.lane_length = int(self._lane_lengths_B[0])

    @property
    def num_targets(self) -> int:
        """Targets in one epoch: every id but the first, or every id after a start mark."""
        return self._num_targets

    @property
    def num_sequences(self) -> int:
        """Lanes."""
        return self.batch_size

    def batches_per_epoch(self, epoch: int) -> int:
        """Return ceil(lane_length / window), the same in every epoch."""
        return -(-self.lane_length // self.window)

    def batch(self, epoch: int, index: int) -> TokenBatch:
        """Return window `index` of every lane; the same in every epoch. Padding is id 0."""
        if not 0 <= index < self.batches_per_epoch(epoch):
            raise IndexError(f"batch {index} of {self.batches_per_epoch(epoch)}")
        first = index * self.window
        width = min(self.window, self.lane_length - first)
        lengths_B = np.clip(self._lane_lengths_B - first, 0, width)
        positions_BT = (self._lane_starts_B + first)[:, None] + np.arange(width + 1)
        if self.boundary_id is not None:
            positions_BT -= 1  # the start mark stands before position 0
        ids_BT = np.take(self.ids_N, positions_BT, mode="clip").astype(np.int64)
        if self.boundary_id is not None and index == 0:
            ids_BT[0, 0] = self.boundary_id
        inputs_BT, targets_BT = ids_BT[:, :-1].copy(), ids_BT[:, 1:].copy()
        if lengths_B[-1] < width:
            padding_BT = np.arange(width) >= lengths_B[:, None]
            inputs_BT[padding_BT] = 0
            targets_BT[padding_BT] = 0
        return TokenBatch(
            torch.from_numpy(inputs_BT),
            torch.from_numpy(targets_BT),
            torch.from_numpy(lengths_B),
            continues=index > 0,
        )


def _count_targets(num_ids: int, boundary_id: int | None) -> int:
    num_targets = num_ids - (boundary_id is None)
    if num_targets < 1:
        raise DataError(
            "a stream needs a token to predict",
            got=f"{num_ids} token{'' if num_ids == 1 else 's'}",
            allowed="at least 2 tokens" if boundary_id is None else "at least 1 token",
            hint="the first token is context only" if boundary_id is None else "",
        )
    return num_targets


def _require_sizes(batch_size: int, window: int) -> None:
    for name, value in (("batch_size", batch_size), ("window", window)):
        if value < 1:
            raise SettingError(f"{name} must be an int >= 1", got=str(value))
