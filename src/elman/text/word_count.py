"""Words counted and numbered in a single pass, for the vocabulary and for the ids alike."""

from collections import defaultdict
from itertools import count

import numpy as np

from elman.config.settings import TextSettings
from elman.text.tokenizer import Ids, refuse_unknown
from elman.text.vocabulary import Vocabulary, specials_for
from elman.text.words import (
    LINE_END,
    MISSING_WORD,
    QUICK_MARK,
    SURE_MARK,
    WordTokenizer,
    check_literal_unknown,
    split_words,
)


class WordCount:
    """Reads a text piece by piece; words get provisional ids as they come, the line end 0."""

    def __init__(self, settings: TextSettings) -> None:
        check_literal_unknown(settings)
        self._settings = settings
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        line_end = self._numbers[LINE_END]
        self._numbers[SURE_MARK] = line_end
        self._numbers[QUICK_MARK] = line_end
        self._mark = QUICK_MARK
        self._totals = np.zeros(1024, dtype=np.int64)

    def read(self, text: str) -> Ids:
        """Count the words of a piece that is cut at whitespace; return their provisional ids."""
        if self._settings.unit == "line":
            self._use_sure_mark()
            words = text.split()
        else:
            if QUICK_MARK in text:
                self._use_sure_mark()
            words = split_words(text, self._mark)
        ids = np.fromiter(map(self._numbers.__getitem__, words), np.int32, len(words))
        counts = np.bincount(ids)
        if len(counts) > len(self._totals):
            grown = np.zeros(2 * len(counts), dtype=np.int64)
            grown[: len(self._totals)] = self._totals
            self._totals = grown
        self._totals[: len(counts)] += counts
        return ids

    def _use_sure_mark(self) -> None:
        """From here on NUL is a character like others."""
        if self._mark == QUICK_MARK:
            del self._numbers[QUICK_MARK]
            self._mark = SURE_MARK

    def tokenizer(self) -> WordTokenizer:
        """Return the tokenizer of all that was read."""
        settings = self._settings
        vocabulary = Vocabulary.from_counts(
            {
                word: int(self._totals[number])
                for word, number in self._words()
                if self._totals[number] and word != settings.literal_unknown
            },
            specials=specials_for(settings),
            min_count=settings.min_count,
            max_size=settings.vocabulary_size,
        )
        return WordTokenizer(vocabulary, settings)

    def final_ids(self, provisional: list[Ids], tokenizer: WordTokenizer) -> list[Ids]:
        """Return what `tokenizer` gives for the pieces read, from their provisional ids alone.

        Raises `UnknownSymbolError` as encoding would.
        """
        policy, unk_id = tokenizer.checked_policy(None), tokenizer.vocabulary.unk_id
        words = list(self._words())
        table = np.full(len(words), MISSING_WORD, dtype=np.int32)
        for word, number in words:
            table[number] = tokenizer.id_of_word(word)
        if policy == "refuse":
            missing = [w for w, n in words if table[n] == MISSING_WORD and self._totals[n]]
            if missing:
                refuse_unknown(missing)
        if policy == "replace" and unk_id is not None:
            table[table == MISSING_WORD] = unk_id
        mapped = [table.take(ids) for ids in provisional]
        return [ids[ids != MISSING_WORD] for ids in mapped] if policy == "skip" else mapped

    def _words(self) -> list[tuple[str, int]]:
        marks = {SURE_MARK, self._mark}
        return [(word, number) for word, number in self._numbers.items() if word not in marks]
