"""Paths of derivatives: slopes against finite differences, and faults that turn their claims."""

import math
from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.losses import LossSum, token_loss
from elman.recipes.lab import derivative_paths
from elman.recipes.lab.checking import run_experiments

STEP = 1e-6


def verdicts() -> dict[str, str]:
    report = run_experiments([derivative_paths.DERIVATIVE_PATHS])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def last_state(inputs: Sequence[float], first: float) -> float:
    state = first
    for x in inputs:
        state = math.tanh(0.8 * x + 0.5 * state + 0.1)
    return state


@pytest.mark.parametrize("inputs", [[1.0], [1.0, -0.5, 0.25, 0.0, -1.0], [0.3] * 9])
def test_a_slope_is_that_of_finite_differences(inputs: list[float]) -> None:
    found = derivative_paths._slope(inputs, weight_x=0.8, weight_h=0.5, bias=0.1)
    expected = (last_state(inputs, STEP) - last_state(inputs, -STEP)) / (2 * STEP)
    assert found == pytest.approx(expected, abs=1e-9)


def test_copies_that_are_not_the_weights_turn_the_sum_over_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_weights = Cell.with_weights

    def halved(self: Cell, weights: Mapping[str, Tensor]) -> Cell:
        return with_weights(self, {name: 0.5 * weight for name, weight in weights.items()})

    monkeypatch.setattr(Cell, "with_weights", halved)
    assert verdicts()["001-17"] == "differs"


def test_a_loss_that_is_a_mean_turns_the_sum_over_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mean(states: Tensor, readout: object, targets: Tensor, *, plan: object) -> LossSum:
        loss = token_loss(states, readout, targets)  # type: ignore[arg-type]
        return LossSum(loss.mean(), loss.count)

    monkeypatch.setattr(derivative_paths, "token_loss", mean)
    found = verdicts()
    assert found["001-31"] == "differs"
    assert found["001-28"] == "holds"


def test_the_copies_of_each_step_are_separate_tensors() -> None:
    cell = next(derivative_paths._cells(1))
    copies = derivative_paths._copies(cell)
    pointers = {weight.data_ptr() for copy in copies for weight in copy.values()}
    assert len(pointers) == len(copies) * len(cell.weights)
    assert all(torch.equal(copies[0][name], copies[-1][name]) for name in copies[0])
