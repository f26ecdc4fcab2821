"""The pairs of the files that a run or a command names: tables, two parallel files, built in."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from elman.config.settings import Settings
from elman.data.formats import format_of
from elman.data.input_column import InputNames, input_column
from elman.data.labelled import CLASS_FORMATS, read_labelled
from elman.data.pairs import TextPair, parallel_pairs, read_pairs
from elman.data.reversal import invented_names, reversal_pairs
from elman.data.row_log import MEND, RowLog
from elman.data.tables import SOURCE_NAMES, TARGET_NAMES, TableOptions
from elman.errors import DataError
from elman.recipes.corpus import BUILT_IN_PREFIX
from elman.recipes.named_files import text_sources
from elman.recipes.prediction_request import PredictRequest
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextSource, iter_lines

BUILT_IN_PAIRS = BUILT_IN_PREFIX + "reversal"
TABLES = ("tsv", "csv", "jsonl")


class PairReader:
    """Reads pairs under the settings of a run; `notices` tell what was left out so far.

    What can be read only once is copied to the folder `scratch`. `advice` is what is said of rows
    that are refused.
    """

    def __init__(self, settings: Settings, scratch: Path, *, advice: str = MEND) -> None:
        self.settings, self.scratch, self.advice = settings, scratch, advice
        self.notices: list[str] = []

    def pairs(self, names: Sequence[str], targets: Sequence[str] = ()) -> Iterator[TextPair]:
        """Yield the pairs of tables, or of files line by line with their `targets`.

        Raises `DataError` for what cannot be read or is no pair.
        """
        if any(name.startswith(BUILT_IN_PREFIX) for name in names):
            if list(names) != [BUILT_IN_PAIRS] or targets:
                raise DataError(
                    "there are no built-in pairs of that name",
                    got=", ".join(names),
                    allowed=f"{BUILT_IN_PAIRS}, alone",
                )
            yield from reversal_pairs(invented_names())
            return
        if targets:
            for source, target in self._parallel(names, targets):
                log = self._log(source)
                yield from map(_in_one_line, parallel_pairs(source, target, log))
                self.notices.extend(log.notices())
            return
        data = self.settings.data
        for source, shown in self._sources(names):
            log = self._log(source)
            found = read_pairs(
                source,
                log,
                self._options(shown),
                source_column=data.source_column,
                target_column=data.target_column,
            )
            yield from map(_in_one_line, found)
            self.notices.extend(log.notices())

    def source_lines(self, request: PredictRequest) -> Iterator[str]:
        """Yield what is to be translated, one text for each line or row of one file, blanks too.

        A file whose ending names no table is read as lines; of a table the column that
        `input_column` finds. A row that cannot be read refuses the file, whatever training did.
        Raises `SettingError` for a column of what has none.
        """
        data = self.settings.data
        names = InputNames(
            "source", data.source_column, SOURCE_NAMES, data.target_column, TARGET_NAMES
        )
        for source, shown in self._sources([request.name]):
            kind = format_of(shown, named=data.format)
            request.require_columns(kind if kind in (*TABLES, *CLASS_FORMATS) else "text")
            if kind not in TABLES:
                yield from iter_lines(source.chunks())
                continue
            column, options, notice = input_column(source, self._options(shown), names)
            if notice:
                self.notices.append(notice)
            for row in read_labelled(
                source,
                RowLog(source.name),
                options,
                text_column=column,
                label_column=None,
                blank_texts="keep",
            ):
                yield row.text.replace("\n", " ")

    def _parallel(
        self, names: Sequence[str], targets: Sequence[str]
    ) -> Iterator[tuple[TextSource, TextSource]]:
        if sum(map(is_standard_input, (*names, *targets))) > 1:
            raise DataError("standard input can be read only once", got="- on both sides")
        sides = [[source for source, _ in self._sources(side)] for side in (names, targets)]
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                "there must be a file of targets for each file of sources",
                got=f"{len(sides[0])} and {len(sides[1])} files",
            )
        return zip(*sides, strict=True)

    def _sources(self, names: Sequence[str]) -> Iterator[tuple[TextSource, str]]:
        return text_sources(names, encoding=self.settings.text.encoding, scratch=self.scratch)

    def _log(self, source: TextSource) -> RowLog:
        return RowLog(source.name, self.settings.data.bad_rows, advice=self.advice)

    def _options(self, name: str) -> TableOptions:
        data = self.settings.data
        return TableOptions(
            format_of(name, named=data.format, otherwise="tsv"), data.header, data.delimiter
        )


def _in_one_line(pair: TextPair) -> TextPair:
    """Return a pair whose sides are one line each, which is what tokenizers of lines read."""
    if "\n" not in pair.source and "\n" not in pair.target:
        return pair
    return TextPair(pair.source.replace("\n", " "), pair.target.replace("\n", " "), pair.line)
