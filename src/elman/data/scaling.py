"""Numbers scaled to mean 0 and deviation 1, as those learnt from have them."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from elman.errors import DataError, RunError

SCALING_SCHEMA = 1

FARTHEST = 1e18
"""Deviations from the mean: the square of a scaled number is still one of float32."""


@dataclass(frozen=True)
class SeriesScaling:
    """x → (x − mean) / deviation, with the mean and the deviation of all training numbers.

    Nothing of what is held out enters either figure. `deviation` is the root of the mean square
    about the mean, 1 where all numbers are the same. Raises `DataError` for figures that are not
    finite, or a deviation that is not above 0.
    """

    mean: float
    deviation: float
    num_values: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0.0 < self.deviation < math.inf):
            raise DataError(
                "numbers cannot be scaled by these figures",
                got=f"mean {self.mean:g}, deviation {self.deviation:g}",
            )

    @classmethod
    def of(cls, rows: Iterable[Sequence[float]]) -> Self:
        """Return the scaling of the numbers of these rows, summed in float64 about the first."""
        origin: float | None = None
        count, total, squares = 0, 0.0, 0.0
        for row in rows:
            values_T = np.asarray(row, dtype=np.float64)
            if len(values_T) == 0:
                continue
            if origin is None:
                origin = float(values_T[0])
            moved_T = values_T - origin
            count += len(values_T)
            total += float(moved_T.sum())
            squares += float(np.square(moved_T).sum())
        if origin is None:
            raise DataError("there is no number to learn from", got="only empty rows")
        variance = max(0.0, squares / count - (total / count) ** 2)
        return cls(origin + total / count, math.sqrt(variance) or 1.0, count)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the scaling that `to_json` wrote. Raises `RunError` for anything else."""
        try:
            whole = json.loads(text)
            if whole["schema"] != SCALING_SCHEMA:
                raise ValueError("a schema of another version")
            return cls(
                float(whole["mean"]), float(whole["deviation"]), int(whole["num_training_values"])
            )
        except (ValueError, KeyError, TypeError, RecursionError, DataError) as error:
            raise RunError(
                "scaling.json cannot be used",
                got=str(error),
                hint="restore the file that the run was saved with",
            ) from None

    def to_json(self) -> str:
        """Return the file `scaling.json`; floats come back to the same bits."""
        whole = {
            "schema": SCALING_SCHEMA,
            "mean": self.mean,
            "deviation": self.deviation,
            "num_training_values": self.num_values,
        }
        return json.dumps(whole, indent=1) + "\n"

    def scale(self, values: Sequence[float]) -> npt.NDArray[np.float32]:
        """Return the scaled numbers [T]; subtracted and divided in float64.

        Raises `DataError` for one too far away for a model to reckon with.
        """
        scaled_T = (np.asarray(values, dtype=np.float64) - self.mean) / self.deviation
        far_T = ~(np.abs(scaled_T) <= FARTHEST)
        if far_T.any():
            raise DataError(
                "a number is too far from those that were learnt from",
                got=f"{values[int(far_T.argmax())]:g}",
                allowed=f"{FARTHEST:g} deviations ({self.deviation:g} each) from {self.mean:g}",
            )
        return scaled_T.astype(np.float32)
