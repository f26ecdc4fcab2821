"""Data of any format as rows of cells, for `elman data check`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elman.data.class_folders import ClassTexts
from elman.data.conll import TaggedFile
from elman.data.formats import DataFormat, format_of
from elman.data.labelled import label_fault, labels_of, text_fault
from elman.data.pairs import parallel_pairs
from elman.data.row_log import RowLog
from elman.data.row_syntax import Cell
from elman.data.series import read_series
from elman.data.tables import (
    LABEL_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
    HeaderRule,
    TableOptions,
    TableRows,
)
from elman.errors import DataError, SettingError
from elman.text.reading import TextSource, iter_lines

SHOWN_AS = " | "


@dataclass(frozen=True)
class CheckRequest:
    """What is to be checked, and how it is to be read; "" and "auto" leave a choice to the rules.

    `parallel`: every two names are the two sides of pairs, line by line. `series`: tables are rows
    of numbers with a label each. `label_column` names the label, or the target, of tables and of
    series; "none": they are without one. `max_length`:
    cells longer than this are counted, in characters, of tagged sentences in tokens, and of series
    in numbers; 0: none are.
    """

    names: tuple[str, ...]
    format: str = "auto"
    header: HeaderRule = "auto"
    delimiter: str = ","
    encoding: str = "utf-8"
    input_column: str = ""
    label_column: str = ""
    label_separator: str = ""
    token_column: str = ""
    tag_column: str = ""
    parallel: bool = False
    series: bool = False
    max_length: int = 0


class CheckedCell(NamedTuple):
    """One cell: its text, its words, its length, and what it holds where it holds labels."""

    text: str
    words: Sequence[str]
    length: int
    values: Sequence[str]


class CheckedRow(NamedTuple):
    """The cells of one row, the line on which it begins, and its answer, in which rows differ.

    `answer` is the label, labels in their order, the target or the tags; () where there is none.
    """

    line: int
    cells: tuple[CheckedCell, ...]
    answer: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedRows:
    """Rows of one kind: what was read, the names of its columns, which of them is the input.

    answer_at: the column of the label or target; None where there is none, or none is told.
    """

    told: str
    columns: tuple[str, ...]
    input_at: int
    answer_at: int | None
    with_labels: bool
    unit: str
    rows: Iterator[CheckedRow]


def open_rows(sources: Sequence[TextSource], request: CheckRequest, log: RowLog) -> CheckedRows:
    """Return the rows of one source, or of two parallel ones.

    Raises `DataError` for what cannot be read, `SettingError` for choices that cannot be.
    """
    if request.parallel:
        pairs = parallel_pairs(sources[0], sources[1], log, blank_sides="keep")
        rows = (_row(pair.line, (pair.source, pair.target)) for pair in pairs)
        sides = ("source", "target")
        return CheckedRows("two parallel files", sides, 0, 1, False, "characters", rows)
    source = sources[0]
    if request.series:
        return _series(source, request, log)
    kind = format_of(source.name, named=request.format)
    if kind == "text":
        lines = _text_rows(source, log)
        return CheckedRows("text", ("line",), 0, None, False, "characters", lines)
    if kind in ("conll", "conllu"):
        return _tagged(source, request, log, kind)
    if kind in ("class-files", "class-folders"):
        return _classes(source, request, log, kind)
    return _table(source, request, log, kind)


def _row(line: int, texts: Sequence[str]) -> CheckedRow:
    """Return a row of an input and, it may be, an answer."""
    return CheckedRow(line, tuple(_cell(text) for text in texts), tuple(texts[1:]))


def _cell(cell: Cell, separator: str = "") -> CheckedCell:
    if isinstance(cell, tuple):
        text = SHOWN_AS.join(cell)
        return CheckedCell(text, text.split(), len(text), tuple(part.strip() for part in cell))
    text = cell or ""
    parts = text.split(separator) if separator else (text,)
    values = tuple(part.strip() for part in parts if part.strip())
    return CheckedCell(text, text.split(), len(text), values)


def _text_rows(source: TextSource, log: RowLog) -> Iterator[CheckedRow]:
    for number, line in enumerate(iter_lines(source.chunks()), 1):
        if line.strip():
            log.rows += 1
            yield _row(number, (line,))
        else:
            log.blank_lines += 1
    log.finish()


def _tagged(source: TextSource, request: CheckRequest, log: RowLog, kind: str) -> CheckedRows:
    tagged = TaggedFile(
        source,
        log,
        format=kind,
        token_column=request.token_column,
        tag_column=request.tag_column,
    )

    def rows() -> Iterator[CheckedRow]:
        for one in tagged.sentences():
            size = len(one.tokens)
            tokens = CheckedCell(" ".join(one.tokens), one.tokens, size, ())
            tags = CheckedCell(" ".join(one.tags), one.tags, size, one.tags)
            yield CheckedRow(one.line, (tokens, tags) if one.tags else (tokens,), one.tags)

    return CheckedRows(f"{kind}, sentences", ("tokens", "tags"), 0, 1, True, "tokens", rows())


def _series(source: TextSource, request: CheckRequest, log: RowLog) -> CheckedRows:
    label_column = None if request.label_column == "none" else request.label_column
    options = TableOptions(request.format, request.header, request.delimiter)
    read = read_series(source, log, options, label_column=label_column, lengths="any")

    def rows() -> Iterator[CheckedRow]:
        for one in read:
            told = " ".join(map(repr, one.values))
            values = CheckedCell(told, (), len(one.values), ())
            cells = (values, _cell(one.label)) if one.label else (values,)
            yield CheckedRow(one.line, cells, (one.label,))

    columns = ("values", "label") if label_column is not None else ("values",)
    answer_at = len(columns) - 1 or None
    return CheckedRows("series of numbers", columns, 0, answer_at, True, "numbers", rows())


def _classes(
    source: TextSource, request: CheckRequest, log: RowLog, kind: DataFormat
) -> CheckedRows:
    texts = ClassTexts(Path(source.path), log, encoding=source.encoding, named=kind)
    told = {
        "class-files": "a folder with a file for each class, a text on each line",
        "class-folders": "a folder with a folder for each class, a text in each file",
    }[kind]
    # A line says nothing where many files are read: 0 stands for none.
    rows = (_row(0, (text.text, text.label)) for text in texts)
    return CheckedRows(told, ("text", "label"), 0, 1, True, "characters", rows)


def _table(source: TextSource, request: CheckRequest, log: RowLog, kind: DataFormat) -> CheckedRows:
    options = TableOptions(kind, request.header, request.delimiter)
    label = "" if request.label_column == "none" else request.label_column
    table = TableRows(source, options, log, wanted=(request.input_column, label))
    if not table.columns:
        list(table)  # raises: there is no row
        raise DataError(f"{source.name} holds no row that can be used")
    places = _places(table, request)
    names = "columns named in a header" if table.has_header else "no header"
    if kind == "jsonl":
        names = "columns named by keys" if table.has_header else "lists"
    told = f"{kind}, {len(table.columns)} column{'s' * (len(table.columns) != 1)}, {names}"
    rows = _table_rows(table, places, request.label_separator)
    input_at, answer_at, _ = places
    return CheckedRows(told, table.columns, input_at, answer_at, True, "characters", rows)


class _Places(NamedTuple):
    """Where input and answer of a table stand, and whether the answer is a label."""

    input_at: int
    answer_at: int | None
    is_label: bool


def _places(table: TableRows, request: CheckRequest) -> _Places:
    """Return the columns that training would take.

    Of three columns or more without a usual name none is the answer: training refuses to guess.
    """
    label = table.named_column(LABEL_NAMES)
    target = table.named_column(TARGET_NAMES)
    if request.label_column not in ("", "none"):
        label = table.column(request.label_column, "--label-column") % len(table.columns)
        target = None
    given = table.named_column((*TEXT_NAMES, *SOURCE_NAMES))
    if request.input_column:
        given = table.column(request.input_column, "--input-column") % len(table.columns)
    elif given is None or given == label:
        given = int(label == 0 and len(table.columns) > 1)
    if request.label_column == "none":
        return _Places(given, None, False)
    if label is not None and label != given:
        return _Places(given, label, True)
    if target is not None and target != given:
        return _Places(given, target, False)
    is_source = given == table.named_column(SOURCE_NAMES)
    if len(table.columns) == 2:
        return _Places(given, 1 - given, not is_source)
    return _Places(given, int(given == 0) if is_source else None, False)


def _table_rows(table: TableRows, places: _Places, separator: str) -> Iterator[CheckedRow]:
    """Yield the rows that training could use; the others are faults in the log of the table."""
    input_at, answer_at, is_label = places
    log = table.log
    without: list[int] = []
    has_several, only_lists = False, True
    for row in table:
        given = row.fields[input_at]
        wrong = "" if answer_at is None else text_fault(given, table.columns[input_at])
        answer: tuple[str, ...] = ()
        if answer_at is not None and not wrong:
            cell, column = row.fields[answer_at], table.columns[answer_at]
            answer = tuple(sorted(labels_of(cell, separator))) if is_label else (str(cell),)
            wrong = label_fault(cell, answer, column) if is_label else text_fault(cell, column)
            if is_label and not wrong:
                has_several = has_several or len(answer) > 1
                only_lists = only_lists and isinstance(cell, tuple)
                without += () if answer else (row.line,)
        if wrong:
            log.reject(row.line, wrong)
            continue
        cells = (
            _cell(cell, "" if place == input_at else separator)
            for place, cell in enumerate(row.fields)
        )
        yield CheckedRow(row.line, tuple(cells), answer)
    if not has_several and not only_lists:
        for line in without:
            log.reject(line, "an empty list of labels, and the other rows have one label each")


def check_parallel(names: Sequence[str]) -> None:
    """Raise `SettingError` where files that should be sides of pairs are not even in number."""
    if not names or len(names) % 2:
        raise SettingError(
            "parallel files come two by two, source and target",
            got=f"{len(names)} file{'s' * (len(names) != 1)}",
        )
