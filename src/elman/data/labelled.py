"""Labelled texts, from a table or from a folder with a file or a folder for each class."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from elman.data.class_folders import ClassTexts
from elman.data.formats import format_of
from elman.data.row_log import RowLog
from elman.data.row_syntax import Cell, SpeltValue
from elman.data.tables import LABEL_NAMES, TEXT_NAMES, TableOptions, TableRows
from elman.errors import DataError
from elman.text.reading import TextSource

CLASS_FORMATS = ("class-files", "class-folders")
BlankTexts = Literal["drop", "keep"]


class LabelledText(NamedTuple):
    """A text as it stands in the file, its labels, the line it begins on, and the file it is from.

    `labels` is empty where the data has none to read, or where JSON has an empty list: none of
    them. It has several entries only where a separator was given or JSON has a list.
    """

    text: str
    labels: tuple[str, ...]
    line: int
    file: str = ""
    is_list: bool = False


def read_labelled(
    source: TextSource,
    log: RowLog,
    options: TableOptions | None = None,
    *,
    text_column: str = "",
    label_column: str | None = "",
    label_separator: str = "",
    blank_texts: BlankTexts = "drop",
) -> Iterator[LabelledText]:
    """Yield the labelled texts of a file, in order, or of the folder that `source` names.

    A folder is read as `ClassTexts` says. Columns are names or numbers from 1, as
    `TableRows.column` takes them. Not given: the text is in the column that the header calls text
    (or another of `TEXT_NAMES`), else in the first; the label in the one it calls label (or another
    of `LABEL_NAMES`), else in the other one of two columns. `label_column` None reads texts alone.

    Labels lose the blanks around them; `label_separator` parts several in one cell, of which a
    repeated one counts once. A row without a label is a fault in `log`, never a label of nothing;
    an empty list of JSON is given out with `is_list`, for whoever knows whether rows have several.
    So is a text that is none: a number of JSON, a list, nothing.
    A blank text is left out and counted, or with `blank_texts` "keep" given out, as predictions
    need; the same holds for the blank lines of a table.

    Raises `DataError` for what cannot be read, at the end for rows that are refused, and where a
    table of three columns or more does not say where its labels are.
    """
    options = options or TableOptions()
    texts: Iterator[LabelledText]
    are_classes = format_of(source.path, named=options.format) in CLASS_FORMATS
    if are_classes:
        texts = _of_classes(source, log, options.format)
    else:
        if blank_texts == "keep":
            options = TableOptions(options.format, options.header, options.delimiter, "keep")
        texts = _of_table(source, log, options, text_column, label_column, label_separator)
    for labelled in texts:
        if not labelled.text.strip() and blank_texts == "drop":
            log.drop_blank(0 if are_classes else labelled.line)
        else:
            yield labelled


def _of_classes(source: TextSource, log: RowLog, named: str) -> Iterator[LabelledText]:
    for label, text, line, file in ClassTexts(
        Path(source.path), log, encoding=source.encoding, named=named
    ):
        yield LabelledText(text, (label,), line, file)


def _of_table(
    source: TextSource,
    log: RowLog,
    options: TableOptions,
    text_column: str,
    label_column: str | None,
    label_separator: str,
) -> Iterator[LabelledText]:
    rows = TableRows(
        source,
        options,
        log,
        wanted=(text_column, label_column or ""),
        least_columns=1 if label_column is None else 2,
    )
    text_at, label_at = labelled_columns(rows, text_column, label_column)
    for row in rows:
        if row.is_blank:
            yield LabelledText("", (), row.line, source.name)
            continue
        text = row.fields[text_at]
        given = () if label_at is None else row.fields[label_at]
        labels = labels_of(given, label_separator)
        wrong = text_fault(text, rows.columns[text_at])
        if not wrong and label_at is not None:
            wrong = label_fault(given, labels, rows.columns[label_at])
        if wrong:
            log.reject(row.line, wrong)
        elif isinstance(text, str) and not log.refusing:
            is_list = label_at is not None and isinstance(given, tuple)
            yield LabelledText(text, labels, row.line, source.name, is_list)


def labelled_columns(
    rows: TableRows, text_column: str = "", label_column: str | None = ""
) -> tuple[int, int | None]:
    """Return the places of text and label in `rows`, chosen as `read_labelled` says."""
    if label_column is None:
        label_at = None
    elif label_column:
        label_at = rows.column(label_column, "--label-column")
    else:
        label_at = rows.named_column(LABEL_NAMES)
    if text_column:
        # Texts alone are read to predict, where one option names the one column.
        text_at = rows.column(text_column, "--column" if label_column is None else "--text-column")
    else:
        named = rows.named_column(TEXT_NAMES)
        text_at = named if named is not None else int(label_at == 0 and len(rows.columns) > 1)
    if label_at is None and label_column is not None:
        if len(rows.columns) != 2:
            raise DataError(
                f"{rows.name} does not say which column holds the label",
                got=f"{len(rows.columns)} columns ({', '.join(rows.columns)})",
                hint=f"name it with --label-column{rows.header_hint}",
            )
        label_at = 1 - text_at
    if text_at == label_at:
        raise DataError(
            f"{rows.name} has its text and its label in one column",
            got=rows.columns[text_at],
            hint="name both columns, with --text-column and --label-column",
        )
    return text_at, label_at


def text_fault(cell: Cell, column: str) -> str:
    """Return why a cell is no text, or ""."""
    if isinstance(cell, SpeltValue):
        return f"no text in column {column}, but {cell}"
    return "" if isinstance(cell, str) else f"no text in column {column}"


def label_fault(cell: Cell, labels: tuple[str, ...], column: str) -> str:
    """Return why a cell, of which `labels_of` has read `labels`, cannot be used; or ""."""
    if not labels and cell != ():
        return f"no label in column {column}"
    return "" if all(labels) else f"an empty label in column {column}"


def labels_of(cell: Cell, separator: str) -> tuple[str, ...]:
    """Return the labels of a cell: () for none, "" among them for an empty one."""
    if cell is None:
        return ()
    parts = cell if isinstance(cell, tuple) else cell.split(separator) if separator else (cell,)
    labels = tuple(dict.fromkeys(part.strip() for part in parts))
    return () if labels == ("",) else labels
