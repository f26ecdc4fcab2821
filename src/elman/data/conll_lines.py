"""One line of a CoNLL file: its columns, where they stand, and what kind of line it is."""

import re
from typing import Literal, NamedTuple

from elman.errors import SettingError

CONLLU_COLUMNS = (
    "ID",
    "FORM",
    "LEMMA",
    "UPOS",
    "XPOS",
    "FEATS",
    "HEAD",
    "DEPREL",
    "DEPS",
    "MISC",
)
DOCUMENT_START = "-DOCSTART-"
RUN_WITHOUT_SPACE = re.compile("[^ ]+")
CONLLU_ID = re.compile(r"(?P<token>[0-9]+)|(?P<range>[0-9]+-[0-9]+)|(?P<empty>[0-9]+\.[0-9]+)")
COLUMN_NUMBER = re.compile(r"-?[1-9][0-9]*")

ConlluKind = Literal["token", "range", "empty"]


class ColumnSpan(NamedTuple):
    """Where a column stands in its line: the characters from start to stop."""

    start: int
    stop: int

    def of(self, text: str) -> str:
        """Return the column of the line `text`."""
        return text[self.start : self.stop]

    def without_spaces(self, text: str) -> "ColumnSpan":
        """Return the span without the spaces at both ends; the same where there is nothing else."""
        column = self.of(text)
        if not column.strip(" "):
            return self
        return ColumnSpan(
            self.start + len(column) - len(column.lstrip(" ")),
            self.stop - len(column) + len(column.rstrip(" ")),
        )


def is_blank_line(line: str) -> bool:
    """Return whether a line, with or without its end, holds spaces, tabs and returns alone."""
    return not line.strip(" \t\r\n")


def is_document_start(text: str) -> bool:
    """Return whether the first column of the line `text` is -DOCSTART-."""
    return re.split("[ \t]", text, maxsplit=1)[0] == DOCUMENT_START


def tab_columns(text: str) -> list[ColumnSpan]:
    """Return the columns between tabs, each as it is, spaces and nothing included."""
    spans, start = [], 0
    for column in text.split("\t"):
        spans.append(ColumnSpan(start, start + len(column)))
        start += len(column) + 1
    return spans


def two_column_spans(text: str) -> list[ColumnSpan]:
    """Return the columns of a line of CoNLL: between tabs if there is one, else runs without space.

    A token may hold spaces where tabs part columns. U+00A0 and other blanks part nothing.
    """
    if "\t" in text:
        return tab_columns(text)
    return [ColumnSpan(*match.span()) for match in RUN_WITHOUT_SPACE.finditer(text)]


def conllu_kind(identifier: str) -> ConlluKind:
    """Return what a line of CoNLL-U is by its ID; ValueError where it is none.

    1 is a token, 1-2 a range of tokens written as one word, 5.1 an empty node.
    """
    match = CONLLU_ID.fullmatch(identifier)
    if match is None:
        raise ValueError(f"{identifier!r} is no ID: 1, 1-2 or 5.1 would be one")
    for kind in ("token", "range"):
        if match[kind] is not None:
            return "token" if kind == "token" else "range"
    return "empty"


def conllu_column(name: str) -> int:
    """Return the place of a column of CoNLL-U, named as in UPOS (any case) or numbered from 1."""
    if name.upper() in CONLLU_COLUMNS:
        return CONLLU_COLUMNS.index(name.upper())
    return numbered_column(name, len(CONLLU_COLUMNS), allowed=", ".join(CONLLU_COLUMNS))


def numbered_column(name: str, width: int, *, allowed: str = "") -> int:
    """Return the place of the column numbered `name`, from 1, or from the end as -1."""
    if COLUMN_NUMBER.fullmatch(name):
        number = int(name)
        place = number - 1 if number > 0 else width + number
        if 0 <= place < width:
            return place
    raise SettingError(
        "there is no such column",
        got=repr(name),
        allowed=f"{allowed + ', or ' if allowed else ''}a number from 1 to {width}, or -1",
    )
