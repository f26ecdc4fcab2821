"""Where a text or a list of lines is parted into what is learnt from and what is held out."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from elman.errors import SettingError
from elman.seeding import generator

SplitMode = Literal["tail", "shuffled"]
NEAR = 0.1
MOST_LINE_STARTS = 1 << 22


@dataclass(frozen=True)
class StreamSplit:
    """Three contiguous parts of a stream, in this order; a part not asked for is empty.

    Positions are those of the length that was given: characters, or ids. `notices` says, one line
    each, which part asked for was left empty because the text is too short.
    """

    train: slice
    valid: slice
    test: slice
    notices: tuple[str, ...]


@dataclass(frozen=True)
class LineSplit:
    """Numbers of the lines in each part, ascending, int64; a part not asked for is empty."""

    train_N: npt.NDArray[np.int64]
    valid_N: npt.NDArray[np.int64]
    test_N: npt.NDArray[np.int64]
    notices: tuple[str, ...]


class LineStarts:
    """Positions of line starts, ascending; of more than `most` every second, fourth, … is kept."""

    def __init__(self, most: int = MOST_LINE_STARTS) -> None:
        self._most, self._every, self._seen = most, 1, 0
        self._kept: list[npt.NDArray[np.int64]] = []
        self._num_kept = 0

    def add(self, starts_N: npt.NDArray[np.int64]) -> None:
        """Add the line starts of the text that follows."""
        chosen_N = starts_N[-self._seen % self._every :: self._every]
        self._seen += len(starts_N)
        self._kept.append(chosen_N)
        self._num_kept += len(chosen_N)
        while self._num_kept > self._most:
            halved_N = self.positions()[::2].copy()
            self._kept, self._num_kept, self._every = [halved_N], len(halved_N), 2 * self._every

    def positions(self) -> npt.NDArray[np.int64]:
        """Return the positions kept, [N] int64."""
        return np.concatenate([np.empty(0, dtype=np.int64), *self._kept])


def split_stream(
    length: int,
    *,
    valid_fraction: float,
    test_fraction: float,
    line_starts_N: npt.NDArray[np.int64] | None = None,
    min_part: int = 2,
) -> StreamSplit:
    """Part a stream of `length` positions: validation and test are cut from its tail.

    A cut goes to the nearest of `line_starts_N` (ascending, as `line_starts` gives them) if that
    moves it by at most a tenth of the part after it. Each part asked for gets at least `min_part`
    positions (2: one to read, one to predict) as long as training keeps as many; validation
    first. Raises `SettingError` for fractions that leave nothing to learn from.
    """
    num_valid, num_test, notices = _part_sizes(
        length, valid_fraction, test_fraction, min_part=min_part, unit="tokens"
    )
    test_at = _near_line_start(
        length - num_test, num_test, line_starts_N, min_part, before=num_valid + min_part
    )
    valid_at = _near_line_start(
        test_at - num_valid, num_valid, line_starts_N, min_part, before=min_part
    )
    return StreamSplit(
        slice(0, valid_at), slice(valid_at, test_at), slice(test_at, length), notices
    )


def split_lines(
    num_lines: int,
    *,
    valid_fraction: float,
    test_fraction: float,
    seed: int,
    mode: SplitMode,
) -> LineSplit:
    """Part lines 0 … num_lines - 1 by chance (the same for the same seed), or from the tail.

    Each part asked for gets at least one line as long as training keeps one; validation first.
    Raises `SettingError` for fractions that leave nothing to learn from.
    """
    num_valid, num_test, notices = _part_sizes(
        num_lines, valid_fraction, test_fraction, min_part=1, unit="lines"
    )
    order_N: npt.NDArray[np.int64] = np.arange(num_lines, dtype=np.int64)
    if mode == "shuffled":
        order_N = torch.randperm(num_lines, generator=generator(seed, "split")).numpy()
    test_at = num_lines - num_test
    valid_at = test_at - num_valid
    return LineSplit(
        np.sort(order_N[:valid_at]),
        np.sort(order_N[valid_at:test_at]),
        np.sort(order_N[test_at:]),
        notices,
    )


def split_labelled(
    labels_N: npt.NDArray[np.int64],
    *,
    valid_fraction: float,
    test_fraction: float,
    seed: int,
) -> LineSplit:
    """Part labelled rows by chance, the label of row i being labels_N[i]; each label spread evenly.

    The rows of a label are shuffled and set at even distances from 0 to 1; validation takes the
    rows nearest 0 of all labels, test those nearest 1. A label of n rows thus gives n · fraction of
    them to each part, up or down by less than one and the middle one of its rows to training first,
    so that what is held out has its labels in training. Sizes and errors as for `split_lines`.
    """
    num_rows = len(labels_N)
    num_valid, num_test, notices = _part_sizes(
        num_rows, valid_fraction, test_fraction, min_part=1, unit="rows"
    )
    shuffled_N = torch.randperm(num_rows, generator=generator(seed, "split")).numpy()
    by_label_N = shuffled_N[np.argsort(labels_N[shuffled_N], kind="stable")]
    _, counts_C = np.unique(labels_N, return_counts=True)
    within_N = np.arange(num_rows) - np.repeat(np.cumsum(counts_C) - counts_C, counts_C)
    places_N = np.empty(num_rows)
    places_N[by_label_N] = (within_N + 0.5) / np.repeat(counts_C, counts_C)
    order_N = shuffled_N[np.argsort(places_N[shuffled_N], kind="stable")]
    return LineSplit(
        np.sort(order_N[num_valid : num_rows - num_test]),
        np.sort(order_N[:num_valid]),
        np.sort(order_N[num_rows - num_test :]),
        notices,
    )


def line_starts(text: str) -> npt.NDArray[np.int64]:
    r"""Return the positions just after each \n of `text`, ascending; no other sign ends a line."""
    points_N = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.flatnonzero(points_N == ord("\n")).astype(np.int64) + 1


def _part_sizes(
    length: int, valid_fraction: float, test_fraction: float, *, min_part: int, unit: str
) -> tuple[int, int, tuple[str, ...]]:
    for name, fraction in (("valid_fraction", valid_fraction), ("test_fraction", test_fraction)):
        if not 0.0 <= fraction < 1.0:
            raise SettingError(f"data.{name} must be a share", got=str(fraction), allowed="0 to 1")
    if valid_fraction + test_fraction >= 1.0:
        raise SettingError(
            "data.valid_fraction and data.test_fraction together leave nothing to learn from",
            got=f"{valid_fraction} + {test_fraction}",
            allowed="a sum below 1",
        )
    sizes, notices = [], []
    left = length
    for name, fraction in (("validation", valid_fraction), ("test", test_fraction)):
        size = max(round(length * fraction), min_part) if fraction > 0 else 0
        if size and left - size < min_part:
            size = 0
            notices.append(f"no {name} part is split off: {length} {unit} are too few")
        sizes.append(size)
        left -= size
    return sizes[0], sizes[1], tuple(notices)


def _near_line_start(
    cut: int, size: int, line_starts_N: npt.NDArray[np.int64] | None, min_part: int, *, before: int
) -> int:
    """Return the line start nearest to `cut` if it is near and leaves the parts long enough.

    At least `min_part` positions must be left after it, and `before` in front of it.
    """
    if line_starts_N is None or len(line_starts_N) == 0 or size == 0:
        return cut
    after = int(np.searchsorted(line_starts_N, cut))
    around_N = line_starts_N[max(after - 1, 0) : after + 1]
    nearest = int(around_N[np.argmin(np.abs(around_N - cut))])
    far = abs(nearest - cut) > NEAR * size
    return cut if far or size + cut - nearest < min_part or nearest < before else nearest
