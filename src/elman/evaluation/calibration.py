"""How far the probabilities of a classifier can be believed: ECE, Brier score, nats a row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from elman.errors import DataError, SettingError, ShapeError
from elman.evaluation.ratios import ratio

Binning = Literal["equal_width", "equal_mass"]
"""How rows are binned by confidence: bins of one width, or of one number of rows."""
FloatArray = npt.NDArray[np.float64]

NUM_BINS = 15
SUM_TOLERANCE = 1e-3
"""How far the probabilities of a row may be from 1 in sum: more is no rounding."""


@dataclass(frozen=True)
class CalibrationBin:
    """The rows whose confidence lies in one bin: low < confidence <= high."""

    low: float
    high: float
    num_rows: int
    num_right: int
    confidence_sum: float

    @property
    def confidence(self) -> float | None:
        """Mean confidence, confidence_sum / num_rows."""
        return ratio(self.confidence_sum, self.num_rows)

    @property
    def accuracy(self) -> float | None:
        """num_right / num_rows."""
        return ratio(self.num_right, self.num_rows)

    def to_json(self) -> dict[str, object]:
        """Return counts and ratios, null in an empty bin."""
        return {
            "low": self.low,
            "high": self.high,
            "num_rows": self.num_rows,
            "num_right": self.num_right,
            "confidence": self.confidence,
            "accuracy": self.accuracy,
        }


@dataclass(frozen=True)
class Calibration:
    """Sums over rows of what the probabilities cost, and the bins of confidence.

    `brier_sum` is Σ Σ_c (p_c − y_c)², which lies in [0, 2] for a row (twice the two-class form that
    looks at one class alone). `nats_sum` is -Σ ln p of the gold label over the `num_known` rows
    whose gold label the system has; the others have no probability to measure, and are wrong in
    the bins and cost 1 + Σ p² in the Brier score. `num_impossible` rows have a gold label of
    probability 0, each of which makes `nats_sum` infinite.
    """

    num_rows: int
    num_known: int
    num_impossible: int
    nats_sum: float
    brier_sum: float
    binning: Binning
    bins: tuple[CalibrationBin, ...]

    @property
    def ece(self) -> float | None:
        """Expected calibration error: Σ_bins |num_right − confidence_sum| / num_rows.

        Guo et al., "On Calibration of Modern Neural Networks" (2017), equation 3.
        """
        gaps = [abs(each.num_right - each.confidence_sum) for each in self.bins]
        return ratio(math.fsum(gaps), self.num_rows)

    @property
    def brier(self) -> float | None:
        """brier_sum / num_rows."""
        return ratio(self.brier_sum, self.num_rows)

    @property
    def nats_per_row(self) -> float | None:
        """nats_sum / num_known."""
        return ratio(self.nats_sum, self.num_known)

    def to_json(self) -> dict[str, object]:
        """Return every figure; infinite nats are null beside `nats_is_infinite`."""
        infinite = self.nats_sum == math.inf
        return {
            "num_rows": self.num_rows,
            "num_known_rows": self.num_known,
            "num_impossible_rows": self.num_impossible,
            "nats_sum": None if infinite else self.nats_sum,
            "nats_per_row": None if infinite else self.nats_per_row,
            "nats_is_infinite": infinite,
            "brier_sum": self.brier_sum,
            "brier": self.brier,
            "ece": self.ece,
            "ece_binning": f"{self.binning}, {len(self.bins)} bins",
            "bins": [each.to_json() for each in self.bins],
        }


def calibration(
    log_probs_BC: npt.NDArray[np.floating],
    gold: Sequence[str],
    labels: Sequence[str],
    *,
    binning: Binning = "equal_width",
    num_bins: int = NUM_BINS,
) -> Calibration:
    """Measure natural log-probabilities [B, C] of the `labels` against the gold label of each row.

    A row's confidence is its largest probability, of the first label where several have it. Bins of
    equal mass keep equal confidences together, so that the order of the rows changes nothing, and
    may be fewer than asked for. Raises `ShapeError` for arrays of another shape, `DataError` for
    values that are no log-probabilities, `SettingError` for no bins.
    """
    precise_BC: FloatArray = np.asarray(log_probs_BC, dtype=np.float64)
    if precise_BC.shape != (len(gold), len(labels)):
        raise ShapeError(
            "log_probs_BC must have a row for each gold label and a column for each label",
            got=f"{list(precise_BC.shape)} for {len(gold)} rows and {len(labels)} labels",
        )
    if num_bins < 1:
        raise SettingError("num_bins must be an int >= 1", got=str(num_bins))
    probs_BC = _probs(precise_BC)
    numbers = {label: number for number, label in enumerate(labels)}
    gold_B = np.array([numbers.get(label, -1) for label in gold], dtype=np.int64)
    known_B = np.flatnonzero(gold_B >= 0)
    gold_log_probs_B = precise_BC[known_B, gold_B[known_B]]
    offsets_BC = probs_BC.copy()
    offsets_BC[known_B, gold_B[known_B]] -= 1.0
    brier_sum = float((offsets_BC**2).sum()) + len(gold) - len(known_B)
    bins: tuple[CalibrationBin, ...] = ()
    if len(gold):
        best_B = probs_BC.argmax(axis=1)
        bins = _bins(probs_BC.max(axis=1), best_B == gold_B, binning, num_bins)
    return Calibration(
        num_rows=len(gold),
        num_known=len(known_B),
        num_impossible=int(np.isneginf(gold_log_probs_B).sum()),
        nats_sum=float(-gold_log_probs_B.sum()) + 0.0,
        brier_sum=brier_sum,
        binning=binning,
        bins=bins,
    )


def _probs(log_probs_BC: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        probs_BC: FloatArray = np.exp(log_probs_BC)
    sums_B = probs_BC.sum(axis=1)
    # "not within" rather than "outside": it is true of rows that are not numbers too.
    wrong_B = ~(np.abs(sums_B - 1.0) <= SUM_TOLERANCE)
    if wrong_B.any():
        row = int(np.argmax(wrong_B))
        raise DataError(
            "log_probs_BC must be natural logarithms of probabilities that sum to 1 in each row",
            got=f"a sum of {sums_B[row]:g} in row {row + 1}",
        )
    return np.minimum(probs_BC, 1.0)


def _bins(
    confidence_B: FloatArray, right_B: npt.NDArray[np.bool_], binning: Binning, num_bins: int
) -> tuple[CalibrationBin, ...]:
    if binning == "equal_width":
        edges_N = np.arange(num_bins + 1) / num_bins
    else:
        sorted_B = np.sort(confidence_B)
        # The confidence of the last row of each share; repeated ones make one bin of several.
        last_N = -(-np.arange(1, num_bins + 1) * len(sorted_B) // num_bins) - 1
        edges_N = np.concatenate([[0.0], np.unique(sorted_B[np.maximum(last_N, 0)])])
    places_B = np.searchsorted(edges_N[1:-1], confidence_B, side="left")
    size = len(edges_N) - 1
    rows_N = np.bincount(places_B, minlength=size)
    right_N = np.bincount(places_B, right_B, minlength=size)
    sums_N = np.bincount(places_B, confidence_B, minlength=size)
    return tuple(
        CalibrationBin(float(low), float(high), int(rows), int(right), float(total))
        for low, high, rows, right, total in zip(
            edges_N[:-1], edges_N[1:], rows_N, right_N, sums_N, strict=True
        )
    )
