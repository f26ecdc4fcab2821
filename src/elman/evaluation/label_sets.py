"""Scores of several labels for each text: counts of each label first, ratios of them last."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from elman.errors import DataError
from elman.evaluation.labels import require_same_rows
from elman.evaluation.ratios import (
    ClassAverages,
    ClassCounts,
    Interval,
    average_classes,
    ratio,
    unknown_classes,
    wilson_interval,
)


@dataclass(frozen=True)
class LabelSetScores:
    """How often each label was rightly given, and the figures over whole sets.

    `num_exact` of the `num_rows` texts have exactly the gold set (subset accuracy); an empty set
    for an empty one is exact. The first `num_known` classes are those that the system can predict.
    """

    num_rows: int
    num_exact: int
    classes: tuple[ClassCounts, ...]
    num_known: int

    @property
    def subset_accuracy(self) -> float | None:
        """num_exact / num_rows."""
        return ratio(self.num_exact, self.num_rows)

    @property
    def subset_accuracy_interval(self) -> Interval | None:
        """Wilson's 95 % interval of the subset accuracy."""
        return wilson_interval(self.num_exact, self.num_rows)

    @property
    def num_wrong_decisions(self) -> int:
        """Labels given that are not gold, and gold ones not given, over all texts."""
        return sum(each.num_gold + each.num_predicted - 2 * each.num_right for each in self.classes)

    @property
    def hamming_loss(self) -> float | None:
        """num_wrong_decisions / (num_rows · labels): a text is a decision about every label."""
        return ratio(self.num_wrong_decisions, self.num_rows * len(self.classes))

    @cached_property
    def averages(self) -> ClassAverages:
        """Micro and macro averages over the labels."""
        return average_classes(self.classes)

    @property
    def unknown_labels(self) -> tuple[tuple[str, int], ...]:
        """The gold labels that the system cannot predict, each with its number of rows."""
        return unknown_classes(self.classes, self.num_known)

    def to_json(self) -> dict[str, object]:
        """Return every figure and the table of the classes."""
        interval = self.subset_accuracy_interval
        return {
            "num_rows": self.num_rows,
            "num_exact": self.num_exact,
            "subset_accuracy": self.subset_accuracy,
            "subset_accuracy_interval": None if interval is None else interval.to_json(),
            "num_wrong_decisions": self.num_wrong_decisions,
            "hamming_loss": self.hamming_loss,
            **self.averages.to_json(),
            "classes": [each.to_json() for each in self.classes],
            "unknown_labels": dict(self.unknown_labels),
        }


def label_set_scores(
    gold: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    *,
    labels: Sequence[str] | None = None,
) -> LabelSetScores:
    """Compare the gold set of labels of every row with the predicted set; order and repeats go.

    `labels` as for `label_scores`. A row that is one string is refused: it would be taken for the
    set of its letters. Raises `ShapeError` for sequences of unequal length, `DataError` for labels
    given twice and for a predicted label that is not among them.
    """
    require_same_rows("gold and predicted sets of labels", gold, predicted)
    gold_sets, predicted_sets = _as_sets(gold), _as_sets(predicted)
    occurring_gold = frozenset().union(*gold_sets)
    occurring = frozenset().union(*predicted_sets)
    known = tuple(sorted(occurring_gold | occurring)) if labels is None else tuple(labels)
    if len(set(known)) != len(known):
        raise DataError("a label is given twice", got=repr(next(iter(_twice(known)))))
    if strange := occurring.difference(known):
        raise DataError(
            "a predicted label is not among the labels that can be predicted",
            got=repr(min(strange)),
        )
    every = (*known, *sorted(occurring_gold.difference(known)))
    counts = {label: [0, 0, 0] for label in every}
    for right_set, given_set in zip(gold_sets, predicted_sets, strict=True):
        for label in right_set:
            counts[label][0] += 1
        for label in given_set:
            counts[label][1] += 1
            counts[label][2] += label in right_set
    return LabelSetScores(
        num_rows=len(gold_sets),
        num_exact=sum(map(frozenset.__eq__, gold_sets, predicted_sets)),
        classes=tuple(ClassCounts(label, *counts[label]) for label in every),
        num_known=len(known),
    )


def _as_sets(rows: Sequence[Collection[str]]) -> list[frozenset[str]]:
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str):
            raise DataError(f"the labels of row {number} must be a collection", got=repr(row))
    return [frozenset(row) for row in rows]


def _twice(labels: Sequence[str]) -> list[str]:
    return [label for place, label in enumerate(labels) if label in labels[:place]]
