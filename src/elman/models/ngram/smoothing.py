"""counts → probabilities: the smoothing methods, all into the same tables.

With c(h, w) the count of w after h, h' the history h without its oldest id, and p(w) of order 0
being 1 / V, every interpolated method is

    p(w | h) = α(w | h) + b(h) · p(w | h'),    b(h) = 1 − Σ_w α(w | h)

    none          α = c(h, w) / c(h)                      and b = 0: maximum likelihood
    witten_bell   α = c(h, w) / (c(h) + t(h)),            t(h): how many different ids follow h
    absolute      α = (c(h, w) − D) / c(h)
    kneser_ney    α = (c(h, w) − D(c(h, w))) / c(h), with three discounts, and shorter histories
                  counted by the different ids that precede them

and two differ: add_k is (c(h, w) + k) / (c(h) + k V) for every w, with nothing of a shorter
history; kneser_ney_backoff uses p(w | h) = α where w followed h, and γ(h) · p(w | h') elsewhere,
with γ(h) = (1 − Σ α) / (1 − Σ p(w | h')), sums over the w that followed h, and α divided by its sum
where all ids did. Single ids are interpolated with 1 / V in both.

Sources: S. F. Chen and J. Goodman, "An Empirical Study of Smoothing Techniques for Language
Modeling" (1998), sections 2 and 4; witten_bell is their equation 16.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from elman.errors import SettingError
from elman.models.ngram.counting import GramCounts, LongArray, continuation_counts
from elman.models.ngram.discounts import Discounts, absolute_discount, modified_discounts
from elman.models.ngram.tables import FloatArray, GramTable, Lower, NgramTables, pruned

Smoothing = Literal["kneser_ney", "kneser_ney_backoff", "absolute", "witten_bell", "add_k", "none"]


@dataclass(frozen=True)
class SmoothingOptions:
    """method, and k of add_k. min_counts: of grams of length 1, 2 …, those seen less often are left
    out, the last number counting for all longer ones; of length 1 all ids stay.
    """

    method: Smoothing = "kneser_ney"
    added: float = 1.0
    min_counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """Tables, the discounts of each length (empty without any) and what a person should know."""

    tables: NgramTables
    discounts: tuple[Discounts, ...]
    notices: tuple[str, ...]


def estimate(
    grams: Sequence[GramCounts],
    vocabulary_size: int,
    options: SmoothingOptions | None = None,
    *,
    never: Sequence[int] = (),
) -> Estimate:
    """Return the tables of the method for grams of length 1 … order.

    `never` are ids that are no outcome, such as padding: their probability is 0, and V above
    counts the others.

    Raises `SettingError` for k ≤ 0 of add_k, and for least counts that fall with the length.
    """
    options = SmoothingOptions() if options is None else options
    least = _least_counts(options, len(grams))
    adjusted = _adjusted(grams, options.method)
    discounts = _discounts(adjusted, options.method)
    builder = _Builder(grams, vocabulary_size, options, never)
    for place, counts_N in enumerate(adjusted):
        builder.add(place, counts_N, discounts[place] if discounts else None, least[place])
    notices = tuple(
        f"discounts of length {length} cannot be estimated: {found.fault}; "
        f"{found.values[0]:.4g} is used for all counts"
        for length, found in enumerate(discounts, 1)
        if found.fault
    )
    return Estimate(builder.tables(), discounts, notices)


class _Builder:
    """Builds one length after another, each with the probabilities of the one before."""

    def __init__(
        self,
        grams: Sequence[GramCounts],
        vocabulary_size: int,
        options: SmoothingOptions,
        never: Sequence[int],
    ) -> None:
        self._grams, self._size, self._options = grams, vocabulary_size, options
        self._never_N = np.array(never, dtype=np.int64)
        self._num_outcomes = vocabulary_size - len(never)
        self._tables: list[GramTable] = []
        self._kept: list[npt.NDArray[np.bool_]] = []
        self._probs_N: FloatArray = np.full(1, 1.0 / self._num_outcomes)

    def add(self, place: int, counts_N: LongArray, discounts: Discounts | None, least: int) -> None:
        """Estimate the grams of length place + 1, and what their histories hand on."""
        level = self._grams[place]
        histories_N = level.keys_N // self._size if place else np.zeros(self._size, dtype=np.int64)
        num_histories = len(self._probs_N) if place else 1
        shares_N = self._shares(counts_N, histories_N, num_histories, discounts)
        keep_N = np.ones(len(counts_N), dtype=bool)
        if place and least > 1:
            keep_N = (level.counts_N >= least) & self._kept[-1][histories_N]
        kept_N = np.where(keep_N, shares_N, 0.0)
        followed_N = np.bincount(histories_N, counts_N, num_histories) > 0
        left_N = self._left(kept_N, histories_N, followed_N, counts_N, keep_N, discounts)
        probs_N, weights_N = self._combined(
            kept_N, left_N, histories_N, level.suffixes_N, followed_N, keep_N & (counts_N > 0)
        )
        if place == 0:
            probs_N[self._never_N] = 0.0
        else:
            shorter = self._tables[-1]
            self._tables[-1] = GramTable(shorter.keys_N, shorter.log_probs_N, _ln(weights_N))
        self._tables.append(GramTable(level.keys_N, _ln(probs_N), np.empty(0)))
        self._kept.append(keep_N)
        self._probs_N = probs_N

    def tables(self) -> NgramTables:
        """Return what was built, without the grams that are left out."""
        lower: Lower = "shorter"
        if self._options.method == "add_k":
            lower = "uniform"
        return pruned(NgramTables(self._size, tuple(self._tables), lower), self._kept)

    def _shares(
        self,
        counts_N: LongArray,
        histories_N: LongArray,
        num_histories: int,
        discounts: Discounts | None,
    ) -> FloatArray:
        """Return α of each gram."""
        totals_N: FloatArray = np.bincount(histories_N, counts_N, num_histories).astype(np.float64)
        method = self._options.method
        if method == "witten_bell":
            totals_N = totals_N + np.bincount(histories_N, counts_N > 0, num_histories)
        elif method == "add_k":
            totals_N = totals_N + self._options.added * self._num_outcomes
        reduced_N = counts_N.astype(np.float64)
        if discounts is not None:
            reduced_N -= discounts.of(counts_N)
        # Only histories that something followed divide anything that is not 0.
        shares_N: FloatArray = reduced_N / np.maximum(totals_N, 1e-300)[histories_N]
        return shares_N

    def _left(
        self,
        kept_N: FloatArray,
        histories_N: LongArray,
        followed_N: npt.NDArray[np.bool_],
        counts_N: LongArray,
        keep_N: npt.NDArray[np.bool_],
        discounts: Discounts | None,
    ) -> FloatArray:
        """Return b(h) = 1 − Σ α of each history, 1 where nothing followed it.

        Where nothing is left out it is summed from what was taken away, which loses no digits.
        """
        num_histories = len(followed_N)
        totals_N = np.maximum(np.bincount(histories_N, counts_N, num_histories), 1e-300)
        method = self._options.method
        if not keep_N.all():
            left_N = 1.0 - np.bincount(histories_N, kept_N, num_histories)
            left_N = np.maximum(left_N, 0.0)
        elif method == "none":
            left_N = np.zeros(num_histories)
        elif method == "witten_bell":
            types_N = np.bincount(histories_N, counts_N > 0, num_histories)
            left_N = types_N / np.maximum(totals_N + types_N, 1e-300)
        elif method == "add_k":
            added = self._options.added * self._num_outcomes
            left_N = added / (totals_N + added)
        else:
            assert discounts is not None
            left_N = np.bincount(histories_N, discounts.of(counts_N), num_histories) / totals_N
        return np.where(followed_N, left_N, 1.0)

    def _combined(
        self,
        kept_N: FloatArray,
        left_N: FloatArray,
        histories_N: LongArray,
        suffixes_N: LongArray,
        followed_N: npt.NDArray[np.bool_],
        seen_N: npt.NDArray[np.bool_],
    ) -> tuple[FloatArray, FloatArray]:
        """Return p of each gram and the weight of each history, by the rule of the method."""
        method = self._options.method
        if method == "add_k":
            each_N = left_N / self._num_outcomes
            return kept_N + each_N[histories_N], each_N
        shorter_N = self._probs_N[suffixes_N]
        if method != "kneser_ney_backoff" or len(self._tables) == 0:
            return kept_N + left_N[histories_N] * shorter_N, left_N
        taken_N = np.bincount(histories_N, np.where(seen_N, shorter_N, 0.0), len(followed_N))
        weights_N = np.where(
            followed_N & (taken_N < 1.0), left_N / np.maximum(1.0 - taken_N, 1e-300), left_N
        )
        # Where every id has followed there is nothing to hand on to: all of it stays with them.
        full_N = np.bincount(histories_N, seen_N, len(followed_N)) == self._num_outcomes
        own_N = kept_N / np.where(full_N, 1.0 - left_N, 1.0)[histories_N]
        probs_N = np.where(seen_N, own_N, weights_N[histories_N] * shorter_N)
        return probs_N, weights_N


def _adjusted(grams: Sequence[GramCounts], method: Smoothing) -> list[LongArray]:
    """Return the counts that the method sees, of each length."""
    if method not in ("kneser_ney", "kneser_ney_backoff"):
        return [level.counts_N for level in grams]
    shorter = [continuation_counts(level, longer) for level, longer in pairwise(grams)]
    return [*shorter, grams[-1].counts_N]


def _discounts(adjusted: Sequence[LongArray], method: Smoothing) -> tuple[Discounts, ...]:
    if method in ("kneser_ney", "kneser_ney_backoff"):
        return tuple(map(modified_discounts, adjusted))
    return tuple(map(absolute_discount, adjusted)) if method == "absolute" else ()


def _least_counts(options: SmoothingOptions, order: int) -> tuple[int, ...]:
    if options.method == "add_k" and not options.added > 0.0:
        raise SettingError("k of add-k must be above 0", got=f"{options.added:g}")
    given = options.min_counts or (1,)
    if any(one < 1 for one in given) or list(given) != sorted(given):
        raise SettingError(
            "least counts of grams must be at least 1 and not fall with the length",
            got=", ".join(map(str, given)),
        )
    least = [*given, *[given[-1]] * order][:order]
    return tuple(least)


def _ln(probs_N: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs_N: FloatArray = np.log(probs_N)
    return logs_N
