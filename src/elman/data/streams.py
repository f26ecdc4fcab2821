"""One long sequence cut into contiguous lanes, with nothing left over."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from elman.data.batches import TokenBatch
from elman.data.token_array import TokenArray
from elman.errors import DataError, SettingError

LEAST_WINDOW = 5
"""The shortest of windows by chance."""
HALVED = 0.05
"""The share of them that is drawn around half the window."""


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
    With `deviation` > 0 windows have lengths by chance, drawn from `seed` for each epoch anew
    (`window_ends`), and batch i holds the i-th of them. Differs from the usual `batchify`, which
    drops up to B - 1 targets and the first of each lane.

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
        deviation: float = 0.0,
        seed: int = 0,
    ) -> None:
        _require_sizes(batch_size, window)
        self._deviation, self._seed = deviation, seed
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
        self._drawn: tuple[int, npt.NDArray[np.int64]] | None = None

    @property
    def num_targets(self) -> int:
        """Targets in one epoch: every id but the first, or every id after a start mark."""
        return self._num_targets

    @property
    def num_sequences(self) -> int:
        """Lanes."""
        return self.batch_size

    def batches_per_epoch(self, epoch: int) -> int:
        """Return ceil(lane_length / window), or how many windows by chance fill a lane."""
        if self._deviation:
            return len(self._ends(epoch))
        return -(-self.lane_length // self.window)

    def batch(self, epoch: int, index: int) -> TokenBatch:
        """Return window `index` of every lane, the same in every epoch unless by chance.

        Padding is id 0.
        """
        if not 0 <= index < self.batches_per_epoch(epoch):
            raise IndexError(f"batch {index} of {self.batches_per_epoch(epoch)}")
        first = index * self.window
        width = min(self.window, self.lane_length - first)
        if self._deviation:
            ends = self._ends(epoch)
            first = int(ends[index - 1]) if index else 0
            width = int(ends[index]) - first
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

    def _ends(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return where the windows of an epoch end; those of the last epoch asked for are kept."""
        if self._drawn is None or self._drawn[0] != epoch:
            ends_N = window_ends(
                self.lane_length,
                window=self.window,
                deviation=self._deviation,
                seed=self._seed,
                epoch=epoch,
            )
            self._drawn = epoch, ends_N
        return self._drawn[1]


def window_ends(
    lane_length: int, *, window: int, deviation: float, seed: int, epoch: int
) -> npt.NDArray[np.int64]:
    """Return where windows of lengths by chance end, ascending, the last at `lane_length`.

    A length is drawn from a normal distribution around `window`, with probability 0.05 around half
    of it, and is at least LEAST_WINDOW (or `window`, where that is less). Source: S. Merity et al.,
    arXiv:1708.02182, section 5. The same seed and epoch give the same ends.
    """
    draw = np.random.default_rng([seed, epoch])
    most = -(-lane_length // max(1, min(LEAST_WINDOW, window)))
    means_N = np.where(draw.random(most) < HALVED, window / 2, window)
    lengths_N = np.maximum(
        draw.normal(means_N, deviation).astype(np.int64), min(LEAST_WINDOW, window)
    )
    ends_N: npt.NDArray[np.int64] = np.cumsum(lengths_N)
    last = int(np.searchsorted(ends_N, lane_length))
    ends_N = ends_N[: last + 1].copy()
    ends_N[-1] = lane_length
    return ends_N


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
