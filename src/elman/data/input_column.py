"""Which column of a table holds what is read, where nothing else of it is."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from elman.data.row_log import RowLog
from elman.data.tables import NUMBER_OF_COLUMN, ReadableText, TableOptions, TableRows
from elman.errors import DataError


@dataclass(frozen=True)
class InputNames:
    """What may tell the column: one that was chosen, or the usual names of it and of the answer.

    `answer` is the column of answers that a run was trained with, "" for none.
    """

    what: str
    chosen: str
    usual: tuple[str, ...]
    answer: str
    usual_answers: tuple[str, ...]


class InputColumn(NamedTuple):
    """The column, by name or number from 1; how to read its table; a line for a person, or ""."""

    column: str
    options: TableOptions
    notice: str


def input_column(source: ReadableText, options: TableOptions, names: InputNames) -> InputColumn:
    """Return the column of a table that is read, told by its first rows.

    It is the one chosen, the only one, the one the header calls so, or of two columns the one that
    is not the answer. Of two columns without any such name it is the first, with a notice. Raises
    `DataError` where several columns are left: a guess would be answered like the truth.
    """
    rows = TableRows(source, options, RowLog(source.name, "skip"), wanted=(names.chosen,))
    is_name = bool(names.answer) and not NUMBER_OF_COLUMN.fullmatch(names.answer)
    untaken = () if rows.has_header or options.header == "no" else rows.first_row
    if is_name and names.answer in (cell.strip() for cell in untaken):
        options = replace(options, header="yes")
        rows = TableRows(source, options, RowLog(source.name, "skip"))
    if names.chosen:
        rows.column(names.chosen, "--column")  # raises where there is none
        return InputColumn(names.chosen, options, "")
    named, width = rows.named_column(names.usual), len(rows.columns)
    if named is not None:
        return InputColumn(_numbered(named), options, "")
    if width < 2:
        return InputColumn("1", options, "")
    answer = _answer_place(rows, names)
    if width == 2 and answer is not None:
        return InputColumn(_numbered(1 - answer), options, "")
    if width == 2 and not (rows.format == "jsonl" and rows.has_header):
        return InputColumn("1", options, f"{names.what} read from column 1 of 2 (--column)")
    raise DataError(
        f"{rows.name} does not say which column holds the {names.what}",
        got=f"{width} columns ({', '.join(rows.columns)})",
        hint=f"name it with --column{rows.header_hint}",
    )


def _answer_place(rows: TableRows, names: InputNames) -> int | None:
    if names.answer:
        try:
            return rows.column(names.answer)
        except DataError:
            pass
    return rows.named_column(names.usual_answers)


def _numbered(place: int) -> str:
    return str(place + 1)
