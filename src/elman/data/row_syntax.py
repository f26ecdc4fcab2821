r"""How the lines of a file make rows: TSV, CSV and JSON Lines. Only \n ends a line.

U+2028, U+0085, form feeds, NUL and a lone \r are characters like any other in all three.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from elman.data.row_log import RowLog
from elman.errors import DataError

Cell = str | tuple[str, ...] | None
"""A text; several, where JSON holds a list of them; None, where JSON holds nothing fit to read."""


class SpeltValue(str):
    """A number or a truth value of JSON, as it is spelt: fit for a label, but no text."""

    __slots__ = ()


MOST_FIELD_CHARACTERS = 1 << 27
# A lone \r would end a row for the csv module. It waits as half of a surrogate pair, which no
# decoded text holds, until the row is parted.
HELD_RETURN = "\udc0d"
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class TableRow(NamedTuple):
    r"""One row: the line on which it begins (from 1), its cells, and all of it as in the file.

    `raw` is without the last line end; a row of CSV may span several lines, joined by \n. A blank
    line is a row without cells.
    """

    line: int
    fields: tuple[Cell, ...]
    raw: str

    @property
    def is_blank(self) -> bool:
        """Whether this is a blank line."""
        return not self.fields


def tsv_rows(lines: Iterable[str]) -> Iterator[TableRow]:
    """Yield a row a line. A tab is always a border and a line end always an end; nothing quotes."""
    for number, line in enumerate(lines, 1):
        blank = "\t" not in line and not line.strip()
        yield TableRow(number, () if blank else tuple(line.split("\t")), line)


def csv_rows(lines: Iterable[str], *, delimiter: str, log: RowLog) -> Iterator[TableRow]:
    r"""Yield the rows of RFC 4180: a quoted cell may hold the delimiter, line ends and "" for ".

    A cell may have up to `MOST_FIELD_CHARACTERS`. Within quotes \r\n has become \n, as everywhere.
    A quotation mark that is never closed, or closed before the cell ends, is a fault in `log`, and
    reading goes on at the next line.
    """
    taken: list[str] = []
    reader = csv.reader(_fed(lines, taken), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            fields = _next_row(reader)
        except StopIteration:
            return
        except csv.Error as error:
            log.fault(line, _csv_fault(error, len(taken), line))
        else:
            raw = "\n".join(taken)
            blank = len(fields) < 2 and not raw.strip()
            yield TableRow(line, () if blank else tuple(map(_with_returns, fields)), raw)
        line += len(taken)
        taken.clear()


def _fed(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line.replace("\r", HELD_RETURN) + "\n"


def _next_row(reader: Iterator[list[str]]) -> list[str]:
    """Read one row under our own limit on cells; the process's own is put back at once."""
    limit = csv.field_size_limit(MOST_FIELD_CHARACTERS)
    try:
        return next(reader)
    finally:
        csv.field_size_limit(limit)


def _with_returns(field: str) -> str:
    return field.replace(HELD_RETURN, "\r")


def _csv_fault(error: csv.Error, num_lines: int, line: int) -> str:
    span = f" (up to line {line + num_lines - 1})" if num_lines > 1 else ""
    told = str(error)
    if "unexpected end" in told:
        return f"a quotation mark is opened and never closed{span}"
    if "field larger" in told:
        return f"a cell has more than {MOST_FIELD_CHARACTERS:,} characters{span}"
    return f"a quoted cell goes on after its closing quotation mark{span}"


class JsonRows(NamedTuple):
    """The keys of the first object, or None where rows are lists; and the rows, cells in order."""

    columns: tuple[str, ...] | None
    rows: Iterator[TableRow]


def jsonl_rows(lines: Iterable[str], *, log: RowLog) -> JsonRows:
    """Return the rows of JSON Lines: each line an object, or each a list.

    Columns are the keys of the first object. A key that a later one lacks is a cell of None.
    Numbers and truth values are `SpeltValue`s. An empty list is a cell of (). Raises `DataError`
    where the first line with text is neither object nor list; later ones like that are faults in
    `log`.
    """
    numbered = enumerate(lines, 1)
    before: list[TableRow] = []
    for number, line in numbered:
        if not line.strip():
            before.append(TableRow(number, (), line))
            continue
        try:
            first = _json_value(line)
        except ValueError as error:
            raise DataError(
                f"{log.name} is not JSON Lines, which has a whole object or list on every line",
                got=f"line {number}, where {error}",
            ) from None
        columns = tuple(first) if isinstance(first, dict) else None
        rows = _json_rows(numbered, columns, log)
        return JsonRows(columns, _chained(before, _json_row(number, line, columns), rows))
    return JsonRows(None, iter(before))


def _chained(
    before: Sequence[TableRow], first: TableRow, rows: Iterator[TableRow]
) -> Iterator[TableRow]:
    yield from before
    yield first
    yield from rows


def _json_rows(
    numbered: Iterable[tuple[int, str]], columns: tuple[str, ...] | None, log: RowLog
) -> Iterator[TableRow]:
    for number, line in numbered:
        if not line.strip():
            yield TableRow(number, (), line)
            continue
        try:
            yield _json_row(number, line, columns)
        except ValueError as error:
            log.fault(number, str(error))


def _json_row(number: int, line: str, columns: tuple[str, ...] | None) -> TableRow:
    """Part one line; ValueError says why it cannot be."""
    value = _json_value(line)
    if isinstance(value, dict):
        if columns is None:
            raise ValueError("an object among lists")
        fields = tuple(_cell(value.get(column)) for column in columns)
    else:
        if columns is not None:
            raise ValueError("a list among objects")
        fields = tuple(map(_cell, value))
        if not fields:
            raise ValueError("the list is empty")
    return TableRow(number, fields, line)


def _json_value(line: str) -> dict[str, object] | list[object]:
    try:
        value = json.loads(line, object_pairs_hook=_object_of)
    except json.JSONDecodeError as error:
        raise ValueError(f"JSON ends or breaks at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if not isinstance(value, dict | list) or not value:
        raise ValueError("there is no object and no list with something in it")
    if SURROGATE_ESCAPE.search(line):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except RecursionError:
            raise ValueError("JSON is nested too deeply") from None
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair stands, which is no character") from None
    return value


def _object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def _cell(value: object) -> Cell:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return SpeltValue(json.dumps(value))
    if isinstance(value, list):
        cells = [None if isinstance(one, list) else _cell(one) for one in value]
        texts = tuple(cell for cell in cells if isinstance(cell, str))
        return texts if len(texts) == len(cells) else None
    return None
