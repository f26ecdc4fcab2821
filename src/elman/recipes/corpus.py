"""A corpus: files, folders, standard input or a built-in text, read as often as preparing needs."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elman.data.corpora import language_reference, unicode_names
from elman.data.repeats import FirstSeen, drop_repeated_lines, drop_repeated_paragraphs
from elman.errors import DataError
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextReport, iter_lines, joined_chunks, open_sources

BUILT_IN_PREFIX = "builtin:"
BUILT_IN_CORPORA = ("language-reference", "unicode-names")


@dataclass(frozen=True)
class Corpus:
    """Text that can be read again and again, piece by piece, always the same.

    `repeats` "drop" leaves out paragraphs (of `chunks`) or lines (of `lines`) met before.
    """

    names: tuple[str, ...]
    encoding: str
    repeats: Literal["keep", "drop"]

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
            for source in open_sources([name], encoding=self.encoding):
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

    Standard input can be read only once, so it is first copied to a file in `scratch`. Files that
    cannot be opened are told now, before any work is done.
    """
    kept = []
    for name in names:
        if is_standard_input(name):
            name = str(_spool_standard_input(scratch))
        elif not name.startswith(BUILT_IN_PREFIX):
            open_sources([name], encoding=encoding)
        kept.append(name)
    return Corpus(tuple(kept), encoding, repeats)


def _spool_standard_input(scratch: Path) -> Path:
    path = scratch / "standard-input.txt"
    with path.open("wb") as file:
        while block := sys.stdin.buffer.read(1 << 20):
            file.write(block)
    return path
