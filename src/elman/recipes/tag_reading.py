"""Tagged sentences of the files that a run or a command names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elman.config.settings import DataSettings
from elman.data.conll import TaggedFile
from elman.data.conll_block import TaggedSentence
from elman.data.formats import format_of
from elman.data.row_log import MEND, RowLog
from elman.errors import DataError
from elman.recipes.corpus import BUILT_IN_PREFIX
from elman.recipes.named_files import text_sources


@dataclass(frozen=True)
class TaggedFiles:
    """Files of tagged sentences, in order, each read with the same columns.

    A name is a file, a folder of files, or `-` for standard input, which is copied to a scratch
    folder so that it can be read again.
    """

    files: tuple[TaggedFile, ...]

    def sentences(self) -> Iterator[TaggedSentence]:
        """Yield every sentence with its tags.

        Raises `DataError` for rows that are refused, and where a file has no column of tags.
        """
        for file in self.files:
            for sentence in file.sentences():
                if not sentence.tags:
                    raise DataError(
                        f"{file.source.name} has no tags",
                        got="one column",
                        allowed="a token and its tag on each line",
                    )
                yield sentence

    def notices(self) -> Iterator[str]:
        """Yield what was left out of the files that were read, a line each."""
        for file in self.files:
            yield from file.log.notices()


def tagged_files(
    names: Sequence[str],
    settings: DataSettings,
    *,
    encoding: str,
    scratch: Path,
    advice: str = MEND,
) -> TaggedFiles:
    """Return the files of `names`; those that cannot be opened are told now.

    `advice` is what is said of sentences that are refused.
    """
    if any(name.startswith(BUILT_IN_PREFIX) for name in names):
        raise DataError("there is no built-in corpus of tagged sentences", got=", ".join(names))
    files = []
    for source, shown in text_sources(names, encoding=encoding, scratch=scratch):
        files.append(
            TaggedFile(
                source,
                RowLog(source.name, settings.bad_rows, advice=advice),
                format=format_of(shown, named=settings.format, otherwise="conll"),
                token_column=settings.token_column,
                tag_column=settings.tag_column,
            )
        )
    return TaggedFiles(tuple(files))
