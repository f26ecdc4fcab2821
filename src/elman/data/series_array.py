"""Series of numbers on disk, mapped into memory, one after another."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.atomic_files import writing_bytes
from elman.errors import DataError


class SeriesArray:
    """Numbers of many series: series i is values[starts[i] : starts[i] + lengths[i]].

    values_N [N] float32; starts_N, lengths_N [number of series] int64. Read-only.
    """

    def __init__(self, values_N: npt.NDArray[np.float32], lengths_N: npt.NDArray[np.int64]) -> None:
        self.values_N, self.lengths_N = values_N, lengths_N
        self.starts_N: npt.NDArray[np.int64] = np.cumsum(lengths_N) - lengths_N
        if values_N.ndim != 1 or int(lengths_N.sum()) != len(values_N):
            raise DataError("lengths of series must add up to the numbers stored for them")

    def __len__(self) -> int:
        return len(self.lengths_N)

    def series(self, index: int) -> npt.NDArray[np.float32]:
        """Return the numbers of one series, [T] float32."""
        start = int(self.starts_N[index])
        return self.values_N[start : start + int(self.lengths_N[index])]

    def digest(self) -> str:
        """Return the SHA-256 of the lengths as int64 followed by all numbers as float32."""
        digest = hashlib.sha256(self.lengths_N.astype("<i8").tobytes())
        digest.update(self.values_N.astype("<f4").tobytes())
        return digest.hexdigest()


def write_series_array(path: Path, rows: Iterable[npt.NDArray[np.float32]]) -> SeriesArray:
    """Write the numbers of all rows to the file `path`, in order, and map them into memory."""
    lengths = []
    with writing_bytes(path) as file:
        for row in rows:
            file.write(row.astype("<f4").tobytes())
            lengths.append(len(row))
    total = sum(lengths)
    values_N: npt.NDArray[np.float32] = np.zeros(0, dtype=np.float32)
    if total:  # a file of nothing has no page to map
        values_N = np.memmap(path, dtype="<f4", mode="r", shape=(total,))
    return SeriesArray(values_N, np.array(lengths, dtype=np.int64))
