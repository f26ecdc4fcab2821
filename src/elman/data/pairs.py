"""Pairs of a source and a target, from two columns of a table or from two parallel files."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Literal, NamedTuple

from elman.data.labelled import text_fault
from elman.data.row_log import RowLog
from elman.data.tables import SOURCE_NAMES, TARGET_NAMES, ReadableText, TableOptions, TableRows
from elman.errors import DataError
from elman.text.reading import iter_lines


class TextPair(NamedTuple):
    """A source, a target, both as they stand in the files, and the line they begin on, from 1."""

    source: str
    target: str
    line: int


def read_pairs(
    source: ReadableText,
    log: RowLog,
    options: TableOptions | None = None,
    *,
    source_column: str = "",
    target_column: str = "",
) -> Iterator[TextPair]:
    """Yield the pairs of a table with two columns or more, in order.

    Columns are names or numbers from 1. Not given: those that the header calls source and target
    (or another of `SOURCE_NAMES`, `TARGET_NAMES`), else the first two that are not the other one.
    A pair with a blank side is left out, both sides of it, and counted in `log`. Raises `DataError`
    for what cannot be read, and at the end for rows that are refused.
    """
    rows = TableRows(
        source,
        options or TableOptions(),
        log,
        wanted=(source_column, target_column),
        least_columns=2,
    )
    source_at, target_at = pair_columns(rows, source_column, target_column)
    for row in rows:
        cells = (row.fields[source_at], row.fields[target_at]) if not row.is_blank else ("", "")
        faults = (
            text_fault(cell, rows.columns[place])
            for cell, place in zip(cells, (source_at, target_at), strict=True)
        )
        wrong = next(filter(None, faults), "")
        left, right = cells
        if wrong or not (isinstance(left, str) and isinstance(right, str)):
            log.reject(row.line, wrong)
        elif _both_filled(left, right, row.line, log) and not log.refusing:
            yield TextPair(left, right, row.line)


def pair_columns(
    rows: TableRows, source_column: str = "", target_column: str = ""
) -> tuple[int, int]:
    """Return the places of source and target in `rows`, chosen as `read_pairs` says."""
    source_at, target_at = rows.named_column(SOURCE_NAMES), rows.named_column(TARGET_NAMES)
    if source_column:
        source_at = rows.column(source_column, "--source-column")
    if target_column:
        target_at = rows.column(target_column, "--target-column")
    if source_at is None:
        source_at = int(target_at == 0)
    if target_at is None:
        target_at = int(source_at == 0)
    if source_at == target_at:
        raise DataError(
            f"{rows.name} has source and target in one column",
            got=rows.columns[source_at],
            hint=f"name both, with --source-column and --target-column{rows.header_hint}",
        )
    return source_at, target_at


def parallel_pairs(
    source: ReadableText,
    target: ReadableText,
    log: RowLog,
    *,
    blank_sides: Literal["drop", "keep"] = "drop",
) -> Iterator[TextPair]:
    """Yield line n of one file with line n of the other.

    A pair with a blank side is left out on both sides and counted in `log`, or with "keep" given
    out. Both files are read to their ends; `DataError` with both numbers where they have not as
    many lines as each other.
    """
    counts = [0, 0]
    lines = zip_longest(iter_lines(source.chunks()), iter_lines(target.chunks()))
    for number, (left, right) in enumerate(lines, 1):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is None or right is None:
            continue
        log.rows += 1
        if blank_sides == "keep" or _both_filled(left, right, number, log):
            yield TextPair(left, right, number)
    if counts[0] != counts[1]:
        raise DataError(
            "parallel files must have as many lines as each other",
            got=f"{counts[0]} in {source.name} and {counts[1]} in {target.name}",
        )
    log.finish()


def _both_filled(left: str, right: str, line: int, log: RowLog) -> bool:
    filled = bool(left.strip()), bool(right.strip())
    if not all(filled):
        log.drop_blank(line, both=not any(filled))
    return all(filled)
