"""Series of numbers with a label each, from a table of them."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from elman.data.row_log import RowLog
from elman.data.tables import (
    LABEL_NAMES,
    OTHER_BORDERS,
    ReadableText,
    TableOptions,
    TableRows,
    is_number,
)
from elman.errors import DataError


class Series(NamedTuple):
    """Numbers in the order of time, their label ("" where none is read), and their line, from 1."""

    values: tuple[float, ...]
    label: str
    line: int


def read_series(
    source: ReadableText,
    log: RowLog,
    options: TableOptions | None = None,
    *,
    label_column: str | None = "",
    lengths: Literal["same", "any"] = "same",
    blank_rows: Literal["drop", "keep"] = "drop",
) -> Iterator[Series]:
    """Yield a series a row: every column but the label's is one step of time.

    The label is in `label_column` (a name, or a number from 1, -1 for the last); not given, in the
    column that the header calls label (or another of `LABEL_NAMES`), else in the last; None: there
    is none. A first row without any number is the header. Empty cells at the end of a row end the
    series there. `lengths` "any" lets rows have as many cells as they will; the label is then in
    the first or the last of each.

    A cell that is no finite number is a fault in `log`, and so is a missing label. Of the first row
    it is told what else the cell may be: a label that was not named, a row of another format.
    Blank lines are skipped and counted, or with `blank_rows` "keep" given out as series of nothing.
    """
    chosen = replace(
        options or TableOptions(), blank_lines="keep" if blank_rows == "keep" else "skip"
    )
    rows = TableRows(
        source,
        chosen,
        log,
        wanted=(label_column or "",),
        least_columns=1 if label_column is None else 2,
        numeric=True,
        any_width=lengths == "any",
    )
    label_at = _label_place(rows, label_column, lengths)
    is_told = label_column != "" or rows.named_column(LABEL_NAMES) is not None
    for row in rows:
        if row.is_blank:
            yield Series((), "", row.line)
            continue
        cells = [cell if isinstance(cell, str) else "" for cell in row.fields]
        label = "" if label_at is None else cells.pop(label_at).strip()
        while cells and not cells[-1].strip():
            cells.pop()
        wrong = [place for place, cell in enumerate(cells) if not _is_finite(cell)]
        if label_at is not None and not label:
            log.reject(row.line, "no label")
        elif not cells:
            log.reject(row.line, "no number")
        elif wrong:
            column = wrong[0] + 1 + (label_at is not None and 0 <= label_at <= wrong[0])
            what = f"{cells[wrong[0]]!r} in column {column} is no finite number"
            if log.rows == 1 and not log.num_faults:
                what += _other_reading(rows, cells[wrong[0]], is_label=not is_told and column == 1)
            log.reject(row.line, what)
        elif not log.refusing:
            yield Series(tuple(map(float, cells)), label, row.line)


def _label_place(rows: TableRows, label_column: str | None, lengths: str) -> int | None:
    if label_column is None:
        return None
    if label_column:
        place = rows.column(label_column)
    else:
        named = rows.named_column(LABEL_NAMES)
        place = named if named is not None else len(rows.columns) - 1
    if lengths == "any":
        if place in (-1, len(rows.columns) - 1):
            return -1
        if place:
            raise DataError(
                f"{rows.name} has rows of any length, in which a label stands first or last",
                got=f"column {place + 1}",
            )
    return place


def _other_reading(rows: TableRows, cell: str, *, is_label: bool) -> str:
    """Return what a cell that is no number may be instead, or ""."""
    if any(sign in cell for sign in OTHER_BORDERS):
        return f" (the file is read as {rows.format})"
    if not is_label:
        return ""
    return f" (where it is the label, name it with --label-column {rows.columns[0]})"


def _is_finite(cell: str) -> bool:
    return is_number(cell) and math.isfinite(float(cell))
