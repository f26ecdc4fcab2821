"""Counting as a language model: the baseline that a recurrent model has to beat.

For a history h of k ids, h' being h without its oldest id, and c(h, w) the count of w after h,

    p(w | h) = (c(h, w) - D(c(h, w))) / c(h) + b(h) · p(w | h'),    b(h) = Σ_w D(c(h, w)) / c(h),

down to p(w | nothing older) = 1 / V. This is interpolated absolute discounting with three discounts
an order, D(1), D(2) and D(3 or more), estimated from counts of counts, and with the shorter
histories counted by how many different ids precede them (Kneser–Ney): Chen and Goodman, "An
Empirical Study of Smoothing Techniques for Language Modeling" (1998), equations 24 to 26. On
held-out letters of plays, names and encyclopaedia words it was better at every order above 1 than
Witten–Bell and than the same discounts on plain counts.

Histories of one length are numbered 0, 1, 2 … in the order of (number of h', oldest id), so that a
table needs a sorted array of its pairs and never V^N cells.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.errors import DataError, SettingError

Ids = npt.NDArray[np.integer]
LongArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
LEAST_DISCOUNT = 0.05
MIDDLE_DISCOUNT = 0.5


@dataclass(frozen=True)
class _Level:
    """Everything about histories of one length; pairs are keyed as history · V + id, ascending."""

    histories_N: LongArray  # key of (number of the shorter history, oldest id) of each history
    grams_N: LongArray  # key of (number of the history, id that followed)
    counts_N: LongArray  # count of each gram
    totals_N: LongArray  # sum of counts of each history
    back_off_N: FloatArray  # b(h), the mass handed to the shorter history
    discounts: FloatArray  # D by count, [0, D(1), D(2), D(3 or more)]


@dataclass(frozen=True)
class _Positions:
    """Targets in joined sequences: where they are, and how many ids precede them in their own."""

    ids_N: LongArray
    targets_N: LongArray
    depths_N: LongArray


class CountModel:
    """p(w | the last order - 1 ids), exact in float64, summing to 1 over the vocabulary.

    order 1 is the unigram model. In every sequence the first id is context only, all others are
    targets: give [S] x1 … xn [S] for a line, and the ids for a stream, after a start mark if the
    first of them is to be predicted. A history never reaches before the start of its sequence.
    """

    def __init__(self, levels: Sequence[_Level], *, vocabulary_size: int) -> None:
        self._levels = tuple(levels)
        self.order = len(self._levels)
        self.vocabulary_size = vocabulary_size

    @classmethod
    def fit(cls, sequences: Iterable[Ids], *, order: int, vocabulary_size: int) -> "CountModel":
        """Return the model counted from `sequences`, each [T] ids.

        Holds about a hundred bytes a target while it counts. Raises `SettingError` for an order
        below 1, `DataError` for ids outside the vocabulary and where there is nothing to predict.
        """
        if order < 1:
            raise SettingError("order of a count model must be an int >= 1", got=str(order))
        where = _join(sequences, vocabulary_size)
        if len(where.targets_N) == 0:
            raise DataError(
                "there is nothing to count", got="no token after a first one", allowed="2 tokens"
            )
        return cls(_count_levels(where, order, vocabulary_size), vocabulary_size=vocabulary_size)

    @property
    def num_grams(self) -> tuple[int, ...]:
        """How many different sequences of 1, 2 … order ids were counted."""
        return tuple(len(level.grams_N) for level in self._levels)

    @property
    def discounts(self) -> tuple[tuple[float, float, float], ...]:
        """D(1), D(2) and D(3 or more) for histories of 0, 1 … order - 1 ids."""
        return tuple(
            (float(one), float(two), float(more))
            for _, one, two, more in (level.discounts for level in self._levels)
        )

    def log_probs(self, sequences: Iterable[Ids]) -> FloatArray:
        """Return log p in nats of every target, in order: sequence by sequence, ids 1, 2, ….

        A long stream can be scored in parts: put the order - 1 ids before a part in front of it
        and leave out the first order - 2 results (none for order 1 or 2, where one id is enough).
        Raises `DataError` for ids outside the vocabulary.
        """
        where = _join(sequences, self.vocabulary_size)
        size = self.vocabulary_size
        probs_N = np.full(len(where.targets_N), 1.0 / size)
        # Which targets still have a known history of this length, and its number.
        alive_N = np.arange(len(where.targets_N))
        histories_N = np.zeros(len(where.targets_N), dtype=np.int64)
        for length, level in enumerate(self._levels):
            if length:
                deep_N = where.depths_N[alive_N] >= length
                alive_N, histories_N = alive_N[deep_N], histories_N[deep_N]
                oldest_N = where.ids_N[where.targets_N[alive_N] - length]
                numbers_N, known_N = _find(level.histories_N, histories_N * size + oldest_N)
                alive_N, histories_N = alive_N[known_N], numbers_N[known_N]
            targets_N = where.ids_N[where.targets_N[alive_N]]
            numbers_N, known_N = _find(level.grams_N, histories_N * size + targets_N)
            counts_N = np.where(known_N, level.counts_N[numbers_N], 0)
            kept_N = (counts_N - level.discounts[np.minimum(counts_N, 3)]) / (
                level.totals_N[histories_N]
            )
            probs_N[alive_N] = kept_N + level.back_off_N[histories_N] * probs_N[alive_N]
        log_probs_N: FloatArray = np.log(probs_N)
        return log_probs_N

    def distribution(self, history: Ids) -> FloatArray:
        """Return p(w | history) for every id w: [V] float64, all above 0, summing to 1.

        `history`: [T], the ids so far in the sequence, or at least the last order - 1 of them.
        """
        ids_T = _checked_ids(history, self.vocabulary_size)
        size = self.vocabulary_size
        probs_V = np.full(size, 1.0 / size)
        number = 0
        for length, level in enumerate(self._levels[: len(ids_T) + 1]):
            if length:
                key_N = np.array([number * size + ids_T[-length]])
                numbers_N, known_N = _find(level.histories_N, key_N)
                if not known_N[0]:
                    break
                number = int(numbers_N[0])
            first, end = np.searchsorted(level.grams_N, [number * size, (number + 1) * size])
            counts_N = level.counts_N[first:end]
            kept_N = counts_N - level.discounts[np.minimum(counts_N, 3)]
            probs_V *= level.back_off_N[number]
            probs_V[level.grams_N[first:end] - number * size] += kept_N / level.totals_N[number]
        return probs_V


def _count_levels(where: _Positions, order: int, size: int) -> list[_Level]:
    targets_N, depths_N = where.targets_N, where.depths_N
    numbers_N = np.zeros(len(targets_N), dtype=np.int64)
    histories: list[LongArray] = [np.zeros(1, dtype=np.int64)]
    grams: list[LongArray] = []
    counts: list[LongArray] = []
    first_grams: list[LongArray] = []  # occurrences whose history is the whole sequence before
    for length in range(order):
        if length:
            deep_N = depths_N >= length
            targets_N, depths_N = targets_N[deep_N], depths_N[deep_N]
            oldest_N = where.ids_N[targets_N - length]
            keys_N, numbers_N = _number(numbers_N[deep_N] * size + oldest_N)
            histories.append(keys_N)
        keys_N = numbers_N * size + where.ids_N[targets_N]
        first_grams.append(keys_N[depths_N == length])
        unique_N, counts_N = _count(keys_N)
        grams.append(unique_N)
        counts.append(counts_N)
    for length in range(order - 1):
        # A shorter history counts the different ids before it, and each time nothing is before it.
        longer_N, followers_N = np.divmod(grams[length + 1], size)
        shorter_N = histories[length + 1][longer_N] // size
        extended_N = shorter_N * size + followers_N
        _, counts[length] = _count(np.concatenate([extended_N, first_grams[length]]))
    return [_level(*tables, size) for tables in zip(histories, grams, counts, strict=True)]


def _level(histories_N: LongArray, grams_N: LongArray, counts_N: LongArray, size: int) -> _Level:
    owners_N = grams_N // size
    discounts = _estimate_discounts(counts_N)
    totals_N = np.bincount(owners_N, counts_N, len(histories_N))
    handed_N = np.bincount(owners_N, discounts[np.minimum(counts_N, 3)], len(histories_N))
    # No division by zero: only histories that something followed are in a table.
    return _Level(
        histories_N, grams_N, counts_N, totals_N.astype(np.int64), handed_N / totals_N, discounts
    )


def _estimate_discounts(counts_N: LongArray) -> FloatArray:
    """Return [0, D(1), D(2), D(3+)] from n_r, the number of grams seen r times.

    Y = n1 / (n1 + 2 n2); D(r) = r - (r + 1) Y n_(r+1) / n_r, within [0.05, r]: Chen and Goodman,
    equation 26. With an n_r of zero all three are Y, or 0.5 where that is not defined.
    """
    n1, n2, n3, n4 = (int(np.count_nonzero(counts_N == times)) for times in (1, 2, 3, 4))
    middle = n1 / (n1 + 2 * n2) if n1 and n2 else MIDDLE_DISCOUNT
    if not (n1 and n2 and n3 and n4):
        return np.array([0.0, middle, middle, middle])
    three = (1 - 2 * middle * n2 / n1, 2 - 3 * middle * n3 / n2, 3 - 4 * middle * n4 / n3)
    return np.array([0.0, *np.clip(three, LEAST_DISCOUNT, (1.0, 2.0, 3.0))])


def _join(sequences: Iterable[Ids], size: int) -> _Positions:
    parts = [np.asarray(sequence) for sequence in sequences]
    ids_N = _checked_ids(np.concatenate([np.empty(0, np.uint8), *parts]), size)
    lengths_B = np.array([len(part) for part in parts], dtype=np.int64)
    starts_B = np.cumsum(lengths_B) - lengths_B
    depths_N = np.arange(len(ids_N)) - np.repeat(starts_B, lengths_B)
    targets_N = np.flatnonzero(depths_N)
    return _Positions(ids_N, targets_N, depths_N[targets_N])


def _checked_ids(ids: Ids, size: int) -> LongArray:
    ids_N = np.asarray(ids).astype(np.int64)
    if len(ids_N) and not 0 <= ids_N.min() <= ids_N.max() < size:
        outside = ids_N.min() if ids_N.min() < 0 else ids_N.max()
        raise DataError(
            "an id is outside the vocabulary", got=str(outside), allowed=f"below {size}"
        )
    return ids_N


def _find(keys_N: LongArray, wanted_N: LongArray) -> tuple[LongArray, npt.NDArray[np.bool_]]:
    """Return where each wanted key stands in the ascending `keys_N`, and whether it is there."""
    if len(keys_N) == 0:
        return np.zeros(len(wanted_N), np.int64), np.zeros(len(wanted_N), np.bool_)
    places_N = np.minimum(np.searchsorted(keys_N, wanted_N), len(keys_N) - 1)
    return places_N, keys_N[places_N] == wanted_N


def _count(keys_N: LongArray) -> tuple[LongArray, LongArray]:
    """Return the different keys, ascending, and how often each comes."""
    if _is_dense(keys_N):
        counts_N = np.bincount(keys_N)
        unique_N = np.flatnonzero(counts_N)
        return unique_N, counts_N[unique_N]
    unique_N, counts_N = np.unique(keys_N, return_counts=True)
    return unique_N, counts_N


def _number(keys_N: LongArray) -> tuple[LongArray, LongArray]:
    """Return the different keys, ascending, and for each key given its place among them."""
    if _is_dense(keys_N):
        present_N = np.zeros(int(keys_N.max()) + 1, dtype=bool)
        present_N[keys_N] = True
        return np.flatnonzero(present_N), (np.cumsum(present_N) - 1)[keys_N]
    unique_N, places_N = np.unique(keys_N, return_inverse=True)
    return unique_N, places_N


def _is_dense(keys_N: LongArray) -> bool:
    """Return whether a table with a cell for every possible key is cheaper than sorting."""
    return len(keys_N) > 0 and int(keys_N.max()) < 4 * len(keys_N)
