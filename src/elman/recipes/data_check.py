"""What was read of files of data, and what is odd about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elman.data.row_log import LineTally, RowLog
from elman.data.tables import LABEL_NAMES
from elman.errors import DataError, SettingError
from elman.recipes.check_rows import CheckedRows, CheckRequest, check_parallel, open_rows
from elman.recipes.check_tallies import (
    FEW_VALUES,
    CharacterTally,
    ColumnTally,
    RepeatTally,
    lines_json,
)
from elman.recipes.corpus import open_corpus
from elman.text.encodings import holds_surrogate
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextReport, TextSource, iter_lines

FEW_COLUMNS = 4


@dataclass
class FileCheck:
    """What was found in one file, folder, or pair of parallel files.

    rows: those that can be used; `log` has the others. partly_blank, all_blank: usable rows of
    which some cells or all are blank. `reports` and `characters` are of the whole text, before it
    was parted into rows; a folder of classes has no report. unended: files whose last line has no
    end.
    """

    name: str
    told: str
    unit: str
    log: RowLog
    columns: list[ColumnTally]
    input_at: int
    answer_at: int | None
    with_labels: bool
    repeats: RepeatTally
    earlier_names: tuple[str, ...]
    characters: CharacterTally
    reports: list[TextReport] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    partly_blank: LineTally = field(default_factory=LineTally)
    all_blank: LineTally = field(default_factory=LineTally)

    @property
    def is_answer_untold(self) -> bool:
        """Whether there are several columns beside the input, and none is known to be the answer.

        Rows are then compared as a whole, and none has another answer than one with its input.
        """
        return self.answer_at is None and len(self.columns) > 2

    def unit_of(self, place: int) -> str:
        """Return what the lengths of a column are counted in; the label of a series is a word."""
        is_word = self.unit == "numbers" and place != self.input_at
        return "characters" if is_word else self.unit

    def labels(self, place: int) -> dict[str, int] | None:
        """Return the counts of the labels in a column, most frequent first; None if it has none.

        Numbers are labels where the column is called so, or in a table of few columns.
        """
        column = self.columns[place]
        if not self.with_labels or place == self.input_at or not column.has_few_values:
            return None
        called = column.name.lower() in LABEL_NAMES
        narrow = len(self.columns) <= FEW_COLUMNS and len(column.values) <= FEW_VALUES
        return column.by_count() if called or narrow or not column.all_numbers else None

    def to_json(self) -> dict[str, object]:
        """Return everything as values of JSON."""
        log, repeats = self.log, self.repeats
        return {
            "name": self.name,
            "format": self.told,
            "unit": self.unit,
            "rows": log.rows,
            "unusable": {
                "count": log.num_faults,
                "first": [fault._asdict() for fault in log.faults],
            },
            "blank_lines": log.blank_lines,
            "partly_blank": lines_json(self.partly_blank),
            "all_blank": lines_json(self.all_blank),
            "repeated": lines_json(repeats.repeated),
            "same_input_other_answer": lines_json(repeats.conflicting),
            "shared": [
                {"with": name, "rows": lines_json(rows), "inputs": lines_json(inputs)}
                for name, rows, inputs in zip(
                    self.earlier_names, repeats.shared_rows, repeats.shared_inputs, strict=True
                )
            ],
            "columns": [
                {
                    **column.to_json(),
                    "is_input": place == self.input_at,
                    "is_answer": place == self.answer_at,
                    "labels": self.labels(place),
                }
                for place, column in enumerate(self.columns)
            ],
            "files": [
                {
                    "name": report.name,
                    "bytes": report.bytes_read,
                    "characters": report.characters,
                    "lines": report.lines,
                    "crlf": report.crlf,
                    "lone_returns": report.carriage_returns,
                    "nul": report.nul,
                    "invisible": report.invisible,
                    "last_line_ended": report.name not in self.unended,
                    "sha256": report.sha256,
                }
                for report in self.reports
            ],
            "distinct_characters": len(self.characters.counts),
            "odd_characters": self.characters.odd(),
            "lines_not_nfc": lines_json(self.characters.not_nfc),
            "left_out": list(log.remarks),
        }


@dataclass(frozen=True)
class DataCheck:
    """All files that were checked, in the order given; others are held against the first."""

    files: tuple[FileCheck, ...]

    @property
    def num_unusable(self) -> int:
        """Rows that cannot be used, in all files together."""
        return sum(file.log.num_faults for file in self.files)

    def to_json(self) -> dict[str, object]:
        """Return everything as values of JSON."""
        return {
            "unusable": self.num_unusable,
            "files": [file.to_json() for file in self.files],
        }


def check_data(request: CheckRequest, scratch: Path) -> DataCheck:
    """Read every file twice, once as text and once as rows; tell what is in it.

    Standard input is copied into the folder `scratch` first. Memory grows with the number of
    different rows and words, not with their length. The first file is taken for training: symbols,
    words and rows of the others are held against it. Raises `DataError` and `SettingError` for what
    cannot be read or asked for.
    """
    names = request.names
    if not names:
        raise SettingError("there is nothing to check", hint="name a file, a folder or -")
    for name in names:
        if holds_surrogate(name):
            raise DataError("the name of a file must be valid UTF-8", got=repr(name))
    if sum(map(is_standard_input, names)) > 1:
        raise SettingError("standard input can be read only once", got="- named several times")
    if request.max_length < 0:
        raise SettingError("max_length must be 0 or more", got=str(request.max_length))
    groups: list[tuple[str, ...]] = [(name,) for name in names]
    if request.parallel:
        check_parallel(names)
        groups = list(zip(names[::2], names[1::2], strict=True))
    checked: list[FileCheck] = []
    for group in groups:
        sources = [_source(name, request.encoding, scratch) for name in group]
        checked.append(_checked(sources, request, checked))
    return DataCheck(tuple(checked))


def _source(name: str, encoding: str, scratch: Path) -> TextSource:
    """Return a source that can be read twice."""
    if Path(name).is_dir():
        return TextSource(name, encoding=encoding)
    corpus = open_corpus([name], encoding=encoding, repeats="keep", scratch=scratch)
    called = "standard input" if is_standard_input(name) else name
    return TextSource(str(corpus.spooled.get(name, name)), encoding=encoding, name=called)


def _checked(
    sources: Sequence[TextSource], request: CheckRequest, earlier: Sequence[FileCheck]
) -> FileCheck:
    name = " and ".join(source.name for source in sources)
    characters = CharacterTally()
    is_folder = Path(sources[0].path).is_dir()
    unended = [] if is_folder else [s.name for s in sources if not _read_whole(s, characters)]
    log = RowLog(name, "skip", only_faults=True)
    opened = open_rows(sources, request, log)
    first = earlier[0] if earlier else None
    compared = first is not None and len(first.columns) == len(opened.columns)
    check = FileCheck(
        name=name,
        told=opened.told,
        unit=opened.unit,
        log=log,
        columns=[
            ColumnTally(
                column,
                reference=first.columns[place] if first is not None and compared else None,
                most_length=request.max_length,
            )
            for place, column in enumerate(opened.columns)
        ],
        input_at=opened.input_at,
        answer_at=opened.answer_at,
        with_labels=opened.with_labels,
        repeats=RepeatTally([other.repeats for other in earlier]),
        earlier_names=tuple(other.name for other in earlier),
        characters=characters,
        reports=[] if is_folder else [source.report() for source in sources],
        unended=unended,
    )
    _count_rows(check, opened, characters if is_folder else None)
    return check


def _read_whole(source: TextSource, characters: CharacterTally) -> bool:
    """Read a file as text; return whether its last line has an end."""
    watched = _LastCharacter(source.chunks())
    for number, line in enumerate(iter_lines(watched), 1):
        characters.add_line(number, line)
    return watched.last == "\n"


class _LastCharacter:
    """Pieces of text that pass through; the last character is kept."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self.last = ""

    def __iter__(self) -> Iterator[str]:
        for piece in self._pieces:
            self.last = piece[-1:]
            yield piece


def _count_rows(check: FileCheck, opened: CheckedRows, characters: CharacterTally | None) -> None:
    """Count the rows; `characters` takes their texts where the files were not read as text."""
    for line, cells, answer in opened.rows:
        texts = [cell.text for cell in cells]
        for column, cell in zip(check.columns, cells, strict=False):
            column.add(line, cell.text, words=cell.words, length=cell.length)
            column.add_values(cell.values)
        filled = sum(bool(text.strip()) for text in texts)
        # An empty list of labels is an answer: none of them.
        is_none = check.answer_at is not None and not answer
        if filled + is_none < len(texts):
            (check.partly_blank if filled else check.all_blank).add(line)
        if filled:
            given = texts[check.input_at]
            told = texts if check.answer_at is None else (given, *answer)
            check.repeats.add(line, told, given, has_answer=not check.is_answer_untold)
        if characters is not None:
            characters.add_line(line, texts[check.input_at])
