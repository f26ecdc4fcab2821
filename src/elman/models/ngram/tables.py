"""Tables of probabilities: what any count model is once it is estimated, and how it is asked.

Let h be what came before, h_k its last k ids. With the longest k for which h_k w is in a table,

    p(w | h) = p(w | h_k) · b(h_N−1) · … · b(h_{k+1})

where b is 1 for a history that is in no table. This is how back-off models are asked, and
interpolated ones too: p(w | h_k) holds the shorter histories' share already. Source: D. Jurafsky
and J. H. Martin, "Speech and Language Processing" (2025 draft), section 3.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from elman.models.ngram.counting import Ids, LongArray, Occurrences

FloatArray = npt.NDArray[np.float64]
Lower = Literal["shorter", "uniform"]
NOTHING = 0
"""In a context: nothing stands there, as before the beginning of a sequence."""
UNKNOWN = -1
"""In a context: ids stand there that no table holds in this order."""


@dataclass(frozen=True)
class GramTable:
    """The k-grams of one length, ascending by key (`elman.models.ngram.counting`).

    log_probs_N: ln p(last id | the ids before it). back_off_N: ln b of the gram as a history, 0
    where nothing follows it; empty at the highest order.
    """

    keys_N: LongArray
    log_probs_N: FloatArray
    back_off_N: FloatArray


@dataclass(frozen=True)
class NgramTables:
    """The tables of lengths 1 … order; of length 1 all V ids are there, in order.

    lower "shorter" is the rule above. With "uniform" (add-k) an id that does not follow a known
    history has that history's own b as its probability, and after an unknown history all outcomes
    are equally likely. An id that is no outcome has p = 0 everywhere.

    A context is [order − 1] int64: the numbers, + 1, of the grams of length 1 … order − 1 that end
    where the reading stands, NOTHING or UNKNOWN.
    """

    vocabulary_size: int
    levels: tuple[GramTable, ...]
    lower: Lower = "shorter"

    @property
    def order(self) -> int:
        """The longest gram."""
        return len(self.levels)

    @property
    def num_grams(self) -> tuple[int, ...]:
        """Grams of length 1, 2 … order; of length 1 all ids of the vocabulary."""
        return tuple(len(level.keys_N) for level in self.levels)

    def contexts(self, ids_BT: Ids, before_BK: LongArray) -> LongArray:
        """Return contexts_BTK after each id of ids_BT read after the contexts before_BK."""
        batch_size, num_steps = ids_BT.shape
        found_BTK = np.zeros((batch_size, num_steps, self.order - 1), dtype=np.int64)
        for place in range(self.order - 1):
            if place == 0:
                found_BTK[:, :, 0] = ids_BT + 1
                continue
            shorter_BT = np.concatenate(
                (before_BK[:, place - 1, None], found_BTK[:, :-1, place - 1]), axis=1
            )
            numbers_BT, known_BT = self.find(place, shorter_BT, ids_BT)
            missing_BT = np.where(shorter_BT == NOTHING, NOTHING, UNKNOWN)
            found_BTK[:, :, place] = np.where(known_BT, numbers_BT + 1, missing_BT)
        return found_BTK

    def log_probs(self, where: Occurrences) -> FloatArray:
        """Return ln p of all ids that are predicted: sequence by sequence, ids 1, 2, ….

        Each gram is looked up once, as what is asked for and as the context of what follows.
        """
        ids_N, depths_N = where.ids_N, where.depths_N
        log_probs_N = self.levels[0].log_probs_N[ids_N]
        contexts_N = ids_N + 1
        for place in range(1, self.order):
            before_N = np.concatenate((np.zeros(1, np.int64), contexts_N[:-1]))
            before_N[depths_N < place] = NOTHING
            level = self.levels[place]
            log_probs_N = self._handed(place, before_N, log_probs_N)
            numbers_N, known_N = self.find(place, before_N, ids_N)
            log_probs_N[known_N] = level.log_probs_N[numbers_N[known_N]]
            missing_N = np.where(before_N == NOTHING, NOTHING, UNKNOWN)
            contexts_N = np.where(known_N, numbers_N + 1, missing_N)
        return log_probs_N[depths_N > 0]

    def share_of_known_histories(self, where: Occurrences) -> float:
        """Return for what share of the ids that are predicted the longest history is in a table.

        At the beginning of a sequence the longest is what there is.
        """
        contexts_N, known_N = where.ids_N + 1, np.ones(len(where.ids_N), dtype=bool)
        for place in range(1, self.order - 1):
            before_N = np.concatenate((np.zeros(1, np.int64), contexts_N[:-1]))
            before_N[where.depths_N < place] = NOTHING
            numbers_N, found_N = self.find(place, before_N, where.ids_N)
            deep_N = where.depths_N >= place
            known_N[deep_N] = found_N[deep_N]
            contexts_N = np.where(found_N, numbers_N + 1, UNKNOWN)
        predicted_N = np.flatnonzero(where.depths_N > 0)
        return float(known_N[predicted_N - 1].mean())

    def target_log_probs(self, contexts_MK: LongArray, targets_M: LongArray) -> FloatArray:
        """Return ln p of one id after each context."""
        log_probs_M = self.levels[0].log_probs_N[targets_M]
        for place in range(1, self.order):
            context_M = contexts_MK[:, place - 1]
            numbers_M, known_M = self.find(place, context_M, targets_M)
            log_probs_M = self._handed(place, context_M, log_probs_M)
            log_probs_M[known_M] = self.levels[place].log_probs_N[numbers_M[known_M]]
        return log_probs_M

    def log_distribution(self, context_K: LongArray) -> FloatArray:
        """Return ln p of every id after one context: [V], whose exponentials sum to 1."""
        log_probs_V = self.levels[0].log_probs_N.copy()
        size = self.vocabulary_size
        for place in range(1, self.order):
            context = context_K[place - 1 : place]
            log_probs_V = self._handed(place, context, log_probs_V)
            if context[0] <= 0:
                continue
            level, number = self.levels[place], int(context[0]) - 1
            first, end = np.searchsorted(level.keys_N, [number * size, (number + 1) * size])
            ids_N = level.keys_N[first:end] - number * size
            log_probs_V[ids_N] = level.log_probs_N[first:end]
        return log_probs_V

    def find(
        self, place: int, contexts: LongArray, ids: Ids
    ) -> tuple[LongArray, npt.NDArray[np.bool_]]:
        """Return the numbers of grams of length place + 1, of any shape, and which are there."""
        keys_N = self.levels[place].keys_N
        known = contexts > 0
        numbers = np.zeros(contexts.shape, dtype=np.int64)
        if len(keys_N):
            wanted_M = (contexts[known] - 1) * self.vocabulary_size + ids[known]
            places_M = np.minimum(np.searchsorted(keys_N, wanted_M), len(keys_N) - 1)
            numbers[known] = places_M
            known[known] = keys_N[places_M] == wanted_M
        else:
            known[...] = False
        return numbers, known

    def _handed(self, place: int, contexts_M: LongArray, shorter_M: FloatArray) -> FloatArray:
        """Return ln p of ids that do not follow their contexts of length `place` in a table."""
        back_off_N = self.levels[place - 1].back_off_N
        known_M = contexts_M > 0
        weights_M = np.zeros(contexts_M.shape)
        weights_M[known_M] = back_off_N[contexts_M[known_M] - 1]
        if self.lower == "shorter":
            return weights_M + shorter_M
        outcomes_V = self.levels[0].log_probs_N > -np.inf
        uniform = -float(np.log(np.count_nonzero(outcomes_V)))
        unseen_M = np.where(known_M, weights_M, uniform)
        unseen_M = np.where(shorter_M > -np.inf, unseen_M, -np.inf)
        return np.where(contexts_M == NOTHING, shorter_M, unseen_M)


def pruned(tables: NgramTables, kept: Sequence[npt.NDArray[np.bool_]]) -> NgramTables:
    """Return the tables with the grams kept alone, renumbered; all of length 1 stay.

    A gram that is kept must have its history kept. Weights b are not changed here.
    """
    size = tables.vocabulary_size
    levels = [tables.levels[0]]
    numbers_N = np.arange(size)
    for level, keep_N in zip(tables.levels[1:], kept[1:], strict=True):
        histories_N, ids_N = np.divmod(level.keys_N[keep_N], size)
        back_off_N = level.back_off_N[keep_N] if len(level.back_off_N) else level.back_off_N
        keys_N = numbers_N[histories_N] * size + ids_N
        levels.append(GramTable(keys_N, level.log_probs_N[keep_N], back_off_N))
        numbers_N = np.cumsum(keep_N) - 1
    return NgramTables(size, tuple(levels), tables.lower)
