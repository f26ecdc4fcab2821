"""A corpus: files, folders, standard input or a built-in text, read as often as preparing needs."""

import hashlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from elman.atomic_files import writing_bytes
from elman.data.corpora import language_reference, unicode_names
from elman.data.repeats import FirstSeen, drop_repeated_lines, drop_repeated_paragraphs
from elman.errors import DataError
from elman.text.raw_files import is_standard_input
from elman.text.reading import (
    TextReport,
    TextSource,
    iter_lines,
    joined_chunks,
    open_sources,
)

BUILT_IN_PREFIX = "builtin:"
BUILT_IN_CORPORA = ("language-reference", "unicode-names")


@dataclass(frozen=True)
class Corpus:
    """Text that can be read again and again, piece by piece, always the same.

    `repeats` "drop" leaves out paragraphs (of `chunks`) or lines (of `lines`) met before. `spooled`
    holds the copies of names that can be read only once.
    """

    names: tuple[str, ...]
    encoding: str
    repeats: Literal["keep", "drop"]
    spooled: Mapping[str, Path] = field(default_factory=dict)

    def chunks(self, reports: list[TextReport] | None = None) -> Iterator[str]:
        """Yield the text in order; `reports` receives what was seen of each file, once read.

        A line end is put between two files where the first has none.
        """
        pieces = joined_chunks(self._sources(reports))
        if self.repeats == "drop":
            return drop_repeated_paragraphs(pieces, FirstSeen())
        return pieces

    def lines(self, reports: list[TextReport] | None = None) -> Iterator[str]:
        """Yield every line without its end, blank ones included.

        A last line without an end is a line, and is never joined to the first one of the next file.
        """
        lines = (line for source in self._sources(reports) for line in iter_lines(source))
        if self.repeats == "drop":
            return drop_repeated_lines(lines, FirstSeen())
        return lines

    def _sources(self, reports: list[TextReport] | None) -> Iterator[Iterator[str]]:
        for name in self.names:
            if name.startswith(BUILT_IN_PREFIX):
                yield iter([built_in_text(name)])
                continue
            copy = self.spooled.get(name)
            if copy is not None:
                called = "standard input" if is_standard_input(name) else name
                sources = [TextSource(str(copy), encoding=self.encoding, name=called)]
            else:
                sources = open_sources([name], encoding=self.encoding)
            for source in sources:
                yield source.chunks()
                if reports is not None:
                    reports.append(source.report())


def built_in_text(name: str) -> str:
    """Return the built-in corpus called `name`, such as builtin:unicode-names."""
    match name.removeprefix(BUILT_IN_PREFIX):
        case "language-reference":
            return language_reference()
        case "unicode-names":
            return "".join(f"{line}\n" for line in unicode_names())
    raise DataError(
        "there is no built-in corpus of that name",
        got=name,
        allowed=" or ".join(BUILT_IN_PREFIX + corpus for corpus in BUILT_IN_CORPORA),
    )


def open_corpus(
    names: Sequence[str], *, encoding: str, repeats: Literal["keep", "drop"], scratch: Path
) -> Corpus:
    """Return the corpus of `names`, each a path, `-` for standard input, or builtin:NAME.

    Standard input, a pipe and whatever else can be read only once is first copied to a file in
    `scratch`; a copy that is there already is what an earlier call has read, and is used. Files
    that cannot be opened are told now, before any work is done.
    """
    spooled: dict[str, Path] = {}
    for name in names:
        if is_standard_input(name) or _is_read_once(Path(name)):
            spooled[name] = _spooled(name, scratch)
        elif not name.startswith(BUILT_IN_PREFIX):
            open_sources([name], encoding=encoding)
    return Corpus(tuple(names), encoding, repeats, spooled)


def _is_read_once(path: Path) -> bool:
    return path.is_fifo() or path.is_socket() or path.is_char_device()


def _copy_of(name: str, scratch: Path) -> Path:
    """Return where in `scratch` the copy of `name` lies."""
    called = "standard-input" if is_standard_input(name) else name
    return scratch / f"read-once-{hashlib.sha256(called.encode()).hexdigest()[:12]}.txt"


def _spooled(name: str, scratch: Path) -> Path:
    """Copy `name` to `scratch`, whole or not at all, unless that was done before."""
    copy = _copy_of(name, scratch)
    if copy.exists():
        return copy
    with ExitStack() as opened, writing_bytes(copy) as file:
        if is_standard_input(name):
            source: BinaryIO = sys.stdin.buffer
        else:
            source = opened.enter_context(Path(name).open("rb"))
        shutil.copyfileobj(source, file, 1 << 20)
    return copy
