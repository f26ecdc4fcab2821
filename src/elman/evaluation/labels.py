"""Scores of one label for each text: counts of (gold, predicted) first, ratios of them last."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from elman.errors import DataError, ShapeError
from elman.evaluation.ratios import (
    ClassAverages,
    ClassCounts,
    Interval,
    average_classes,
    ratio,
    unknown_classes,
    wilson_interval,
)

OTHERS = "(others)"


@dataclass(frozen=True)
class LabelScores:
    """How often each label was predicted for each gold label, and the figures that this gives.

    `cells` are (gold, predicted, count), numbers of `labels`, in ascending order and without zeros.
    The first `num_known` labels are those that the system can predict; gold labels beyond them can
    only be wrong, and `unknown_labels` lists them. A ratio of 0/0 is None.
    """

    labels: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]
    num_known: int

    @property
    def num_rows(self) -> int:
        """Texts with a gold label."""
        return sum(count for _, _, count in self.cells)

    @property
    def num_right(self) -> int:
        """Texts whose predicted label is the gold one."""
        return sum(count for gold, predicted, count in self.cells if gold == predicted)

    @property
    def accuracy(self) -> float | None:
        """num_right / num_rows; the same as micro F1, as each text has one label on each side."""
        return ratio(self.num_right, self.num_rows)

    @property
    def accuracy_interval(self) -> Interval | None:
        """Wilson's 95 % interval of the accuracy, the rows taken as independent."""
        return wilson_interval(self.num_right, self.num_rows)

    @property
    def unknown_labels(self) -> tuple[tuple[str, int], ...]:
        """The gold labels that the system cannot predict, each with its number of rows."""
        return unknown_classes(self.classes, self.num_known)

    @cached_property
    def classes(self) -> tuple[ClassCounts, ...]:
        """The counts of every label, in the order of `labels`."""
        size = len(self.labels)
        gold_C, predicted_C, right_C = np.zeros((3, size), dtype=np.int64)
        for gold, predicted, count in self.cells:
            gold_C[gold] += count
            predicted_C[predicted] += count
            if gold == predicted:
                right_C[gold] += count
        columns = (gold_C.tolist(), predicted_C.tolist(), right_C.tolist())
        return tuple(ClassCounts(*row) for row in zip(self.labels, *columns, strict=True))

    @cached_property
    def averages(self) -> ClassAverages:
        """Micro and macro averages over the labels."""
        return average_classes(self.classes)

    @property
    def macro_f1(self) -> float | None:
        """Mean F1 of the labels that occur in the gold data or the predictions."""
        return self.averages.macro_f1

    @property
    def micro_f1(self) -> float | None:
        """2 · num_right / (gold labels + predicted labels)."""
        return self.averages.total.f1

    def confusion(self) -> npt.NDArray[np.int64]:
        """Return [gold, predicted] counts as a full matrix; it has len(labels)² cells."""
        counts_CC = np.zeros((len(self.labels), len(self.labels)), dtype=np.int64)
        for gold, predicted, count in self.cells:
            counts_CC[gold, predicted] = count
        return counts_CC

    def confused(self) -> tuple[tuple[str, str, int], ...]:
        """Return (gold, predicted, count) of every kind of mistake, the most frequent first.

        Equal counts keep the order of the labels.
        """
        wrong = [cell for cell in self.cells if cell[0] != cell[1]]
        wrong.sort(key=lambda cell: -cell[2])
        return tuple((self.labels[gold], self.labels[other], n) for gold, other, n in wrong)

    def narrowed(self, most_labels: int) -> "LabelScores":
        """Return the same rows with all but the most confused labels joined as `(others)`.

        Kept are the most_labels - 1 labels with the most mistakes, as gold or as predicted; the
        scores themselves where they have no more labels than that. For tables and pictures: its
        accuracy is too high where the joined labels were taken for each other.
        """
        if len(self.labels) <= most_labels:
            return self
        mistakes = [
            each.num_gold + each.num_predicted - 2 * each.num_right for each in self.classes
        ]
        ranked = sorted(range(len(self.labels)), key=lambda number: -mistakes[number])
        kept = sorted(ranked[: max(0, most_labels - 1)])
        places = {number: place for place, number in enumerate(kept)}
        counts: Counter[tuple[int, int]] = Counter()
        for gold, predicted, count in self.cells:
            cell = places.get(gold, len(kept)), places.get(predicted, len(kept))
            counts[cell] += count
        labels = (*(self.labels[number] for number in kept), OTHERS)
        return LabelScores(labels, _sorted_cells(counts), len(labels))

    def to_json(self) -> dict[str, object]:
        """Return every figure, the table of the classes and the confusion counts."""
        interval = self.accuracy_interval
        return {
            "num_rows": self.num_rows,
            "num_right": self.num_right,
            "accuracy": self.accuracy,
            "accuracy_interval": None if interval is None else interval.to_json(),
            **self.averages.to_json(),
            "classes": [each.to_json() for each in self.classes],
            "unknown_labels": dict(self.unknown_labels),
            "confusion": {
                "labels": list(self.labels),
                "cells_gold_predicted_count": [list(cell) for cell in self.cells],
            },
        }


def label_scores(
    gold: Sequence[str], predicted: Sequence[str], *, labels: Sequence[str] | None = None
) -> LabelScores:
    """Compare the gold label of every row with the predicted one.

    `labels` are those that the system can predict, in the order wanted for tables; gold labels
    that are not among them follow in sorted order. Without `labels`: all that occur, sorted, none
    of them unknown. Raises `ShapeError` for sequences of unequal length, `DataError` for labels
    given twice and for a predicted label that is not among them.
    """
    require_same_rows("gold and predicted labels", gold, predicted)
    if labels is None:
        known = tuple(sorted({*gold, *predicted}))
    else:
        known = tuple(labels)
        if len(set(known)) != len(known):
            twice = next(label for label, count in Counter(known).items() if count > 1)
            raise DataError("a label is given twice", got=repr(twice))
        strange = set(predicted).difference(known)
        if strange:
            raise DataError(
                "a predicted label is not among the labels that can be predicted",
                got=repr(min(strange)),
            )
    every = (*known, *sorted(set(gold).difference(known)))
    numbers = {label: number for number, label in enumerate(every)}
    pairs = Counter(zip(gold, predicted, strict=True))
    counts = {(numbers[one], numbers[other]): n for (one, other), n in pairs.items()}
    return LabelScores(every, _sorted_cells(counts), len(known))


def majority_label(labels: Sequence[str]) -> str:
    """Return the most frequent label, of several the first in sorted order: the least baseline.

    Raises `DataError` where there is none.
    """
    if not labels:
        raise DataError("there is no label to count", got="no rows", allowed="1 row or more")
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def require_same_rows(what: str, first: Sequence[object], second: Sequence[object]) -> None:
    """Raise `ShapeError` unless both sequences have the same number of rows."""
    if len(first) != len(second):
        raise ShapeError(
            f"{what} must have one row for each other",
            got=f"{len(first):,} and {len(second):,} rows",
        )


def _sorted_cells(counts: dict[tuple[int, int], int]) -> tuple[tuple[int, int, int], ...]:
    return tuple((gold, predicted, counts[gold, predicted]) for gold, predicted in sorted(counts))
