"""Ids on disk, mapped into memory page by page, so that a text may be larger than memory."""

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from elman.atomic_files import writing_bytes
from elman.errors import DataError

ID_TYPES = (np.dtype("uint8"), np.dtype("<u2"), np.dtype("<i4"))
HEADER_BYTES = 128
DIGEST_CHUNK = 1 << 18
LINES_AT_ONCE = 4096


class TokenArray:
    """Ids of one text in order, read-only: [N] uint8, uint16 or int32.

    `len`, slices and `numpy.asarray` give views of the same memory; nothing is read before its use.
    """

    def __init__(self, ids_N: npt.NDArray[np.integer]) -> None:
        if ids_N.ndim != 1 or ids_N.dtype not in ID_TYPES:
            raise DataError(
                "ids must be a flat array of uint8, uint16 or int32",
                got=f"{ids_N.ndim} axes of {ids_N.dtype}",
            )
        self._ids_N = np.asarray(ids_N)

    def __len__(self) -> int:
        return len(self._ids_N)

    def __getitem__(self, where: slice) -> npt.NDArray[np.integer]:
        return self._ids_N[where]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if dtype is None and not copy:
            return self._ids_N
        return self._ids_N.astype(dtype or self._ids_N.dtype)

    def digest(self) -> str:
        """Return the SHA-256 of the ids as little-endian int32, however they are stored."""
        return _digest_of(self._ids_N, "<i4").hexdigest()


class LineArray:
    """Ids of many lines: line i is ids[starts[i] : starts[i] + lengths[i]], no boundary marks.

    ids: all lines joined; starts_N, lengths_N: [number of lines] int64.
    """

    def __init__(
        self,
        ids: TokenArray,
        starts_N: npt.NDArray[np.int64],
        lengths_N: npt.NDArray[np.int64],
    ) -> None:
        self.ids, self.starts_N, self.lengths_N = ids, starts_N, lengths_N
        if len(starts_N) != len(lengths_N):
            raise DataError("each line needs a start and a length")
        if len(starts_N) and (
            min(starts_N.min(), lengths_N.min()) < 0 or (starts_N + lengths_N).max() > len(ids)
        ):
            raise DataError("a line reaches outside the ids stored for it", got=f"{len(ids)} ids")

    def __len__(self) -> int:
        return len(self.lengths_N)

    def line(self, index: int) -> npt.NDArray[np.integer]:
        """Return the ids of one line, without boundary marks."""
        start = int(self.starts_N[index])
        return self.ids[start : start + int(self.lengths_N[index])]

    def __iter__(self) -> Iterator[npt.NDArray[np.integer]]:
        return (self.line(index) for index in range(len(self)))

    def framed(self, boundary_id: int) -> Iterator[npt.NDArray[np.integer]]:
        """Yield every line as [S] x1 … xn [S], int64, in stored order."""
        mark = np.array([boundary_id], dtype=np.int64)
        return (np.concatenate([mark, line, mark]) for line in self)

    def select(self, indices_N: npt.NDArray[np.int64]) -> "LineArray":
        """Return the lines numbered `indices_N`, in that order, over the same stored ids."""
        return LineArray(self.ids, self.starts_N[indices_N], self.lengths_N[indices_N])

    def digest(self) -> str:
        """Return the SHA-256 of the lengths as int64 followed by every line's ids as int32."""
        digest = _digest_of(self.lengths_N, "<i8")
        for start in range(0, len(self), LINES_AT_ONCE):
            lines = map(self.line, range(start, min(start + LINES_AT_ONCE, len(self))))
            digest.update(np.concatenate(list(lines)).astype("<i4").tobytes())
        return digest.hexdigest()


def id_type(vocabulary_size: int) -> np.dtype[Any]:
    """Return the smallest of uint8, uint16 and int32 that holds every id of the vocabulary."""
    if vocabulary_size <= 1 << 8:
        return ID_TYPES[0]
    return ID_TYPES[1] if vocabulary_size <= 1 << 16 else ID_TYPES[2]


def join_lines(lines: Iterable[npt.ArrayLike], vocabulary_size: int) -> LineArray:
    """Return the lines as a `LineArray` in memory; raises `DataError` for ids ≥ vocabulary_size."""
    kind = id_type(vocabulary_size)
    parts = [_checked(np.asarray(line, dtype=np.int64), vocabulary_size) for line in lines]
    lengths_N = np.array([len(part) for part in parts], dtype=np.int64)
    ids_N = np.concatenate([np.empty(0, kind), *(part.astype(kind) for part in parts)])
    return LineArray(TokenArray(ids_N), np.cumsum(lengths_N) - lengths_N, lengths_N)


def write_token_array(
    path: Path, chunks: Iterable[npt.NDArray[np.integer]], vocabulary_size: int
) -> TokenArray:
    """Write the joined chunks to the `.npy` file `path`, one chunk at a time, and open it.

    The file appears under its name only when complete. An id outside 0 … vocabulary_size - 1 raises
    `DataError`.
    """
    kind = id_type(vocabulary_size)
    checked = (_checked(chunk, vocabulary_size).astype(kind) for chunk in chunks)
    _write_flat(path, checked, kind)
    return open_token_array(path)


def reversed_chunks(ids: TokenArray) -> Iterator[npt.NDArray[np.integer]]:
    """Yield the ids from the last to the first, chunk by chunk."""
    for stop in range(len(ids), 0, -DIGEST_CHUNK):
        yield ids[max(stop - DIGEST_CHUNK, 0) : stop][::-1]


def open_token_array(path: Path) -> TokenArray:
    """Map the file written by `write_token_array`; anything else raises `DataError`."""
    return TokenArray(_map_flat(path))


def write_line_array(
    folder: Path, name: str, lines: Iterable[npt.NDArray[np.integer]], vocabulary_size: int
) -> LineArray:
    """Write the lines to `NAME.ids.npy` and `NAME.offsets.npy` in `folder`, and open them.

    Ids are written as they come; the offsets, eight bytes a line, are kept until the end.
    """
    offsets = array("q", [0])

    def gathered() -> Iterator[npt.NDArray[np.integer]]:
        group: list[npt.NDArray[np.integer]] = []
        for line in lines:
            group.append(line)
            offsets.append(offsets[-1] + len(line))
            if len(group) == LINES_AT_ONCE:
                yield np.concatenate(group)
                group = []
        if group:
            yield np.concatenate(group)

    write_token_array(folder / f"{name}.ids.npy", gathered(), vocabulary_size)
    kind = np.dtype("<i8")
    _write_flat(folder / f"{name}.offsets.npy", [np.frombuffer(offsets, dtype=np.int64)], kind)
    return open_line_array(folder, name)


def open_line_array(folder: Path, name: str) -> LineArray:
    """Map the two files written by `write_line_array`; files that do not fit raise `DataError`."""
    ids = open_token_array(folder / f"{name}.ids.npy")
    offsets_N = _map_flat(folder / f"{name}.offsets.npy")
    if offsets_N.dtype != np.int64 or not len(offsets_N) or int(offsets_N[-1]) != len(ids):
        raise DataError(f"{name}.offsets.npy does not fit {name}.ids.npy", got=f"{len(ids)} ids")
    starts_N = offsets_N.astype(np.int64, copy=False)
    return LineArray(ids, starts_N[:-1], np.diff(starts_N))


def _checked(ids_N: npt.NDArray[np.integer], vocabulary_size: int) -> npt.NDArray[np.integer]:
    if len(ids_N) and not 0 <= int(ids_N.min()) <= int(ids_N.max()) < vocabulary_size:
        outside = ids_N.min() if ids_N.min() < 0 else ids_N.max()
        raise DataError(
            "an id is outside the vocabulary",
            got=str(outside),
            allowed=f"0 to {vocabulary_size - 1}",
        )
    return ids_N


def _write_flat(path: Path, chunks: Iterable[npt.NDArray[np.integer]], kind: np.dtype[Any]) -> None:
    with writing_bytes(path) as file:
        file.write(bytes(HEADER_BYTES))
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, dtype=kind).data)
        _write_header(file, kind)


def _write_header(file: BinaryIO, kind: np.dtype[Any]) -> None:
    """Put the header of the .npy format, version 1.0, before the data already written."""
    length = (file.tell() - HEADER_BYTES) // kind.itemsize
    magic = np.lib.format.magic(1, 0)
    text = f"{{'descr': '{kind.str}', 'fortran_order': False, 'shape': ({length},), }}"
    size = HEADER_BYTES - len(magic) - 2
    file.seek(0)
    file.write(magic + size.to_bytes(2, "little") + text.ljust(size - 1).encode("ascii") + b"\n")
    file.seek(0, os.SEEK_END)


def _map_flat(path: Path) -> npt.NDArray[np.integer]:
    try:
        # A file of no ids has no page to map.
        empty = path.stat().st_size <= HEADER_BYTES
        loaded = np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is not a file of ids", got=str(error)) from None
    if not isinstance(loaded, np.ndarray) or loaded.ndim != 1 or loaded.dtype.kind not in "ui":
        raise DataError(f"{path} is not a file of ids")
    return np.asarray(loaded)


def _digest_of(array_N: npt.NDArray[np.integer], kind: str) -> "hashlib._Hash":
    digest = hashlib.sha256()
    for start in range(0, len(array_N), DIGEST_CHUNK):
        digest.update(array_N[start : start + DIGEST_CHUNK].astype(kind).data)
    return digest
