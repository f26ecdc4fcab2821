"""From tagged files to batches: read, split by sentences, learn the vocabularies, encode."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.config.settings import Settings
from elman.data.examples import TagBatch, TagBatches
from elman.data.order import EpochOrder
from elman.data.repeats import FirstSeen
from elman.data.row_log import MEND_OR_SKIP
from elman.data.splits import split_lines
from elman.data.token_array import LineArray, join_lines
from elman.errors import DataError, SettingError, first_few
from elman.evaluation.spans import scheme_of_tags
from elman.recipes.named_files import require_names
from elman.recipes.prepared_rows import PreparedRows
from elman.recipes.prepared_text import PART_NAMES, PartName
from elman.recipes.tag_reading import tagged_files
from elman.recipes.tag_vocabulary import TagVocabulary, learn_vocabulary
from elman.text.normalising import normalise
from elman.text.tag_set import FileScheme, LearntScheme, tells_spans

MOST_TAGS_TOLD = 5
LONG_SENTENCE = 1_000
"""A sentence of more tokens is worth a word: blank lines may be missing."""


@dataclass(frozen=True)
class TaggedRow:
    """One sentence: tokens in the normal form of the run, and tags as the file spells them."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class TagPart:
    """One part of the data: its sentences, and those of known tags alone as rows of ids.

    words: the number of each token's spelling in `spellings`. `num_unlearnable` sentences have a
    tag that the model does not know; they are scored, but have no loss.
    """

    rows: tuple[TaggedRow, ...]
    ids: LineArray
    words: LineArray
    tags: LineArray
    num_unlearnable: int

    @property
    def num_tokens(self) -> int:
        """Tokens of all sentences."""
        return sum(len(row.tokens) for row in self.rows)

    @property
    def row_lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each sentence whose tags are all known."""
        return self.ids.lengths_N

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of this part."""
        return {
            "sentences": len(self.rows),
            "tokens": self.num_tokens,
            "ids_sha256": self.ids.digest(),
            "tags_sha256": self.tags.digest(),
        }


@dataclass(frozen=True)
class PreparedTags(PreparedRows[TagPart, TagBatch]):
    """The vocabularies and the parts encoded with them. `notices` are lines a person should see.

    word_counts_V: how often each word of the vocabulary stands in the training part.
    """

    vocabulary: TagVocabulary
    parts: Mapping[PartName, TagPart]
    spellings: LineArray
    word_counts_V: npt.NDArray[np.int64]
    names: tuple[str, ...]
    notices: tuple[str, ...]

    @property
    def num_targets(self) -> int:
        """Tokens to learn from."""
        return self.parts["train"].num_tokens

    def vocabularies(self) -> dict[str, str]:
        """Return words, tags and characters as a run folder keeps them."""
        return self.vocabulary.files()

    def sizes(self) -> dict[str, int]:
        """Return the counts that the manifest records."""
        tokens = {f"{name}_tokens": part.num_tokens for name, part in self.parts.items()}
        return {
            "words": len(self.vocabulary.words),
            "characters": len(self.vocabulary.characters),
            "tags": len(self.vocabulary.tags),
            **tokens,
        }

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of the data."""
        return super().facts() | {
            "files": list(self.names),
            "tags": {
                "files": self.vocabulary.tags.written,
                "learnt": self.vocabulary.tags.learnt,
            },
        }

    def batches_in(self, part: TagPart, order: EpochOrder) -> TagBatches:
        """Return the batches of a part, of the sentences whose tags are all known."""
        return TagBatches(
            part.ids,
            part.words,
            part.tags,
            self.spellings,
            order,
            pad_id=self.vocabulary.pad_id,
            spelling_pad_id=self.vocabulary.spelling_pad_id,
        )


def prepare_tags(settings: Settings, scratch: Path) -> PreparedTags:
    """Read, split, learn and encode; standard input is copied into the folder `scratch`.

    Raises `DataError` for files that cannot be read and for tags that cannot be learnt.
    """
    require_names(settings.data)
    notices: list[str] = []
    rows: dict[PartName, list[TaggedRow]] = {}
    for name in PART_NAMES:
        if getattr(settings.data, name):
            told = [row.tags for row in rows.get("train", ())]
            written = _written(settings, told) if told else _named_scheme(settings)
            names = getattr(settings.data, name)
            rows[name] = _read(settings, names, scratch, notices, written=written)
    if settings.data.repeats == "drop":
        rows["train"] = _without_repeats(rows["train"], notices)
    parts = _split(settings, rows, notices)
    written, learnt = _schemes(settings, [row.tags for row in parts["train"]])
    vocabulary, counts = learn_vocabulary(
        settings.text,
        ((row.tokens, row.tags) for row in parts["train"]),
        written=written,
        learnt=learnt,
    )
    spelled = _Spellings(vocabulary)
    encoded = {name: spelled.part(part, name) for name, part in parts.items()}
    notices += _oddities(vocabulary, parts)
    counts_V = np.array([counts[word] for word in vocabulary.words.vocabulary.symbols])
    return PreparedTags(
        vocabulary,
        encoded,
        spelled.lines(),
        counts_V,
        tuple(name for part in PART_NAMES for name in getattr(settings.data, part)),
        tuple(notices),
    )


def _read(
    settings: Settings,
    names: Sequence[str],
    scratch: Path,
    notices: list[str],
    *,
    written: FileScheme,
) -> list[TaggedRow]:
    """Read sentences, with tags of the scheme `written`: none is no word on what they are."""
    encoding = settings.text.encoding
    files = tagged_files(
        names, settings.data, encoding=encoding, scratch=scratch, advice=MEND_OR_SKIP
    )
    form, same = settings.text.normal_form, dict[str, str]()

    def kept(text: str) -> str:
        return same.setdefault(text, text)  # one string for all tokens spelled alike

    rows = [
        TaggedRow(
            tuple(kept(normalise(token, form)) for token in sentence.tokens),
            tuple(map(kept, sentence.tags)),
        )
        for sentence in files.sentences(written=written)
    ]
    notices.extend(files.notices())
    return rows


def _without_repeats(rows: Sequence[TaggedRow], notices: list[str]) -> list[TaggedRow]:
    seen = FirstSeen()
    kept = [row for row in rows if seen.is_new(_key(row))]
    if seen.dropped:
        several = "sentence is" if seen.dropped == 1 else "sentences are"
        notices.append(f"{seen.dropped:,} repeated {several} left out")
    return kept


def _key(row: TaggedRow) -> str:
    return "\n".join((*row.tokens, "", *row.tags))


def _split(
    settings: Settings, rows: Mapping[PartName, list[TaggedRow]], notices: list[str]
) -> dict[PartName, tuple[TaggedRow, ...]]:
    """Split what has no files of its own off the training sentences."""
    data, train = settings.data, rows["train"]
    split = split_lines(
        len(train),
        valid_fraction=0.0 if "valid" in rows else data.valid_fraction,
        test_fraction=0.0 if "test" in rows else data.test_fraction,
        seed=settings.training.seed,
        mode="tail" if data.split == "tail" else "shuffled",
    )
    notices.extend(split.notices)
    parts: dict[PartName, tuple[TaggedRow, ...]] = {}
    for name, chosen_N in zip(
        PART_NAMES, (split.train_N, split.valid_N, split.test_N), strict=True
    ):
        if name != "train" and name in rows:
            parts[name] = tuple(rows[name])
        elif len(chosen_N) or name == "train":
            parts[name] = tuple(train[number] for number in chosen_N)
    return parts


def _schemes(
    settings: Settings, sentences: Sequence[Sequence[str]]
) -> tuple[FileScheme, LearntScheme]:
    """Return the scheme of the files and the one to learn, as settings say or as the tags tell."""
    written = _written(settings, sentences)
    wanted = settings.model.scheme
    if written == "none":
        if wanted not in ("auto", "file"):
            raise SettingError(
                f"model.scheme = {wanted} needs tags that tell spans",
                got="tags that stand each for itself",
                hint="leave model.scheme out, or name the scheme with data.tag_scheme",
            )
        return "none", "none"
    if wanted == "file":
        return written, "BIOES" if written == "BILOU" else written
    return written, "BIOES" if wanted == "auto" else wanted


def _written(settings: Settings, sentences: Sequence[Sequence[str]]) -> FileScheme:
    """Return the scheme of the files, as settings say or as the tags tell."""
    if settings.data.tag_scheme == "auto" and tells_spans({t for tags in sentences for t in tags}):
        return scheme_of_tags(sentences)
    return _named_scheme(settings)


def _named_scheme(settings: Settings) -> FileScheme:
    """Return the scheme that settings name; none where the tags are to tell it."""
    return "none" if settings.data.tag_scheme == "auto" else settings.data.tag_scheme


class _Spellings:
    """Spells each distinct word of all parts once, and encodes the parts."""

    def __init__(self, vocabulary: TagVocabulary) -> None:
        self._vocabulary = vocabulary
        self._numbers: dict[str, int] = {}

    def part(self, rows: Sequence[TaggedRow], name: PartName) -> TagPart:
        """Return the part `name` with the rows of ids of its sentences of known tags."""
        vocabulary = self._vocabulary
        ids, words, tags = list[list[int]](), list[list[int]](), list[list[int]]()
        for row in rows:
            try:
                known = vocabulary.tags.ids(row.tags)
            except DataError as error:
                raise DataError(f"the {name} data hold a tag of another kind: {error}") from None
            complete = [number for number in known if number is not None]
            if len(complete) < len(known):
                continue
            numbers = self._numbers
            ids.append([vocabulary.word_id(word) for word in row.tokens])
            words.append([numbers.setdefault(word, len(numbers)) for word in row.tokens])
            tags.append(complete)
        return TagPart(
            tuple(rows),
            join_lines(ids, len(vocabulary.words)),
            join_lines(words, max(len(self._numbers), 1)),
            join_lines(tags, len(vocabulary.tags)),
            len(rows) - len(ids),
        )

    def lines(self) -> LineArray:
        """Return the spellings, by the numbers that the parts use."""
        spelled = map(self._vocabulary.spelling, self._numbers)
        return join_lines(spelled, len(self._vocabulary.characters))


def _oddities(
    vocabulary: TagVocabulary, parts: Mapping[PartName, Sequence[TaggedRow]]
) -> Iterator[str]:
    """Yield a line for each thing in the data that a person would want to know of."""
    train = parts["train"]
    written = vocabulary.tags.written
    if written != "none":
        misplaced = sum(vocabulary.tags.num_misplaced(row.tags) for row in train)
        learnt = vocabulary.tags.learnt
        turned = f", learnt as {learnt}" if learnt != written else ""
        yield f"the tags tell spans in the scheme {written}{turned}"
        if misplaced:
            tags_are = "tag to learn from is" if misplaced == 1 else "tags to learn from are"
            yield (
                f"{misplaced:,} {tags_are} out of place in {written}; spans are read as conlleval "
                "reads them"
            )
    repeated = len(train) - len({row.tokens for row in train})
    if repeated:
        repeat = "repeats" if repeated == 1 else "repeat"
        yield (
            f"{repeated:,} of {len(train):,} sentences to learn from {repeat} the tokens of another"
        )
    longest = max(len(row.tokens) for row in train)
    if longest > LONG_SENTENCE:
        yield f"the longest sentence has {longest:,} tokens: are blank lines missing?"
    learnt_from = {row.tokens for row in train}
    known = frozenset(vocabulary.tags.written_tags)
    for name, rows in parts.items():
        if name == "train":
            continue
        shared = sum(row.tokens in learnt_from for row in rows)
        if shared:
            are = "is" if shared == 1 else "are"
            yield f"{shared:,} of {len(rows):,} {name} sentences {are} among those learnt from"
        yield from _unknown_tags(name, rows, known)


def _unknown_tags(
    name: PartName, rows: Iterable[TaggedRow], known: frozenset[str]
) -> Iterator[str]:
    counts = Counter(tag for row in rows for tag in row.tags if tag not in known)
    if not counts:
        return
    listed = first_few([f"{tag} ({n:,})" for tag, n in counts.most_common()], MOST_TAGS_TOLD)
    yield f"the {name} part has tags that training does not have: {listed}"
