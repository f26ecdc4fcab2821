"""Scores of one tag for each word: tokens, sentences, and words that training never saw."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from elman.errors import ShapeError
from elman.evaluation.labels import LabelScores, label_scores, require_same_rows
from elman.evaluation.ratios import Interval, ratio, wilson_interval


@dataclass(frozen=True)
class TagScores:
    """Counts over the tokens of all sentences, and the figures they give.

    `tokens` has the counts of every tag (`tokens.classes` is the table, `tokens.unknown_labels` the
    gold tags that the system cannot predict). `num_sentences_right` of the `num_sentences` have
    every tag right; sentences without a token are in neither, and counted as `num_empty`.
    `num_unseen_right` of the `num_unseen` tokens are words that training did not have; both are
    None where the words of training were not given.
    """

    tokens: LabelScores
    num_sentences: int
    num_sentences_right: int
    num_empty: int
    num_unseen: int | None
    num_unseen_right: int | None

    @property
    def token_accuracy(self) -> float | None:
        """Tokens whose tag is right, over all tokens."""
        return self.tokens.accuracy

    @property
    def sentence_accuracy(self) -> float | None:
        """num_sentences_right / num_sentences."""
        return ratio(self.num_sentences_right, self.num_sentences)

    @property
    def sentence_accuracy_interval(self) -> Interval | None:
        """Wilson's 95 % interval of the sentence accuracy.

        There is none for tokens here: those of a sentence are not independent. Take
        `bootstrap_interval` with the counts of `tag_rows` for them.
        """
        return wilson_interval(self.num_sentences_right, self.num_sentences)

    @property
    def unseen_accuracy(self) -> float | None:
        """num_unseen_right / num_unseen; None where no word is unseen or none was told."""
        if self.num_unseen is None or self.num_unseen_right is None:
            return None
        return ratio(self.num_unseen_right, self.num_unseen)

    def to_json(self) -> dict[str, object]:
        """Return every figure; those of `tokens` stand under that name."""
        interval = self.sentence_accuracy_interval
        tokens = self.tokens.to_json()
        # Tokens of a sentence are no independent rows: this interval would be too narrow.
        del tokens["accuracy_interval"]
        return {
            "token_accuracy": self.token_accuracy,
            "num_tokens": self.tokens.num_rows,
            "num_tokens_right": self.tokens.num_right,
            "sentence_accuracy": self.sentence_accuracy,
            "sentence_accuracy_interval": None if interval is None else interval.to_json(),
            "num_sentences": self.num_sentences,
            "num_sentences_right": self.num_sentences_right,
            "num_empty_sentences": self.num_empty,
            "unseen_accuracy": self.unseen_accuracy,
            "num_unseen": self.num_unseen,
            "num_unseen_right": self.num_unseen_right,
            "tokens": tokens,
        }


def tag_scores(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    words: Sequence[Sequence[str]] | None = None,
    train_words: Collection[str] | None = None,
    tags: Sequence[str] | None = None,
) -> TagScores:
    """Compare the gold tags of every sentence with the predicted ones, word by word.

    `words` of the sentences and the set of `train_words`, given together, count the unseen ones
    apart (as spelled: normalise both alike). `tags` are those that the system can predict. Raises
    `ShapeError` where sentences or their lengths differ, `DataError` as `label_scores` does.
    """
    require_same_sentences(gold, predicted)
    sentences = [
        (list(right), list(given)) for right, given in zip(gold, predicted, strict=True) if right
    ]
    flat_gold = [tag for right, _ in sentences for tag in right]
    flat_predicted = [tag for _, given in sentences for tag in given]
    num_unseen = num_unseen_right = None
    if (words is None) != (train_words is None):
        raise ShapeError(
            "unseen words need both the words of the sentences and those of training",
            got="one without the other",
        )
    if words is not None and train_words is not None:
        require_same_sentences(gold, words, what="tags and words")
        known = frozenset(train_words)
        flat_words = [word for sentence in words for word in sentence]
        unseen = [
            right == given
            for word, right, given in zip(flat_words, flat_gold, flat_predicted, strict=True)
            if word not in known
        ]
        num_unseen, num_unseen_right = len(unseen), sum(unseen)
    return TagScores(
        tokens=label_scores(flat_gold, flat_predicted, labels=tags),
        num_sentences=len(sentences),
        num_sentences_right=sum(right == given for right, given in sentences),
        num_empty=len(gold) - len(sentences),
        num_unseen=num_unseen,
        num_unseen_right=num_unseen_right,
    )


def tag_rows(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> list[tuple[int, int]]:
    """Return (right tokens, tokens) of each sentence: the rows of a bootstrap of the accuracy."""
    require_same_sentences(gold, predicted)
    return [
        (sum(one == other for one, other in zip(right, given, strict=True)), len(right))
        for right, given in zip(gold, predicted, strict=True)
    ]


def require_same_sentences(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    *,
    what: str = "gold and predicted tags",
) -> None:
    """Raise `ShapeError` unless both have as many sentences, each of the same length."""
    require_same_rows(what, first, second)
    for number, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        if len(one) != len(other):
            raise ShapeError(
                f"{what} must have one entry for each word",
                got=f"{len(one)} and {len(other)} in sentence {number}",
            )
