"""Figures that differ from seed to seed: their mean, and how sure it is.

mean ± t · s / √n,   s the deviation of n seeds, t the 97.5 % point of Student's t, n − 1 degrees
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from types import MappingProxyType
from typing import NamedTuple

_T_POINTS: Mapping[int, float] = MappingProxyType({3: 4.3027, 5: 2.7764, 10: 2.2622, 20: 2.0930})
"""Number of seeds → the 97.5 % point with one degree of freedom fewer."""


class OverSeeds(NamedTuple):
    """The mean over seeds and half the width of its 95 % interval."""

    mean: float
    half_width: float

    @property
    def ends(self) -> tuple[float, float]:
        """The two ends of the interval."""
        return self.mean - self.half_width, self.mean + self.half_width

    def told(self, digits: int = 3) -> str:
        """Return "mean ± half width", in so many digits."""
        return f"{self.mean:.{digits}g} ± {self.half_width:.{max(1, digits - 1)}g}"


def over_seeds(values: Sequence[float]) -> OverSeeds:
    """Return mean and interval of one figure of 3, 5, 10 or 20 seeds; `KeyError` for others."""
    count = len(values)
    return OverSeeds(fmean(values), _T_POINTS[count] * stdev(values) / math.sqrt(count))
