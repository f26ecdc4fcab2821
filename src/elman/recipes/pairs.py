"""The pairs of the files that a run or a command names: tables, two parallel files, built in."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from elman.config.settings import Settings
from elman.data.formats import format_of
from elman.data.pairs import TextPair, parallel_pairs, read_pairs
from elman.data.reversal import invented_names, reversal_pairs
from elman.data.row_log import RowLog
from elman.data.tables import TableOptions
from elman.errors import DataError
from elman.recipes.corpus import BUILT_IN_PREFIX, open_corpus
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextSource, iter_lines, open_sources

BUILT_IN_PAIRS = BUILT_IN_PREFIX + "reversal"
TABLES = ("tsv", "csv", "jsonl")


class PairReader:
    """Reads pairs under the settings of a run; `notices` tell what was left out so far.

    What can be read only once is copied to the folder `scratch`.
    """

    def __init__(self, settings: Settings, scratch: Path) -> None:
        self.settings, self.scratch = settings, scratch
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
        sources = self.sources(names)
        if targets:
            for source, target in zip(sources, self.sources(targets), strict=True):
                log = self._log(source)
                yield from map(_in_one_line, parallel_pairs(source, target, log))
                self.notices.extend(log.notices())
            return
        for source, shown in zip(sources, _shown_names(names, sources), strict=True):
            log = self._log(source)
            options = self._options(shown)
            data = self.settings.data
            yield from map(
                _in_one_line,
                read_pairs(
                    source,
                    log,
                    options,
                    source_column=data.source_column,
                    target_column=data.target_column,
                ),
            )
            self.notices.extend(log.notices())

    def sources(self, names: Sequence[str]) -> list[TextSource]:
        """Return the files that `names` name, folders opened, all known to be there."""
        encoding = self.settings.text.encoding
        found: list[TextSource] = []
        for name in names:
            corpus = open_corpus([name], encoding=encoding, repeats="keep", scratch=self.scratch)
            copy = corpus.spooled.get(name)
            if copy is None:
                found.extend(open_sources([name], encoding=encoding))
            else:
                called = "standard input" if is_standard_input(name) else name
                found.append(TextSource(str(copy), encoding=encoding, name=called))
        return found

    def source_lines(self, name: str) -> Iterator[str]:
        """Yield what is to be translated, one text for each line or row of one file, blanks too.

        A file whose ending names no table is read as lines; of a table the column of the sources.
        """
        for source in self.sources([name]):
            kind = format_of(
                name if is_standard_input(name) else source.path, named=self.settings.data.format
            )
            if kind not in TABLES:
                yield from iter_lines(source.chunks())
                continue
            from elman.data.labelled import read_labelled

            options = self._options(source.path)
            column = self.settings.data.source_column
            for row in read_labelled(
                source,
                self._log(source),
                options,
                text_column=column or _source_column(source, options),
                label_column=None,
                blank_texts="keep",
            ):
                yield row.text.replace("\n", " ")

    def _log(self, source: TextSource) -> RowLog:
        return RowLog(source.name, self.settings.data.bad_rows)

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


def _shown_names(names: Sequence[str], sources: Sequence[TextSource]) -> list[str]:
    """Return for each source the name whose ending tells its format."""
    if len(names) == len(sources):
        return list(names)
    return [source.path for source in sources]  # folders were opened


def _source_column(source: TextSource, options: TableOptions) -> str:
    """Return the column that `read_pairs` would read sources from, as a number from 1."""
    from elman.data.pairs import pair_columns
    from elman.data.tables import TableRows

    rows = TableRows(source, options, RowLog(source.name, "skip"))
    if len(rows.columns) < 2:
        return "1"
    return str(pair_columns(rows)[0] + 1)
