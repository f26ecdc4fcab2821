"""Tables: rows of TSV, CSV and JSON Lines, one in memory at a time, with named columns."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, islice
from typing import Literal, Protocol

from elman.data.formats import format_of
from elman.data.row_log import RowLog
from elman.data.row_syntax import Cell, TableRow, csv_rows, jsonl_rows, tsv_rows
from elman.errors import DataError, SettingError
from elman.text.reading import iter_lines

HeaderRule = Literal["auto", "yes", "no"]
TEXT_NAMES = ("text", "texts", "sentence", "utterance", "document", "review", "tweet", "content")
LABEL_NAMES = (
    "label",
    "labels",
    "class",
    "category",
    "intent",
    "sentiment",
    "topic",
    "tag",
    "tags",
)
SOURCE_NAMES = ("source", "src", "input")
TARGET_NAMES = ("target", "tgt", "output")
OTHER_NAMES = ("id", "split", "score", "date")
CERTAIN_NAMES = frozenset((*TEXT_NAMES, *LABEL_NAMES, *SOURCE_NAMES, *TARGET_NAMES, *OTHER_NAMES))
NAME_OF_COLUMN = re.compile(r"[^\W\d][\w-]{0,39}")
"""What a cell of a header mostly is: one word."""
OTHER_BORDERS = ("\t", ";", ",", "|")
MOST_LOOKED_AT = 100
"""Rows that are looked at, at most, to find out how many columns there are."""
NUMBER_OF_COLUMN = re.compile(r"[+-]?[0-9]+")


class ReadableText(Protocol):
    """What rows are read from: `elman.text.reading.TextSource`, or anything like it."""

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    def chunks(self) -> Iterator[str]:
        r"""Yield the text in pieces, with \n as line end."""
        ...


@dataclass(frozen=True)
class TableOptions:
    """How a table is read.

    format: "auto" (by the ending; TSV where that names none), "tsv", "csv" or "jsonl". header:
    "yes", "no", or "auto", which takes the first row for names only where that is certain (see
    `TableRows`). delimiter: of CSV alone, one character. blank_lines: "skip" counts them, "keep"
    gives a row without cells for each, so that there is one answer for one line.
    """

    format: str = "auto"
    header: HeaderRule = "auto"
    delimiter: str = ","
    blank_lines: Literal["skip", "keep"] = "skip"


class TableRows:
    """The rows of one table, in order, once.

    The first row is a header where `options.header` says so. With "auto" it is one where a column
    in `wanted` is a name and not a number; where it has two cells or more, all different, and all
    of them in `CERTAIN_NAMES` (text, label, source, target and the like, in any case); or, for
    `numeric` tables, where none of its cells is a number. Nothing else is taken for a header.
    `columns` are the names, or "1", "2", …, of the first row without a header. The keys of JSON
    objects are names; no row is lost for them. `first_row` are the cells of the first row, or the
    keys.

    Rows are given out after a fault too, so that whoever reads them finds the faults of their own.

    Every row must have as many cells as the header, or without one as the first row that has at
    least `least_columns`; with `any_width` it needs `least_columns` alone. Others are faults in
    `log`, which is asked to `finish` at the end. Blank lines at the end count for nothing.

    Raises `DataError` for what cannot be read, `SettingError` for options that cannot be.
    """

    def __init__(
        self,
        source: ReadableText,
        options: TableOptions,
        log: RowLog,
        *,
        wanted: tuple[str, ...] = (),
        least_columns: int = 1,
        numeric: bool = False,
        any_width: bool = False,
    ) -> None:
        self.name, self.log, self.options = source.name, log, options
        self._least = least_columns
        self._any_width = any_width
        self.columns: tuple[str, ...] = ()
        self.first_row: tuple[str, ...] = ()
        self.has_header = False
        self.format = format_of(source.name, named=options.format, otherwise="tsv")
        lines = iter_lines(source.chunks())
        rows: Iterator[TableRow]
        if self.format == "jsonl":
            names, rows = jsonl_rows(lines, log=log)
            self._use_names(names)
        elif self.format == "csv":
            rows = csv_rows(lines, delimiter=_checked_delimiter(options.delimiter), log=log)
        elif self.format == "tsv":
            rows = tsv_rows(lines)
        else:
            raise SettingError(
                f"{source.name} cannot be read as a table",
                got=self.format,
                allowed="tsv, csv or jsonl",
            )
        self._rows = self._after_header(rows, wanted, numeric=numeric)
        self._expected = len(self.columns) if self.has_header else 0
        self._given = self._good_rows()

    def __iter__(self) -> Iterator[TableRow]:
        return self._given

    def column(self, wanted: str, option: str = "") -> int:
        """Return the place (from 0) of the column called `wanted`, or numbered so from 1.

        A name goes before a number; -1 is the last column. Raises `DataError` where there is none;
        it names `option`, which chooses another one.
        """
        names = [name for name in self.columns if name == wanted] if self.has_header else []
        if len(names) > 1:
            raise DataError(f"{self.name} has several columns of that name", got=repr(wanted))
        if names:
            return self.columns.index(wanted)
        if NUMBER_OF_COLUMN.fullmatch(wanted):
            number, width = int(wanted), len(self.columns)
            if 1 <= number <= width:
                return number - 1
            if 1 <= -number <= width:
                return -1 if self._any_width and number == -1 else width + number
        near = get_close_matches(wanted, self.columns, 1)
        raise DataError(
            f"{self.name} has no such column",
            got=repr(wanted) + (f", did you mean {near[0]!r}?" if near else ""),
            allowed=", ".join(self.columns) or "none: it has no row",
            hint=f"choose another with {option}" if option else "",
        )

    @property
    def header_hint(self) -> str:
        """What to add to a message where the first row may hold names that were not taken so."""
        cells = [cell.strip() for cell in self.first_row]
        if self.has_header or self.options.header != "auto" or len(set(cells)) < len(cells):
            return ""
        if len(cells) < 2 or not all(map(NAME_OF_COLUMN.fullmatch, cells)):
            return ""
        names = ", ".join(cells)
        return (
            f"; if the first row ({names}) names the columns, choose them by name, or in training "
            "add --set data.header=yes"
        )

    def named_column(self, names: tuple[str, ...]) -> int | None:
        """Return the place of the first column of the header with one of `names`, in any case."""
        if self.has_header:
            lowered = [column.lower() for column in self.columns]
            for name in names:
                if lowered.count(name) == 1:
                    return lowered.index(name)
        return None

    def _after_header(
        self, rows: Iterator[TableRow], wanted: tuple[str, ...], *, numeric: bool
    ) -> Iterator[TableRow]:
        """Settle names and width by the first row; return the rows of data."""
        before: list[TableRow] = []
        for row in islice(rows, MOST_LOOKED_AT):
            before.append(row)
            if row.is_blank:
                continue
            if self.has_header:
                break  # the keys of JSON objects
            self.first_row = self.first_row or tuple(map(_text, row.fields))
            if self._is_header(row, wanted, numeric=numeric):
                self._use_names(tuple((_text(cell)).strip() for cell in row.fields))
                before.pop()
                break
            self.columns = tuple(str(number + 1) for number in range(len(row.fields)))
            if len(row.fields) >= self._least:
                break
        if self.columns and len(self.columns) < self._least:
            raise self._too_narrow(before)
        return chain(before, rows)

    def _too_narrow(self, seen: list[TableRow]) -> DataError:
        raw = next((row.raw for row in seen if not row.is_blank), ",".join(self.columns))
        other = next((sign for sign in OTHER_BORDERS if sign in raw), "")
        return DataError(
            f"{self.name}, read as {self.format}, has too few columns",
            got=f"{len(self.columns)} ({', '.join(self.columns)})",
            allowed=f"at least {self._least}",
            hint="name the format by the ending (in training: --set data.format, data.delimiter)"
            + (f"; {other!r} stands in the first row" if other else ""),
        )

    def _use_names(self, names: tuple[str, ...] | None) -> None:
        if names is not None:
            self.columns, self.has_header = names, True
            self.first_row = self.first_row or names

    def _is_header(self, row: TableRow, wanted: tuple[str, ...], *, numeric: bool) -> bool:
        if self.columns or self.format == "jsonl":
            return False  # not the first row; a list of JSON
        if self.options.header != "auto":
            return self.options.header == "yes"
        if any(name and not NUMBER_OF_COLUMN.fullmatch(name) for name in wanted):
            return True
        cells = [_text(cell).strip().lower() for cell in row.fields]
        if numeric:
            # One cell with a border of another format in it is a row that was not parted.
            is_whole = len(cells) == 1 and any(sign in cells[0] for sign in OTHER_BORDERS)
            return not is_whole and not any(map(is_number, cells))
        most = max(Counter(cells).values())
        return len(cells) > 1 and most == 1 and CERTAIN_NAMES.issuperset(cells)

    def _good_rows(self) -> Iterator[TableRow]:
        log, keeps = self.log, self.options.blank_lines == "keep"
        blank = 0
        for row in self._rows:
            if row.is_blank and not keeps:
                blank += 1
                continue
            log.blank_lines += blank
            blank = 0
            what = "" if row.is_blank else self._wrong_width(len(row.fields))
            if what:
                log.fault(row.line, what)
                continue
            log.rows += 1
            yield row
        log.finish()

    def _wrong_width(self, width: int) -> str:
        """Return what is wrong with a row of `width` cells, or ""."""
        if not self._expected and width >= self._least and not self._any_width:
            self._expected = width
        expected = self._expected or self._least
        fits = width >= self._least if self._any_width else width == expected
        if fits:
            return ""
        at_least = "at least " if not self._expected else ""
        return f"{width} column{'s' * (width != 1)}, expected {at_least}{expected}"


def is_number(text: str) -> bool:
    """Return whether `text` is a number as Python's float reads it, without underscores."""
    if "_" in text:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else ""


def _checked_delimiter(delimiter: str) -> str:
    if len(delimiter) != 1 or delimiter in '"\r\n ' or "\ud800" <= delimiter <= "\udfff":
        raise SettingError(
            "the delimiter of CSV must be one character",
            got=repr(delimiter),
            allowed="such as , or ; or |",
        )
    return delimiter
