"""Jacobians beside finite differences and closed forms; another function of the state is seen."""

import math
from collections.abc import Mapping

import pytest
import torch
from planted_faults import verdicts

from elman.cells.cell import CellState
from elman.cells.elman import ElmanCell, ElmanState
from elman.recipes.lab import jacobians
from elman.recipes.lab.jacobians import JACOBIANS


def test_a_step_is_that_of_finite_differences() -> None:
    cell = jacobians._cell_of(((0.3, -0.8), (0.5, 0.4)))
    x_BE = torch.zeros(1, 1, dtype=torch.float64)
    h_BH = torch.tensor([[0.2, -0.6]], dtype=torch.float64)
    found = jacobians._step_jacobian(cell, x_BE, h_BH)
    with torch.no_grad():
        for unit in range(2):
            moved_BH = h_BH.clone()
            moved_BH[0, unit] += 1e-6
            one, other = (cell.step(x_BE, cell.pack_state([it]))[0] for it in (moved_BH, h_BH))
            torch.testing.assert_close(found[:, unit], (one - other)[0] / 1e-6, atol=1e-5, rtol=0)


@pytest.mark.parametrize("steps", [1, 10, 100])
def test_the_norm_of_a_power_is_its_closed_form(steps: int) -> None:
    a, b = 0.9**steps, steps * 0.9 ** (steps - 1)
    want = (b + math.sqrt(b * b + 4 * a * a)) / 2
    assert jacobians._norm_over(jacobians._SHEAR, steps=steps) == pytest.approx(want, rel=1e-12)


def test_a_saturated_unit_is_its_closed_form() -> None:
    assert jacobians._slope(weight=5.0, state=0.9999) == pytest.approx(5 * (1 - 0.9999**2))


def test_another_function_of_the_state_turns_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(self: ElmanCell, gates: Mapping[str, torch.Tensor], state: CellState) -> ElmanState:
        return ElmanState(torch.tanh(2.0 * gates["preactivation"]))

    monkeypatch.setattr(ElmanCell, "combine", doubled)
    assert set(verdicts(JACOBIANS).values()) == {"differs"}
