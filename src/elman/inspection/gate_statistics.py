"""How open and how saturated the gates of a cell are over a text, unit by unit.

    carried_t = ∂ memory_t / ∂ memory_{t−1} with gates held        f of an LSTM, z or 1 − z of a GRU
    time constant τ = −1 / mean_t ln |carried_t|                   tokens until 1/e of it is left

A text is added window by window; sums and counts are kept, not steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.inspection.product_rule import carried_share
from elman.inspection.recording import CellStep

CLOSED, OPEN = 0.1, 0.9
"""A gate from 0 to 1 below or above is saturated; a candidate from −1 to 1 is beyond ± OPEN."""

STUCK_DEVIATION = 1e-3
"""A gate or a state that varies less over the whole text is stuck or dead."""


@dataclass(frozen=True)
class UnitMoments:
    """Over all steps: mean_H, deviation_H, and the shares of steps at either end, below_H, above_H.

    below is under `CLOSED` of what goes from 0 to 1, under −`OPEN` of what goes from −1 to 1.
    """

    mean_H: Tensor
    deviation_H: Tensor
    below_H: Tensor
    above_H: Tensor

    def stuck(self) -> Tensor:
        """Return which units [H] hardly vary."""
        return self.deviation_H < STUCK_DEVIATION


@dataclass
class _Sums:
    total_H: Tensor | float = 0.0
    squares_H: Tensor | float = 0.0
    below_H: Tensor | float = 0.0
    above_H: Tensor | float = 0.0

    def add(self, value_BH: Tensor, low: float, high: float) -> None:
        value_BH = value_BH.double()
        self.total_H = self.total_H + value_BH.sum(dim=0)
        self.squares_H = self.squares_H + value_BH.square().sum(dim=0)
        self.below_H = self.below_H + (value_BH < low).double().sum(dim=0)
        self.above_H = self.above_H + (value_BH > high).double().sum(dim=0)

    def moments(self, count: int) -> UnitMoments:
        def over(total: Tensor | float) -> Tensor:
            return torch.as_tensor(total, dtype=torch.float64) / count

        mean_H = over(self.total_H)
        variance_H = (over(self.squares_H) - mean_H.square()).clamp(min=0.0)
        return UnitMoments(mean_H, variance_H.sqrt(), over(self.below_H), over(self.above_H))


@dataclass
class GateStatistics:
    """The gates and the state of one cell over the steps that were added."""

    cell: Cell
    num_steps: int = 0
    _gates: dict[str, _Sums] = field(default_factory=dict)
    _state: dict[str, _Sums] = field(default_factory=dict)
    _log_carried_H: Tensor | float = 0.0

    def add(self, steps: Iterable[CellStep]) -> None:
        """Add recorded steps, all rows of each."""
        for step in steps:
            self.num_steps += len(step.x_BE)
            with torch.no_grad():
                for name, value_BH in step.gates.items():
                    low = CLOSED if is_share(name) else -OPEN
                    self._gates.setdefault(name, _Sums()).add(value_BH, low, OPEN)
                for name, part_BH in zip(self.cell.state_names, step.after, strict=True):
                    self._state.setdefault(name, _Sums()).add(part_BH, -OPEN, OPEN)
            share_BH = carried_share(self.cell, step.gates, step.before)
            with torch.no_grad():
                logs_BH = share_BH.abs().double().log()
                self._log_carried_H = self._log_carried_H + logs_BH.sum(dim=0)

    @property
    def gates(self) -> Mapping[str, UnitMoments]:
        """Those of each gate by its name."""
        return {name: sums.moments(self.num_steps) for name, sums in self._gates.items()}

    @property
    def state(self) -> Mapping[str, UnitMoments]:
        """Those of each part of the state by its name."""
        return {name: sums.moments(self.num_steps) for name, sums in self._state.items()}

    def time_constants(self) -> Tensor:
        """Return τ of each unit [H] in tokens: 0 where nothing is carried, ∞ where all of it is."""
        mean_H = torch.as_tensor(self._log_carried_H, dtype=torch.float64) / self.num_steps
        return torch.where(mean_H < 0.0, -1.0 / mean_H, torch.full_like(mean_H, torch.inf))


def is_share(gate: str) -> bool:
    """Return whether a gate of this name goes from 0 to 1; candidates and preactivations do not."""
    return gate not in ("candidate", "preactivation")
