"""What a tagger knows of words, characters and tags: learnt from data, kept in the run folder."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

import numpy as np
import torch

from elman.checkpoints.run_folder import CHARACTERS, LABELS, TOKENIZER
from elman.config.text_settings import TextSettings
from elman.data.examples import TagBatch
from elman.errors import DataError, RunError
from elman.models.usual_tags import UsualTags
from elman.text.characters import CharacterTokenizer
from elman.text.tag_set import FileScheme, LearntScheme, TagSet
from elman.text.tokenizer import Ids
from elman.text.tokenizer_file import tokenizer_from_json
from elman.text.vocabulary import Vocabulary, specials_for
from elman.text.words import WordTokenizer

TAGS_SCHEMA = 1
LEAST_WORDS_OF_A_CHARACTER = 2
"""A character of fewer different words is unknown, so that the vector of the unknown is learnt."""


@dataclass(frozen=True)
class TagVocabulary:
    """Words, the characters they are spelled with, tags, and each word's usual tag.

    A token of a file is a word as a whole, blanks within it included. Tokens are put into the
    normal form of the settings first.
    """

    words: WordTokenizer
    characters: CharacterTokenizer
    tags: TagSet
    usual: UsualTags

    @property
    def pad_id(self) -> int:
        """The word id that fills a batch."""
        return _present(self.words.vocabulary.pad_id)

    @property
    def unk_id(self) -> int:
        """The id of words that training does not have."""
        return _present(self.words.vocabulary.unk_id)

    @property
    def spelling_pad_id(self) -> int:
        """The character id that fills a spelling."""
        return _present(self.characters.vocabulary.pad_id)

    @property
    def known_words(self) -> frozenset[str]:
        """The words that have a vector of their own."""
        vocabulary = self.words.vocabulary
        return frozenset(vocabulary.symbols[len(vocabulary.specials) :])

    def word_id(self, word: str) -> int:
        """Return the id of a normalised word.

        A word that training does not have is taken for the same one in lower case, and where there
        is none, for the unknown word. Its spelling keeps its capitals.
        """
        vocabulary = self.words.vocabulary
        for known in (vocabulary.id_of(word), vocabulary.id_of(word.lower())):
            if known is not None:
                return known
        return self.unk_id

    def spelling(self, word: str) -> Ids:
        """Return the ids of the characters of a normalised word."""
        return self.characters.encode(word)

    def usual_tags(self, tokens: Sequence[str]) -> list[str]:
        """Return the usual tag of each normalised token, as files spell it."""
        return self.usual.predict([self.words.vocabulary.id_of(word) for word in tokens])

    def batch(self, sentences: Sequence[Sequence[str]]) -> TagBatch:
        """Return sentences of at least one token each as a batch without tags (0 everywhere)."""
        normal = [[self.words.normalise(token) for token in tokens] for tokens in sentences]
        distinct = {word: None for tokens in normal for word in tokens}
        numbers = {word: number for number, word in enumerate(distinct)}
        lengths = [len(tokens) for tokens in normal]
        ids_BT = np.full((len(normal), max(lengths)), self.pad_id, dtype=np.int64)
        words_BT = np.zeros_like(ids_BT)
        for row, tokens in enumerate(normal):
            ids_BT[row, : len(tokens)] = [self.word_id(word) for word in tokens]
            words_BT[row, : len(tokens)] = [numbers[word] for word in tokens]
        spelled = [self.spelling(word) for word in distinct]
        spellings_WK = np.full(
            (len(spelled), max(map(len, spelled))), self.spelling_pad_id, dtype=np.int64
        )
        for row, ids in enumerate(spelled):
            spellings_WK[row, : len(ids)] = ids
        return TagBatch(
            torch.from_numpy(ids_BT),
            torch.tensor(lengths),
            torch.from_numpy(words_BT),
            torch.from_numpy(spellings_WK),
            torch.tensor([len(ids) for ids in spelled]),
            torch.zeros(ids_BT.shape, dtype=torch.int64),
        )

    def files(self) -> dict[str, str]:
        """Return the vocabularies as a run folder keeps them, by the names of their files."""
        return {
            TOKENIZER: self.words.to_json(),
            LABELS: _tags_json(self.tags, self.usual),
            CHARACTERS: self.characters.to_json(),
        }

    @classmethod
    def of_files(cls, texts: Mapping[str, str]) -> Self:
        """Return what `files` gave. Raises `RunError` for anything else."""
        words = tokenizer_from_json(texts[TOKENIZER])
        characters = tokenizer_from_json(texts[CHARACTERS])
        if not isinstance(words, WordTokenizer) or not isinstance(characters, CharacterTokenizer):
            raise RunError(
                f"{TOKENIZER} of a tagger must hold words, and {CHARACTERS} characters",
                got=f"{words.level} and {characters.level}",
            )
        tags, usual = _tags_of_json(texts[LABELS], len(words.vocabulary))
        return cls(words, characters, tags, usual)


def learn_vocabulary(
    settings: TextSettings,
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]],
    *,
    written: FileScheme,
    learnt: LearntScheme,
) -> tuple[TagVocabulary, Counter[str]]:
    """Return the vocabulary of sentences of normalised tokens and their tags; and word counts.

    `settings` is the section text of the run. Raises `DataError` where there is no token.
    """
    rows = list(sentences)
    counts = Counter(word for tokens, _ in rows for word in tokens)
    vocabulary = Vocabulary.from_counts(
        counts,
        specials=specials_for(settings),
        min_count=settings.min_count,
        max_size=settings.vocabulary_size,
    )
    words = WordTokenizer(vocabulary, settings)
    ids = vocabulary.id_of
    tokens = (
        (ids(word), tag)
        for sentence, tags in rows
        for word, tag in zip(sentence, tags, strict=True)
    )
    found = TagVocabulary(
        words,
        _characters_of(counts, settings),
        TagSet.of((tags for _, tags in rows), written, learnt),
        UsualTags.fit(tokens, len(vocabulary)),
    )
    return found, counts


def _characters_of(words: Iterable[str], text: TextSettings) -> CharacterTokenizer:
    counts = Counter(character for word in words for character in set(word))
    least = LEAST_WORDS_OF_A_CHARACTER if max(counts.values(), default=0) > 1 else 1
    settings = replace(
        TextSettings(),
        level="char",
        unit="line",
        encoding=text.encoding,
        normal_form=text.normal_form,
        min_count=least,
    )
    vocabulary = Vocabulary.from_counts(counts, specials=specials_for(settings), min_count=least)
    return CharacterTokenizer(vocabulary, settings)


def _present(number: int | None) -> int:
    if number is None:
        raise RunError("the vocabulary of a tagger has padding and an unknown entry")
    return number


def _tags_json(tags: TagSet, usual: UsualTags) -> str:
    facts = {
        "schema": TAGS_SCHEMA,
        "tags": list(tags.tags),
        "written": tags.written,
        "learnt": tags.learnt,
        "usual": {
            "tags": list(usual.tags),
            "of_word": list(usual.of_word),
            "otherwise": usual.otherwise,
        },
    }
    return json.dumps(facts) + "\n"


def _tags_of_json(text: str, num_words: int) -> tuple[TagSet, UsualTags]:
    try:
        facts: dict[str, Any] = json.loads(text)
        if facts["schema"] != TAGS_SCHEMA:
            raise ValueError(f"its schema is {facts['schema']!r}, not {TAGS_SCHEMA}")
        if facts["written"] not in get_args(FileScheme):
            raise ValueError(f"there is no scheme {facts['written']!r}")
        if facts["learnt"] not in get_args(LearntScheme):
            raise ValueError(f"there is no scheme {facts['learnt']!r}")
        tags = TagSet(_texts(facts["tags"]), facts["written"], facts["learnt"])
        tags.allowed()  # raises for what is no tag of the scheme
        table = facts["usual"]
        usual = UsualTags(_texts(table["tags"]), tuple(table["of_word"]), table["otherwise"])
        places = range(len(usual.tags))
        if len(usual.of_word) != num_words or not {*usual.of_word, usual.otherwise} <= {*places}:
            raise ValueError("the usual tags do not fit the words")
    except (ValueError, KeyError, TypeError, RecursionError, DataError) as error:
        raise RunError(
            f"{LABELS} cannot be used", got=str(error), hint="restore the file of the run"
        ) from None
    return tags, usual


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("a list of texts is missing")
    return tuple(values)
