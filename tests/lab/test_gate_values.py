"""Slopes, gates and counts: as elementary functions have them, and red where a gate is wrong."""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from elman.cells.cell import CellState
from elman.cells.elman import ElmanCell, ElmanState
from elman.cells.lstm import LSTMCell, LSTMState
from elman.recipes.lab import gate_values
from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.gate_values import GATE_VALUES


def verdicts() -> dict[str, str]:
    return {one.claim.name: one.verdict for one in run_experiments([GATE_VALUES]).findings}


@pytest.mark.parametrize("at", [-2.0, -0.3, 0.0, 1.7])
def test_a_slope_is_what_finite_differences_find(at: float) -> None:
    slope = (math.tanh(at + 1e-6) - math.tanh(at - 1e-6)) / 2e-6
    assert gate_values._slopes([at])[0] == pytest.approx(slope, rel=1e-8)


@pytest.mark.parametrize("bias", [-1.0, 0.0, 3.0])
def test_what_is_kept_is_a_power_of_the_gate(bias: float) -> None:
    gate, kept = gate_values._forgetting(bias)
    assert gate == pytest.approx(1 / (1 + math.exp(-bias)), rel=1e-14)
    assert kept == pytest.approx([gate**steps for steps in range(1, 41)], rel=1e-12)


def test_gates_put_to_the_wrong_use_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def combine(self: LSTMCell, gates: Mapping[str, Tensor], state: CellState) -> LSTMState:
        c_BH = gates["input"] * state[1] + gates["forget"] * gates["candidate"]
        return LSTMState(gates["output"] * torch.tanh(c_BH), c_BH)

    monkeypatch.setattr(LSTMCell, "combine", combine)
    found = verdicts()
    assert [name for name in found if found[name] == "differs"] == ["002-27", "002-34"]


def test_a_bias_that_counts_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = LSTMCell.initialise

    def initialise(self: LSTMCell, generator: torch.Generator) -> None:
        true(self, generator)
        with torch.no_grad():
            assert self.bias_hh is not None
            self.bias_hh[self.hidden_size : 2 * self.hidden_size] = self.forget_bias

    monkeypatch.setattr(LSTMCell, "initialise", initialise)
    assert verdicts()["002-28"] == "differs"


def test_another_function_than_tanh_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def combine(self: ElmanCell, gates: Mapping[str, Tensor], state: CellState) -> ElmanState:
        return ElmanState(torch.sigmoid(gates["preactivation"]))

    monkeypatch.setattr(ElmanCell, "combine", combine)
    assert verdicts()["002-20"] == "differs"
