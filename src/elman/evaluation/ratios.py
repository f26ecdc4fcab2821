"""Counts of right and wrong for one class, and the ratios made of them at the last moment.

The convention of this project for 0/0: it is undefined, written None (null in JSON, – in tables),
and counted. It is never taken for 0 or 1, and no mean includes it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from elman.errors import SettingError

CONFIDENCE_LEVEL = 0.95
UNDEFINED = "–"
"""What a table shows for 0/0."""


@dataclass(frozen=True)
class Interval:
    """A range that covers the true figure with probability `level`, and the method that gave it."""

    low: float
    high: float
    level: float
    method: str

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {"low": self.low, "high": self.high, "level": self.level, "method": self.method}


@dataclass(frozen=True)
class ClassCounts:
    """How often one label was right, and how often it occurs in the gold data and in predictions.

    precision = num_right / num_predicted, undefined (None) where it was never predicted;
    recall = num_right / num_gold, undefined where it never occurs;
    F1 = 2 · num_right / (num_gold + num_predicted), undefined only where both are 0.

    F1 is thus 0, and defined, for a label that occurs and is never predicted. `num_gold` is what
    other programs call support.
    """

    label: str
    num_gold: int
    num_predicted: int
    num_right: int

    @property
    def precision(self) -> float | None:
        """num_right / num_predicted."""
        return ratio(self.num_right, self.num_predicted)

    @property
    def recall(self) -> float | None:
        """num_right / num_gold."""
        return ratio(self.num_right, self.num_gold)

    @property
    def f1(self) -> float | None:
        """2 · num_right / (num_gold + num_predicted)."""
        return ratio(2 * self.num_right, self.num_gold + self.num_predicted)

    def to_json(self) -> dict[str, object]:
        """Return counts and ratios, null where undefined."""
        return {
            "label": self.label,
            "num_gold": self.num_gold,
            "num_predicted": self.num_predicted,
            "num_right": self.num_right,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
        }


@dataclass(frozen=True)
class ClassAverages:
    """What several classes give together.

    `total` has the sums of the counts: its precision, recall and F1 are the micro averages.
    `macro_f1` is the mean of F1 over the classes in which it is defined, and `macro_recall` that of
    recall (balanced accuracy); `num_undefined_…` says how many classes each mean leaves out. There
    is no mean of precisions: leaving out the classes that are never predicted would reward a system
    for not predicting them.
    """

    total: ClassCounts
    macro_f1: float | None
    macro_recall: float | None
    num_classes: int
    num_undefined_precision: int
    num_undefined_recall: int
    num_undefined_f1: int

    def to_json(self) -> dict[str, object]:
        """Return the averages and the numbers of undefined ratios."""
        return {
            "num_classes": self.num_classes,
            "micro_precision": self.total.precision,
            "micro_recall": self.total.recall,
            "micro_f1": self.total.f1,
            "macro_f1": self.macro_f1,
            "macro_recall": self.macro_recall,
            "num_undefined_precision": self.num_undefined_precision,
            "num_undefined_recall": self.num_undefined_recall,
            "num_undefined_f1": self.num_undefined_f1,
        }


def ratio(numerator: float, denominator: int) -> float | None:
    """Return numerator / denominator, None where the denominator is 0."""
    return numerator / denominator if denominator else None


def unknown_classes(classes: Sequence[ClassCounts], num_known: int) -> tuple[tuple[str, int], ...]:
    """Return the gold labels behind the `num_known` first ones, each with its number of rows."""
    counts = [each for each in classes[num_known:] if each.num_gold]
    return tuple((each.label, each.num_gold) for each in counts)


def average_classes(classes: Iterable[ClassCounts]) -> ClassAverages:
    """Return the micro and macro averages of classes that are measured on the same data."""
    each = tuple(classes)
    f1 = [value for value in (counts.f1 for counts in each) if value is not None]
    recall = [value for value in (counts.recall for counts in each) if value is not None]
    total = ClassCounts(
        "all",
        sum(counts.num_gold for counts in each),
        sum(counts.num_predicted for counts in each),
        sum(counts.num_right for counts in each),
    )
    return ClassAverages(
        total=total,
        macro_f1=ratio(math.fsum(f1), len(f1)),
        macro_recall=ratio(math.fsum(recall), len(recall)),
        num_classes=len(each),
        num_undefined_precision=sum(counts.precision is None for counts in each),
        num_undefined_recall=len(each) - len(recall),
        num_undefined_f1=len(each) - len(f1),
    )


def wilson_interval(
    num_right: int, num_rows: int, *, level: float = CONFIDENCE_LEVEL
) -> Interval | None:
    """Return Wilson's score interval of a share of independent rows; None for no rows.

        (p + z²/2n ± z · √(p(1−p)/n + z²/4n²)) / (1 + z²/n)

    where p = num_right / n, n = num_rows and z = Φ⁻¹((1 + level) / 2).

    Never leaves [0, 1] and has a width above 0 even where p is 0 or 1 (Wilson, "Probable Inference,
    the Law of Succession, and Statistical Inference", 1927). Tokens of one sentence are not
    independent rows: take `bootstrap_interval` over sentences for those.
    """
    if not 0.0 < level < 1.0:
        raise SettingError("level of an interval must lie between 0 and 1", got=f"{level:g}")
    if num_rows == 0:
        return None
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    share = num_right / num_rows
    scale = 1.0 + z * z / num_rows
    centre = (share + z * z / (2 * num_rows)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / num_rows + z * z / (4 * num_rows**2))
    # At the ends the bound is exactly 0 or 1; rounding would leave it 1e-17 beside.
    low = 0.0 if num_right == 0 else max(0.0, centre - half)
    high = 1.0 if num_right == num_rows else min(1.0, centre + half)
    return Interval(low, high, level, "Wilson score")


def format_ratio(value: float | None, *, digits: int = 4) -> str:
    """Return the value with `digits` decimal places, or the sign for undefined."""
    return UNDEFINED if value is None else f"{value:.{digits}f}"
