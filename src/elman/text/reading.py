r"""Files, folders and standard input as text: decoded strictly, with \n as line end."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elman.errors import DataError
from elman.text.encodings import (
    HEAD_BYTES,
    StrictDecoder,
    checked_encoding,
    refuse_other_bytes,
)
from elman.text.holding import HeldText
from elman.text.raw_files import is_standard_input, read_blocks

CHUNK_CHARACTERS = 1 << 20
MARK = "\ufeff"
# Unicode's format characters (Cf), which show nothing of their own or only steer what is shown:
# soft hyphen, zero-width and direction marks, U+FEFF, tags and others. First, one past the last.
FORMAT_EDGES = (
    *(0xAD, 0xAE, 0x600, 0x606, 0x61C, 0x61D, 0x6DD, 0x6DE, 0x70F, 0x710, 0x890, 0x892),
    *(0x8E2, 0x8E3, 0x180E, 0x180F, 0x200B, 0x2010, 0x202A, 0x202F, 0x2060, 0x2065),
    *(0x2066, 0x2070, 0xFEFF, 0xFF00, 0xFFF9, 0xFFFC, 0x110BD, 0x110BE, 0x110CD, 0x110CE),
    *(0x13430, 0x13440, 0x1BCA0, 0x1BCA4, 0x1D173, 0x1D17B, 0xE0001, 0xE0002, 0xE0020, 0xE0080),
)


@dataclass(frozen=True)
class TextReport:
    r"""What was read of one file.

    bytes_read: bytes after decompression. characters, utf8_bytes, lines, sha256: of the decoded
    text, its mark removed and \r\n made \n, before any normal form. invisible: format characters,
    U+FEFF within the text among them. carriage_returns: those that stand alone and are kept.
    """

    name: str
    bytes_read: int
    characters: int
    utf8_bytes: int
    lines: int
    invisible: int
    nul: int
    carriage_returns: int
    crlf: int
    sha256: str


class TextSource:
    """One file or standard input; `chunks` may be called again for a file, each time the same.

    `name` is what errors and reports call it, the path unless given.
    """

    def __init__(self, path: str, *, encoding: str = "utf-8", name: str = "") -> None:
        self.path, self.encoding = path, checked_encoding(encoding)
        self.name = name or ("standard input" if is_standard_input(path) else path)
        self._report: TextReport | None = None

    def chunks(self, chunk_characters: int = CHUNK_CHARACTERS) -> Iterator[str]:
        r"""Yield the text in pieces of at most about `chunk_characters`, one in memory at a time.

        gzip is known by its first bytes, whatever the name. A mark at the start of the file is
        removed, \r\n becomes \n, also where it falls on the border of two pieces; a lone \r and NUL
        are kept. Raises `DataError` for what cannot be read or decoded, and for a file of nothing.
        """
        tally = _Tally(self.name)
        for text in _with_line_ends_translated(self._decoded(chunk_characters, tally), tally):
            tally.add(text)
            yield text
        if not tally.characters:
            raise _nothing_in(self.name)
        self._report = tally.report()

    def report(self) -> TextReport:
        """Return what was read; only once `chunks` was read to its end."""
        if self._report is None:
            raise RuntimeError("a report is there only once all chunks were read")
        return self._report

    def _decoded(self, chunk_characters: int, tally: "_Tally") -> Iterator[str]:
        decoder = StrictDecoder(self.name, self.encoding)
        blocks = read_blocks(self.path, self.name, chunk_characters, head_bytes=HEAD_BYTES)
        refuse_other_bytes(next(blocks), self.encoding, self.name)
        started = False
        for block in blocks:
            tally.bytes_read += len(block)
            text = decoder.decode(block, final=not block)
            if text:
                yield text if started else text.removeprefix(MARK)
                started = True


def open_sources(paths: Sequence[str | Path], *, encoding: str = "utf-8") -> list[TextSource]:
    """Return a source for each path, in order; `-` is standard input.

    A folder stands for the files in it and in its folders, sorted by path; hidden and empty ones
    are left out. Raises `DataError` for what is missing, empty or must not be read,
    `SettingError` for an unknown encoding.
    """
    found: list[str] = []
    for path in map(str, paths):
        if is_standard_input(path):
            found.append(path)
        elif Path(path).is_dir():
            found.extend(_files_in(Path(path)))
        else:
            _check_file(Path(path))
            found.append(path)
    if not found:
        raise DataError("there is no text to read", hint="name a file, a folder or - as data")
    return [TextSource(path, encoding=encoding) for path in found]


def read_text(
    paths: Sequence[str | Path], *, encoding: str = "utf-8"
) -> tuple[str, list[TextReport]]:
    """Return the text of all paths joined, as `joined_chunks` joins, and a report for each file."""
    sources = open_sources(paths, encoding=encoding)
    text = "".join(joined_chunks(source.chunks() for source in sources))
    return text, [source.report() for source in sources]


def joined_chunks(texts: Iterable[Iterable[str]]) -> Iterator[str]:
    r"""Yield the chunks of all texts; a \n comes between two where the first does not end with one.

    Otherwise the last word of a file and the first of the next would be one word, found in neither.
    """
    last = "\n"
    for chunks in texts:
        begun = False
        for chunk in filter(None, chunks):
            if not begun and last != "\n":
                yield "\n"
            begun = True
            yield chunk
            last = chunk[-1]


def iter_lines(chunks: Iterable[str]) -> Iterator[str]:
    r"""Yield the lines of a text without their ends; \n alone ends a line, the last one needs none.

    U+2028, U+0085, form feeds and whatever else `str.splitlines` cuts at stay within their line.
    Raises `DataError` for a line of more than `LONGEST_HELD` characters.
    """
    held = HeldText("a line")
    for chunk in chunks:
        first, *others = chunk.split("\n")
        if not others:
            held.add(first)
            continue
        yield held.take(first)
        yield from others[:-1]
        held.add(others[-1])
    if last := held.take():
        yield last


def _files_in(folder: Path) -> list[str]:
    def refuse(error: OSError) -> None:
        raise error

    try:
        paths = [
            (Path(where) / name).relative_to(folder)
            for where, _, names in os.walk(folder, onerror=refuse)
            for name in names
        ]
        shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
        files = [
            folder / path
            for path in sorted(shown, key=lambda path: path.parts)
            if (folder / path).is_file() and (folder / path).stat().st_size
        ]
    except OSError as error:
        what = error.filename or folder
        raise DataError(f"{what} cannot be read", got=error.strerror or "an error") from None
    if not files:
        raise DataError(f"the folder {folder} holds no file with text")
    for path in files:
        _check_file(path)
    return [str(path) for path in files]


def _check_file(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path} does not exist", hint="check its name and folder")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} must not be read by this user")
    if path.is_file() and not path.stat().st_size:
        raise _nothing_in(str(path))


def _nothing_in(name: str) -> DataError:
    return DataError(f"{name} is empty", got="0 characters", hint="name a file with text")


def _with_line_ends_translated(texts: Iterable[str], tally: "_Tally") -> Iterator[str]:
    r"""Make \r\n to \n; a \r at the end of a piece waits for the next one."""
    held = ""
    for text in texts:
        text = held + text
        held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")
        if "\r" in text:
            tally.crlf += text.count("\r\n")
            text = text.replace("\r\n", "\n")
        if text:
            yield text
    if held:
        yield held


class _Tally:
    """Counts what a report tells, piece by piece."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes_read = self.characters = self.crlf = 0
        self._utf8_bytes = self._line_ends = self._invisible = self._nul = self._returns = 0
        self._digest = hashlib.sha256()
        self._last = "\n"

    def add(self, text: str) -> None:
        try:
            encoded = text.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(
                f"{self.name} holds half of a surrogate pair, which is no character"
            ) from None
        self._digest.update(encoded)
        self.characters += len(text)
        self._utf8_bytes += len(encoded)
        self._line_ends += text.count("\n")
        self._nul += text.count("\0")
        self._returns += text.count("\r")
        if len(encoded) != len(text):
            self._invisible += count_format_characters(text)
        self._last = text[-1]

    def report(self) -> TextReport:
        return TextReport(
            name=self.name,
            bytes_read=self.bytes_read,
            characters=self.characters,
            utf8_bytes=self._utf8_bytes,
            lines=self._line_ends + (self._last != "\n"),
            invisible=self._invisible,
            nul=self._nul,
            carriage_returns=self._returns,
            crlf=self.crlf,
            sha256=self._digest.hexdigest(),
        )


def count_format_characters(text: str) -> int:
    """Return how many characters of `text` are of Unicode's category Cf."""
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    codes = codes[codes >= FORMAT_EDGES[0]]
    # An odd number of edges at or below a code point: it is inside one of the ranges.
    edges = np.array(FORMAT_EDGES, dtype=np.uint32)
    return int(np.count_nonzero(np.searchsorted(edges, codes, side="right") & 1))
