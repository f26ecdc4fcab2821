"""Tagged sentences of the files that a run or a command names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elman.config.data_settings import DataSettings
from elman.data.conll import TaggedFile
from elman.data.conll_block import TaggedSentence
from elman.data.formats import format_of
from elman.data.row_log import MEND, RowLog
from elman.errors import DataError
from elman.recipes.corpus import BUILT_IN_PREFIX
from elman.recipes.named_files import text_sources
from elman.text.tag_set import FileScheme, first_foreign_tag


@dataclass(frozen=True)
class TaggedFiles:
    """Files of tagged sentences, in order, each read with the same columns.

    A name is a file, a folder of files, or `-` for standard input, which is copied to a scratch
    folder so that it can be read again.
    """

    files: tuple[TaggedFile, ...]

    def sentences(self, *, written: FileScheme = "none") -> Iterator[TaggedSentence]:
        """Yield every sentence with its tags, which must be of the scheme `written`.

        Raises `DataError` for rows that are refused, where a file has no column of tags, and with
        file and line for a tag that is none of the scheme.
        """
        for file in self.files:
            for sentence in file.sentences():
                if not sentence.tags:
                    raise DataError(
                        f"{file.source.name} has no tags",
                        got="one column",
                        allowed="a token and its tag on each line",
                    )
                _require_scheme(file.source.name, sentence, written)
                yield sentence

    def notices(self) -> Iterator[str]:
        """Yield what was left out of the files that were read, a line each."""
        for file in self.files:
            yield from file.log.notices()


def _require_scheme(name: str, sentence: TaggedSentence, written: FileScheme) -> None:
    place = first_foreign_tag(sentence.tags, written)
    if place is None:
        return
    line = sentence.line + sentence.places[place].row - sentence.places[0].row
    raise DataError(
        f"{name}, line {line}: the column of tags holds no tag of the scheme {written}",
        got=repr(sentence.tags[place]),
        allowed=f"O, or a letter of {written} with a hyphen and a label, such as B-LOC",
        hint="is it a file with such tags, and is their column the right one (data.tag_column)?",
    )


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
