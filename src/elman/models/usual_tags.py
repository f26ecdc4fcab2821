"""The least tagger: each word has the tag that it had most often. A baseline."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class UsualTags:
    """word → its most frequent tag; a word never seen → the most frequent tag of rare words.

    `of_word[n]` is the place in `tags` of the usual tag of word n. `otherwise` is the one of words
    that have no number: the most frequent tag of the words seen once (what is new is like what is
    rare), or of all where no word was seen once. Ties go to the first tag in order.
    """

    tags: tuple[str, ...]
    of_word: tuple[int, ...]
    otherwise: int

    @classmethod
    def fit(cls, tokens: Iterable[tuple[int | None, str]], num_words: int) -> Self:
        """Count the tags of words 0 … num_words − 1; each token is a word and its tag.

        A token without a number counts as rare. Words without a token get the tag `otherwise`.
        """
        counts: list[Counter[str]] = [Counter() for _ in range(num_words)]
        total: Counter[str] = Counter()
        once: Counter[str] = Counter()
        for word, tag in tokens:
            (once if word is None else counts[word])[tag] += 1
            total[tag] += 1
        for each in counts:
            if each.total() == 1:
                once.update(each)
        tags = tuple(sorted(total))
        places = {tag: place for place, tag in enumerate(tags)}
        otherwise = places[_usual(once or total)]
        return cls(
            tags,
            tuple(places[_usual(each)] if each else otherwise for each in counts),
            otherwise,
        )

    def predict(self, words: Sequence[int | None]) -> list[str]:
        """Return the usual tag of each word; None stands for a word never seen."""
        return [self.tags[self.otherwise if n is None else self.of_word[n]] for n in words]


def _usual(counts: Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))
