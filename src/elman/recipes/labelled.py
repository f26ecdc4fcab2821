"""Labelled rows of the files that a run or a command names: texts, or series of numbers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from elman.config.settings import Settings
from elman.data.formats import DataFormat, format_of
from elman.data.input_column import InputNames, input_column
from elman.data.labelled import CLASS_FORMATS, read_labelled
from elman.data.repeats import FirstSeen
from elman.data.rise_and_fall import rise_and_fall
from elman.data.row_log import MEND, MOST_SHOWN, RowLog
from elman.data.series import read_series
from elman.data.tables import LABEL_NAMES, TEXT_NAMES, TableOptions, TableRows, is_number
from elman.errors import DataError, SettingError
from elman.recipes.check_tallies import digest_of
from elman.recipes.corpus import BUILT_IN_PREFIX
from elman.recipes.named_files import text_sources
from elman.recipes.prediction_request import PredictRequest
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextSource, iter_lines

BUILT_IN_SERIES = BUILT_IN_PREFIX + "rise-and-fall"

RowInput = str | tuple[float, ...]
"""What is read of a row: a text, or the numbers of a series."""


class LabelledRow(NamedTuple):
    """What is read of a row, its labels (none where none are read), its line and file.

    is_list: the labels are a list of JSON, which may be one of none.
    """

    given: RowInput
    labels: tuple[str, ...]
    line: int
    file: str
    is_list: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to read."""
        return not (self.given.strip() if isinstance(self.given, str) else self.given)

    @property
    def input_digest(self) -> bytes:
        """16 bytes that tell inputs apart."""
        return digest_of(self._told)

    @property
    def row_digest(self) -> bytes:
        """16 bytes that tell rows with their labels apart."""
        return digest_of(self._told, *sorted(self.labels))

    @property
    def _told(self) -> str:
        return self.given if isinstance(self.given, str) else repr(self.given)


@dataclass(frozen=True)
class _Named:
    """A file or folder to read, and the name whose ending tells its format."""

    source: TextSource
    shown: str


@dataclass(frozen=True)
class LabelledFiles:
    """Labelled rows that can be read again and again, always the same, in the order of the files.

    Made by `labelled_files`. `advice` is what is said of rows that are refused.
    """

    settings: Settings
    named: tuple[_Named, ...]
    built_in: bool = False
    logs: list[RowLog] = field(default_factory=list)
    advice: str = MEND

    def rows(self) -> Iterator[LabelledRow]:
        """Yield every row with its labels; blank ones are left out and counted.

        `data.repeats` "drop" leaves out rows that came before with the same labels. `logs` then
        holds what was left out of each file. Raises `DataError` for rows that are refused.
        """
        self.logs.clear()
        rows = self._every_row()
        if self.settings.data.repeats == "keep":
            yield from rows
            return
        seen = FirstSeen()
        for row in rows:
            if seen.is_new(row.row_digest.hex()):
                yield row

    @property
    def is_one_file(self) -> bool:
        """Whether all rows are of one file, so that a line number says where one stands."""
        return len(self.named) == 1 and not Path(self.named[0].source.path).is_dir()

    @property
    def has_columns(self) -> bool:
        """Whether one of the files is a table, and not a folder of classes."""
        return self.built_in or any(
            format_of(each.shown, named=self.settings.data.format) not in CLASS_FORMATS
            for each in self.named
        )

    def notices(self) -> Iterator[str]:
        """Yield a line for each thing that was left out when rows were last read to their end."""
        for log in self.logs:
            yield from log.notices()

    def _every_row(self) -> Iterator[LabelledRow]:
        if self.built_in:
            for series in rise_and_fall():
                yield LabelledRow(series.values, (series.label,), series.line, BUILT_IN_SERIES)
            return
        data = self.settings.data
        for each in self.named:
            log = RowLog(each.source.name, data.bad_rows, advice=self.advice)
            self.logs.append(log)
            yield from _rows_of(each, self.settings, log)


def labelled_files(
    names: Sequence[str], settings: Settings, scratch: Path, *, advice: str = MEND
) -> LabelledFiles:
    """Return the labelled rows of `names`: tables, folders of classes, `-`, or builtin:NAME.

    A table whose name says no format is read like the first file of training. What can be read only
    once is copied to the folder `scratch`. Raises `DataError` for what cannot be opened.
    """
    if any(name.startswith(BUILT_IN_PREFIX) for name in names):
        if list(names) != [BUILT_IN_SERIES]:
            raise DataError(
                "there are no built-in labelled data of that name",
                got=", ".join(names),
                allowed=f"{BUILT_IN_SERIES}, alone",
            )
        return LabelledFiles(settings, (), built_in=True)
    return LabelledFiles(settings, tuple(_sources(names, settings, scratch)), advice=advice)


def require_tables(files: Iterable[LabelledFiles], text_column: str, label_column: str) -> None:
    """Raise `SettingError` where a column is named and nothing that is read has any."""
    given = {"--text-column": text_column, "--label-column": label_column}
    named = [f"{option} {column}" for option, column in given.items() if column]
    if named and not any(each.has_columns for each in files):
        raise SettingError(
            "a folder of classes has no columns",
            got=" ".join(named),
            hint="leave it out: each text is a file, or a line of the file of its class",
        )


def unlabelled_rows(
    request: PredictRequest,
    settings: Settings,
    scratch: Path,
    *,
    on_notice: Callable[[str], None],
) -> Iterator[LabelledRow]:
    """Yield the rows of one file without labels, blank ones too: one for each line that is read.

    A file whose ending names no table is read as lines of text, or by a run of series as the files
    it was trained with. The text is in the column that `input_column` finds. A row that cannot be
    read refuses the file, whatever training did: there is one answer for one line. Raises
    `DataError` for what cannot be read, `SettingError` for a column of what has none.
    """
    name = request.name
    if name.startswith(BUILT_IN_PREFIX):
        for row in labelled_files([name], settings, scratch).rows():
            yield row._replace(labels=())
        return
    is_series = settings.model.input == "series"
    if is_series and request.column:
        raise SettingError("a run of series reads every column", got=f"--column {request.column}")
    for each in _sources([name], settings, scratch):
        log = RowLog(each.source.name)
        otherwise = _format_of_training(settings) if is_series else "text"
        kind = format_of(each.shown, named=request.data_format, otherwise=otherwise)
        request.require_columns(kind)
        options = TableOptions(kind, settings.data.header, settings.data.delimiter)
        if is_series:
            wanted = _unlabelled_series_column(each.source, options, settings)
            for series in read_series(
                each.source, log, options, label_column=wanted, lengths="any", blank_rows="keep"
            ):
                yield LabelledRow(series.values, (), series.line, each.source.name)
        elif options.format == "text":
            for number, line in enumerate(iter_lines(each.source.chunks()), 1):
                yield LabelledRow(line, (), number, each.source.name)
        else:
            column = ""
            if kind not in CLASS_FORMATS:
                names = _input_names(settings, request)
                column, options, notice = input_column(each.source, options, names)
                if notice:
                    on_notice(notice)
            for text in read_labelled(
                each.source,
                log,
                options,
                text_column=column,
                label_column=None,
                blank_texts="keep",
            ):
                yield LabelledRow(text.text, (), text.line, text.file)


def _sources(names: Sequence[str], settings: Settings, scratch: Path) -> Iterator[_Named]:
    encoding = settings.text.encoding
    for name in names:
        if not is_standard_input(name) and Path(name).is_dir():
            # A folder is one set of classes, and is read as a whole.
            yield _Named(TextSource(name, encoding=encoding), name)
            continue
        for source, shown in text_sources([name], encoding=encoding, scratch=scratch):
            yield _Named(source, shown)


def _rows_of(each: _Named, settings: Settings, log: RowLog) -> Iterator[LabelledRow]:
    data = settings.data
    kind = format_of(each.shown, named=data.format, otherwise=_format_of_training(settings))
    options = TableOptions(kind, data.header, data.delimiter)
    if settings.model.input == "series":
        if kind in CLASS_FORMATS:
            raise DataError("series are read from a table", got=f"the folder {each.shown}")
        for series in read_series(
            each.source, log, options, label_column=data.label_column, lengths="any"
        ):
            yield LabelledRow(series.values, (series.label,), series.line, each.source.name)
        return
    if kind in ("conll", "conllu"):
        raise DataError(
            f"{each.shown} holds a tag for each token, not a label for each text",
            hint="learn from it with: elman train tag",
        )
    for text in read_labelled(
        each.source,
        log,
        options,
        text_column=data.text_column,
        label_column=data.label_column,
        label_separator=data.label_separator,
    ):
        yield LabelledRow(text.text, text.labels, text.line, text.file, text.is_list)


def told_rows(rows: Sequence[LabelledRow]) -> str:
    """Return where the first of some rows stand, and what labels they have, as a person reads."""
    told = "; ".join(
        f"line {row.line} of {row.file}: {', '.join(row.labels) or 'an empty list of labels'}"
        for row in rows[:MOST_SHOWN]
    )
    more = len(rows) - MOST_SHOWN
    return told + (f"; and {more:,} more" if more > 0 else "")


def _input_names(settings: Settings, request: PredictRequest) -> InputNames:
    data = settings.data
    chosen = request.column or data.text_column
    return InputNames("text", chosen, TEXT_NAMES, data.label_column, LABEL_NAMES)


def _format_of_training(settings: Settings) -> DataFormat:
    """Return the format of tables of which no name tells: that of the first file of training."""
    data = settings.data
    if data.format != "auto":
        return format_of("", named=data.format)
    first = Path(data.train[0]).name if data.train else ""
    kind = format_of(first, otherwise="tsv")
    return kind if kind in ("tsv", "csv", "jsonl") else "tsv"


def _unlabelled_series_column(
    source: TextSource, options: TableOptions, settings: Settings
) -> str | None:
    """Return the column of labels to pass over in a file of series, or None where it has none.

    It has one where training says which, and where the last cell of the first row is no number.
    """
    rows = TableRows(
        source,
        replace(options, blank_lines="skip"),
        RowLog(source.name, "skip"),
        numeric=True,
        any_width=True,
    )
    named = settings.data.label_column
    if named and named in rows.columns:
        return named
    for row in rows:
        cells = [cell for cell in row.fields if isinstance(cell, str)]
        for place, column in ((0, "1"), (-1, "-1")):
            if len(cells) > 1 and cells[place] and not is_number(cells[place]):
                return column
        return None
    return None
