"""How far two sides of a conversion are apart, on the same inputs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.errors import ConversionError

TOLERANCE = 1e-5
"""The largest difference, relative to max(1, |value|), at which float32 results count as equal."""


@dataclass(frozen=True)
class Proof:
    """What was compared and the largest difference found: absolute, and in units in the last place.

    A unit in the last place is that of float32 at max(1, |value|): of numbers near 0, which are
    sums of larger ones, the last place tells nothing.
    """

    compared: str
    num_values: int
    largest: float
    largest_ulp: float

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "compared": self.compared,
            "num_values": self.num_values,
            "largest_difference": self.largest,
            "largest_difference_ulp": self.largest_ulp,
        }


def prove(
    compared: str,
    ours: Mapping[str, npt.NDArray[np.floating]],
    theirs: Mapping[str, npt.NDArray[np.floating]],
    *,
    tolerance: float = TOLERANCE,
) -> Proof:
    """Return how far results of the same names are apart.

    Raises `ConversionError` where names or shapes differ, a value is not finite, or any two values
    differ by more than `tolerance` · max(1, |ours|): such a conversion must not be handed out.
    """
    if set(ours) != set(theirs):
        raise ConversionError(
            "the two sides of the conversion do not give the same results",
            got=f"{', '.join(sorted(ours))} against {', '.join(sorted(theirs))}",
        )
    largest = largest_ulp = 0.0
    num_values = 0
    for name, mine in sorted(ours.items()):
        left, right = np.asarray(mine, np.float64), np.asarray(theirs[name], np.float64)
        if left.shape != right.shape:
            raise ConversionError(
                f"{name} has another shape on the other side", got=f"{left.shape}, {right.shape}"
            )
        if not left.size:
            continue
        difference = np.abs(left - right)
        scale = np.maximum(1.0, np.abs(left))
        if not np.isfinite(difference).all() or (difference / scale).max() > tolerance:
            raise ConversionError(
                f"the other side computes other values of {name}",
                got=f"a difference of {difference.max():.3g}",
                allowed=f"{tolerance:g}",
            )
        num_values += left.size
        largest = max(largest, float(difference.max()))
        ulp = np.spacing(scale.astype(np.float32)).astype(np.float64)
        largest_ulp = max(largest_ulp, float((difference / ulp).max()))
    return Proof(compared, num_values, largest, largest_ulp)
