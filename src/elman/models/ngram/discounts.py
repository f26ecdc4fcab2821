"""How much is taken from a count: the discounts of Kneser and Ney, estimated from the counts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elman.models.ngram.counting import LongArray
from elman.models.ngram.tables import FloatArray

MIDDLE = 0.5
"""The discount where the counts say nothing of it."""


@dataclass(frozen=True)
class Discounts:
    """D(1), D(2) and D(3 or more), and why they are not the estimated ones; "" where they are."""

    values: tuple[float, float, float]
    fault: str = ""

    def of(self, counts_N: LongArray) -> FloatArray:
        """Return the discount of each count, 0 for a count of 0."""
        table = np.array([0.0, *self.values])
        discounts_N: FloatArray = table[np.minimum(counts_N, 3)]
        return discounts_N


def modified_discounts(counts_N: LongArray) -> Discounts:
    """Return D(1), D(2), D(3+) from n_r, the number of grams seen r times.

        Y = n1 / (n1 + 2 n2);  D(r) = r − (r + 1) · Y · n_(r+1) / n_r

    Source: S. F. Chen and J. Goodman, "An Empirical Study of Smoothing Techniques for Language
    Modeling" (1998), equation 26. Where an n_r is 0, or a D(r) is not within (0, r], as on small or
    artificial texts, all three are Y, and 0.5 where that is not defined either.
    """
    n1, n2, n3, n4 = (int(np.count_nonzero(counts_N == times)) for times in (1, 2, 3, 4))
    middle = n1 / (n1 + 2 * n2) if n1 and n2 else MIDDLE
    fallen = (middle, middle, middle)
    missing = [r for r, n_r in ((1, n1), (2, n2), (3, n3), (4, n4)) if not n_r]
    if missing:
        return Discounts(fallen, _unseen(missing))
    found = (1 - 2 * middle * n2 / n1, 2 - 3 * middle * n3 / n2, 3 - 4 * middle * n4 / n3)
    for r, value in enumerate(found, 1):
        if not 0.0 < value <= r:
            return Discounts(fallen, f"D({r}) would be {value:.4g}")
    return Discounts(found)


def absolute_discount(counts_N: LongArray) -> Discounts:
    """Return one D = n1 / (n1 + 2 n2) for all counts, 0.5 where that is not defined.

    Source: H. Ney, U. Essen and R. Kneser, "On structuring probabilistic dependences in stochastic
    language modelling" (1994), equation 24.
    """
    n1, n2 = (int(np.count_nonzero(counts_N == times)) for times in (1, 2))
    if not n1 or not n2:
        return Discounts((MIDDLE,) * 3, _unseen([2 if n1 else 1]))
    return Discounts((n1 / (n1 + 2 * n2),) * 3)


def _unseen(missing: Sequence[int]) -> str:
    """Return the sentence that no gram has these counts."""
    times = [str(count) for count in missing if count > 1]
    told = ["once"] * (1 in missing) + [f"{' or '.join(times)} times"] * bool(times)
    return f"no gram is seen {' or '.join(told)}"
