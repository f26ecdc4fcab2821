"""The bytes of a file or of standard input, decompressed where they are gzip."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from elman.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
STANDARD_INPUT_FILE = "/dev/stdin"


def is_standard_input(name: str) -> bool:
    """Return whether `name`, as a person gives the name of a file, means standard input."""
    return name in ("-", STANDARD_INPUT_FILE)


def read_blocks(path: str, name: str, size: int, *, head_bytes: int) -> Iterator[bytes]:
    """Yield first up to `head_bytes` of the start, to look at, then all bytes in blocks, then b"".

    Blocks have at most `size` bytes. The start is yielded once more as part of the blocks. gzip is
    known by its first two bytes and never by a name (`is_standard_input` apart). Raises `DataError`
    where the file cannot be read, or is damaged gzip.
    """
    size = max(1, size)
    try:
        with _opened(path) as stream:
            start = _read_up_to(stream, len(GZIP_MAGIC))
            rejoined = io.BufferedReader(_Rejoined(start, stream))
            if start == GZIP_MAGIC:
                yield from _blocks(gzip.GzipFile(fileobj=rejoined, mode="rb"), size, head_bytes)
            else:
                yield from _blocks(rejoined, size, head_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name} is damaged gzip", got=str(error)) from None
    except OSError as error:
        raise DataError(f"{name} cannot be read", got=error.strerror or str(error)) from None


def _blocks(stream: BinaryIO | gzip.GzipFile, size: int, head_bytes: int) -> Iterator[bytes]:
    head = _read_up_to(stream, head_bytes)
    yield head
    for start in range(0, len(head), size):
        yield head[start : start + size]
    while block := stream.read(size):
        yield block
    yield b""


def _read_up_to(stream: BinaryIO | gzip.GzipFile, count: int) -> bytes:
    parts: list[bytes] = []
    while count and (part := stream.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if is_standard_input(path):
        yield sys.stdin.buffer  # left open: it belongs to the process
    else:
        with Path(path).open("rb") as file:
            yield file


class _Rejoined(io.RawIOBase):
    """Bytes that were read to be looked at, and after them the rest of the stream."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._start:
            taken = self._start[: len(buffer)]
            self._start = self._start[len(taken) :]
        else:
            taken = self._rest.read(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)
