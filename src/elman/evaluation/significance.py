"""Is a difference between two systems more than chance? The bootstrap over rows says.

A figure is a function of sums over rows: accuracy of (right, 1), F1 of (right, gold, predicted),
nats per token of (nats, tokens), BLEU of its ten counts. A resample draws as many rows as there
are, with replacement, and makes the figure of their sums; both systems are resampled on the same
rows (Koehn, "Statistical Significance Tests for Machine Translation Evaluation", 2004).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.errors import DataError, SettingError, ShapeError
from elman.evaluation.ratios import CONFIDENCE_LEVEL, Interval

FloatArray = npt.NDArray[np.float64]
FigureOfSums = Callable[[FloatArray], FloatArray]
"""[R, N] sums of R resamples → [R] figures; not a number where undefined."""

NUM_RESAMPLES = 10_000
_DRAWS_AT_ONCE = 2**22
METHOD = "bootstrap over {}, percentile"


@dataclass(frozen=True)
class PairedDifference:
    """The figures of two systems on the same rows, and how sure their difference is.

    `difference` is second − first, `interval` its bootstrap interval, and `p_value` the two-sided

        p = 2 · (1 + min(#{d ≤ 0}, #{d ≥ 0})) / (1 + resamples),   at most 1

    over the differences d of the resamples: small where hardly any of them has another sign.
    Resamples in which a figure is undefined are left out and counted.
    """

    first: float
    second: float
    difference: float
    interval: Interval
    p_value: float
    num_rows: int
    num_resamples: int
    num_undefined: int
    seed: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.interval.low > 0.0 or self.interval.high < 0.0

    def to_json(self) -> dict[str, object]:
        """Return every figure."""
        return {
            "first": self.first,
            "second": self.second,
            "difference": self.difference,
            "interval": self.interval.to_json(),
            "p_value": self.p_value,
            "is_significant": self.is_significant,
            "num_rows": self.num_rows,
            "num_resamples": self.num_resamples,
            "num_undefined": self.num_undefined,
            "seed": self.seed,
        }


def ratio_of_sums(sums_RN: FloatArray) -> FloatArray:
    """Return column 0 over column 1: accuracy, error rate, nats per token."""
    return _divided(sums_RN[:, 0], sums_RN[:, 1])


def f1_of_sums(sums_RN: FloatArray) -> FloatArray:
    """Return F1 of the columns right, gold, predicted: 2 · right / (gold + predicted)."""
    return _divided(2.0 * sums_RN[:, 0], sums_RN[:, 1] + sums_RN[:, 2])


def paired_bootstrap(
    first_BN: npt.ArrayLike,
    second_BN: npt.ArrayLike,
    figure: FigureOfSums,
    *,
    seed: int,
    num_resamples: int = NUM_RESAMPLES,
    level: float = CONFIDENCE_LEVEL,
    unit: str = "rows",
) -> PairedDifference:
    """Compare two systems on the same rows; [B, N] counts of each row, in the same order.

    `unit` is what a row is called. The same seed gives the same result with one version of NumPy.
    Raises `ShapeError` for other shapes, `DataError` for no rows and for a figure that is undefined
    on all rows, `SettingError` for no resamples or a level outside (0, 1).
    """
    rows = np.asarray(first_BN, dtype=np.float64), np.asarray(second_BN, dtype=np.float64)
    if rows[0].ndim != 2 or rows[0].shape != rows[1].shape:
        raise ShapeError(
            "both systems must have one row of counts for each row of the data, and the same ones",
            got=f"{list(rows[0].shape)} and {list(rows[1].shape)}",
        )
    whole = [_whole(row_BN, figure) for row_BN in rows]
    sums_R2N = _resampled(np.stack(rows, axis=1), seed, num_resamples)
    differences_R = figure(sums_R2N[:, 1]) - figure(sums_R2N[:, 0])
    defined_R = differences_R[~np.isnan(differences_R)]
    fewer = min(np.count_nonzero(defined_R <= 0.0), np.count_nonzero(defined_R >= 0.0))
    return PairedDifference(
        first=whole[0],
        second=whole[1],
        difference=whole[1] - whole[0],
        interval=_percentile_interval(defined_R, level, unit),
        p_value=min(1.0, 2.0 * (1 + int(fewer)) / (1 + len(defined_R))),
        num_rows=len(rows[0]),
        num_resamples=num_resamples,
        num_undefined=num_resamples - len(defined_R),
        seed=seed,
    )


def bootstrap_interval(
    rows_BN: npt.ArrayLike,
    figure: FigureOfSums,
    *,
    seed: int,
    num_resamples: int = NUM_RESAMPLES,
    level: float = CONFIDENCE_LEVEL,
    unit: str = "rows",
) -> Interval:
    """Return the interval of one system's figure: for ratios whose parts are not independent rows.

    Raises as `paired_bootstrap`.
    """
    counts_BN = np.asarray(rows_BN, dtype=np.float64)
    if counts_BN.ndim != 2:
        raise ShapeError("rows_BN must have the axes row, count", got=str(list(counts_BN.shape)))
    _whole(counts_BN, figure)
    figures_R = figure(_resampled(counts_BN[:, None], seed, num_resamples)[:, 0])
    return _percentile_interval(figures_R[~np.isnan(figures_R)], level, unit)


def _whole(rows_BN: FloatArray, figure: FigureOfSums) -> float:
    if not np.isfinite(rows_BN).all():
        raise DataError("the counts of every row must be finite", got="infinity or not a number")
    value = float(figure(rows_BN.sum(axis=0, keepdims=True))[0]) if len(rows_BN) else float("nan")
    if np.isnan(value):
        raise DataError(
            "the figure is undefined on these rows: there is nothing to compare",
            got=f"{len(rows_BN)} rows",
        )
    return value


def _resampled(rows_BSN: FloatArray, seed: int, num_resamples: int) -> FloatArray:
    """Return sums of every resample, [R, S, N]; all S systems get the same rows."""
    if num_resamples < 1:
        raise SettingError("num_resamples must be an int >= 1", got=str(num_resamples))
    size = len(rows_BSN)
    flat_BN = rows_BSN.reshape(size, -1)
    sums_RN = np.empty((num_resamples, flat_BN.shape[1]))
    generator = np.random.default_rng(seed)
    # A multiple of one row of draws: cutting the stream elsewhere would change nothing but memory.
    at_once = max(1, _DRAWS_AT_ONCE // size)
    for start in range(0, num_resamples, at_once):
        stop = min(start + at_once, num_resamples)
        draws_RB = generator.integers(0, size, size=(stop - start, size))
        draws_RB += size * np.arange(stop - start)[:, None]
        times_RB = np.bincount(draws_RB.ravel(), minlength=draws_RB.size).reshape(draws_RB.shape)
        sums_RN[start:stop] = times_RB.astype(np.float64) @ flat_BN
    return sums_RN.reshape(num_resamples, *rows_BSN.shape[1:])


def _percentile_interval(values_R: FloatArray, level: float, unit: str) -> Interval:
    if not 0.0 < level < 1.0:
        raise SettingError("level of an interval must lie between 0 and 1", got=f"{level:g}")
    if not len(values_R):
        raise DataError("the figure is undefined in every resample", got="no value")
    low, high = np.quantile(values_R, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(low), float(high), level, METHOD.format(unit))


def _divided(numerator_R: FloatArray, denominator_R: FloatArray) -> FloatArray:
    filled_R = np.full(len(denominator_R), np.nan)
    quotient_R: FloatArray = np.divide(
        numerator_R, denominator_R, out=filled_R, where=denominator_R != 0
    )
    return quotient_R
