"""ids → how often each sequence of 1, 2 … N ids occurs, level by level, without a Python loop.

A k-gram is numbered within its level by the key (number of its history, last id), where the history
is the (k − 1)-gram before its last id: those that follow one history stand next to each other, and
a table needs a sorted array of keys and never V^k cells.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.errors import DataError, SettingError

Ids = npt.NDArray[np.integer]
LongArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GramCounts:
    """The k-grams of one length that occur, ascending by key.

    keys_N: number of the history · V + last id; of length 1 the id itself, and all V are there.
    suffixes_N: number of the (k − 1)-gram that a gram is without its oldest id; of length 1 zeros.
    counts_N: occurrences, of length 1 without those that are first in their sequence, as nothing
    predicts them. begins_N: those of them with nothing before their oldest id.
    """

    keys_N: LongArray
    suffixes_N: LongArray
    counts_N: LongArray
    begins_N: LongArray


@dataclass(frozen=True)
class Occurrences:
    """Joined sequences: their ids, and how many ids stand before each in its own sequence."""

    ids_N: LongArray
    depths_N: LongArray

    @property
    def num_predicted(self) -> int:
        """Ids that are predicted: all but the first of each sequence."""
        return int(np.count_nonzero(self.depths_N))


def joined(sequences: Iterable[Ids], vocabulary_size: int) -> Occurrences:
    """Return sequences, each [T] ids, side by side. Raises `DataError` for what is no id."""
    parts = [np.asarray(sequence) for sequence in sequences]
    ids_N = checked_ids(np.concatenate([np.empty(0, np.uint8), *parts]), vocabulary_size)
    lengths_B = np.array([len(part) for part in parts], dtype=np.int64)
    starts_B = np.cumsum(lengths_B) - lengths_B
    return Occurrences(ids_N, np.arange(len(ids_N)) - np.repeat(starts_B, lengths_B))


def checked_ids(ids: Ids, vocabulary_size: int) -> LongArray:
    """Return ids as int64. Raises `DataError` for one outside the vocabulary."""
    ids_N = np.asarray(ids).astype(np.int64)
    if len(ids_N) and not 0 <= ids_N.min() <= ids_N.max() < vocabulary_size:
        outside = ids_N.min() if ids_N.min() < 0 else ids_N.max()
        raise DataError(
            "an id is outside the vocabulary", got=str(outside), allowed=f"below {vocabulary_size}"
        )
    return ids_N


def count_grams(where: Occurrences, *, order: int, vocabulary_size: int) -> tuple[GramCounts, ...]:
    """Return the k-grams of `where` for k = 1 … order.

    Holds about a hundred bytes a token while it counts. Raises `SettingError` for an order below 1,
    `DataError` where there is nothing to predict.
    """
    if order < 1:
        raise SettingError("order of a count model must be an int >= 1", got=str(order))
    if where.num_predicted == 0:
        raise DataError(
            "there is nothing to count", got="no token after a first one", allowed="2 tokens"
        )
    levels = [_single_ids(where, vocabulary_size)]
    numbers_N = where.ids_N  # of the gram that ends at each position, of the length reached
    for length in range(2, order + 1):
        ends_N = np.flatnonzero(where.depths_N >= length - 1)
        wanted_N = numbers_N[ends_N - 1] * vocabulary_size + where.ids_N[ends_N]
        keys_N, places_N = _numbered(wanted_N)
        suffixes_N = np.zeros(len(keys_N), dtype=np.int64)
        suffixes_N[places_N] = numbers_N[ends_N]
        first_N = where.depths_N[ends_N] == length - 1
        counts_N = np.bincount(places_N, minlength=len(keys_N))
        begins_N = np.bincount(places_N[first_N], minlength=len(keys_N))
        levels.append(GramCounts(keys_N, suffixes_N, counts_N, begins_N))
        numbers_N = np.zeros_like(where.ids_N)
        numbers_N[ends_N] = places_N
    return tuple(levels)


def continuation_counts(level: GramCounts, longer: GramCounts) -> LongArray:
    """Return in how many different company each gram of `level` stands: ids before it, or none.

    Each different id before a gram counts once, and each time that nothing is before it.
    """
    preceded_N = np.bincount(longer.suffixes_N, minlength=len(level.keys_N))
    return preceded_N + level.begins_N


def _single_ids(where: Occurrences, size: int) -> GramCounts:
    zeros_N = np.zeros(size, dtype=np.int64)
    counts_N = np.bincount(where.ids_N[where.depths_N > 0], minlength=size)
    return GramCounts(np.arange(size), zeros_N, counts_N, zeros_N)


def _numbered(keys_N: LongArray) -> tuple[LongArray, LongArray]:
    """Return the different keys, ascending, and for each key given its place among them."""
    if len(keys_N) and int(keys_N.max()) < 4 * len(keys_N):
        # A table with a cell for every possible key is cheaper than sorting.
        present_N = np.zeros(int(keys_N.max()) + 1, dtype=bool)
        present_N[keys_N] = True
        return np.flatnonzero(present_N), (np.cumsum(present_N) - 1)[keys_N]
    unique_N, places_N = np.unique(keys_N, return_inverse=True)
    return unique_N, places_N
