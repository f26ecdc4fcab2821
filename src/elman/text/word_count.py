"""Words counted and numbered in a single pass, for the vocabulary and for the ids alike."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from elman.config.text_settings import TextSettings
from elman.errors import DataError
from elman.text.tokenizer import Ids, checked_text, refuse_unknown
from elman.text.vocabulary import Vocabulary, specials_for
from elman.text.words import (
    MISSING_WORD,
    WordTokenizer,
    check_literal_unknown,
    number_words,
)

MOST_WORDS = 20_000_000
"""Distinct words that are counted; each takes some 140 bytes, and three times as many once kept."""


class WordCount:
    """Reads a text piece by piece; words get provisional ids in the order of their first use."""

    def __init__(self, settings: TextSettings) -> None:
        check_literal_unknown(settings)
        self._settings = settings
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._totals = np.zeros(1024, dtype=np.int64)

    def read(self, text: str) -> Ids:
        """Count the words of a piece that is cut at whitespace; return their provisional ids."""
        ids = number_words(text, self._settings.unit, self._numbers)
        counts = np.bincount(ids)
        self._reach(len(counts))
        self._totals[: len(counts)] += counts
        return ids

    def tokenizer(self) -> WordTokenizer:
        """Return the tokenizer of all that was read; `DataError` for a lone surrogate in it."""
        settings = self._settings
        checked_text("".join(self._numbers))
        # Provisional ids are the places of the words in the order in which they were first used.
        totals = dict(zip(self._numbers, self._totals.tolist(), strict=False))
        totals.pop(settings.literal_unknown, None)
        vocabulary = Vocabulary.from_counts(
            totals,
            specials=specials_for(settings),
            min_count=settings.min_count,
            max_size=settings.vocabulary_size,
        )
        return WordTokenizer(vocabulary, settings)

    def add(self, words: Iterable[str], counts_W: npt.NDArray[np.int64]) -> None:
        """Count the words of another count, each as often as it says there."""
        numbers = np.fromiter(map(self._numbers.__getitem__, words), np.int64)
        self._reach(len(self._numbers))
        self._totals[numbers] += counts_W

    def words(self) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
        """Return the words in the order of their first use, and how often each was met."""
        return tuple(self._numbers), self._totals[: len(self._numbers)].copy()

    def final_ids(self, provisional: list[Ids], tokenizer: WordTokenizer) -> list[Ids]:
        """Return what `tokenizer` gives for the pieces read, from their provisional ids alone.

        Raises `UnknownSymbolError` as encoding would.
        """
        table = ids_of_words(list(self._numbers), tokenizer)
        return [known_ids(table.take(ids)) for ids in provisional]

    def _reach(self, size: int) -> None:
        """Have room for `size` words. Raises `DataError` where they are more than `MOST_WORDS`."""
        if size > MOST_WORDS:
            raise DataError(
                "the text has too many distinct words to be counted in memory",
                got=f"more than {MOST_WORDS:,}",
                hint="read it with text.level = bpe or char, which need no list of its words",
            )
        if size > len(self._totals):
            grown = np.zeros(2 * size, dtype=np.int64)
            grown[: len(self._totals)] = self._totals
            self._totals = grown


def ids_of_words(words: Sequence[str], tokenizer: WordTokenizer) -> Ids:
    """Return the id of each word under text.unknown; MISSING_WORD where it is to be left out.

    Raises `UnknownSymbolError` where words that the tokenizer does not have are to be refused.
    """
    policy, unk_id = tokenizer.checked_policy(None), tokenizer.vocabulary.unk_id
    table = np.fromiter(map(tokenizer.id_of_word, words), np.int32, len(words))
    missing = np.flatnonzero(table == MISSING_WORD)
    if policy == "refuse" and len(missing):
        refuse_unknown((words[n] for n in missing.tolist()), tokenizer.settings.min_count)
    if policy == "replace" and unk_id is not None:
        table[missing] = unk_id
    return table


def known_ids(ids: Ids) -> Ids:
    """Return `ids` without those that are MISSING_WORD."""
    return ids[ids != MISSING_WORD] if ids.min(initial=0) == MISSING_WORD else ids
