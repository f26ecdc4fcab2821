"""The worked LSTM steps: gates against NumPy, and faults in the cell that turn their claims."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from elman.cells.lstm import LSTMCell, LSTMState
from elman.recipes.lab import gated_steps
from elman.recipes.lab.checking import run_experiments


def verdicts() -> dict[str, str]:
    report = run_experiments([gated_steps.GATED_STEPS])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_the_gates_that_the_forms_are_compared_on_are_those_of_numpy() -> None:
    for seed in range(1, 4):
        cell, x_BE, state = gated_steps._drawn(seed)
        weights = [np.split(weight.detach().numpy(), 4) for weight in cell.weights]
        for place, name in ((0, "input"), (1, "forget"), (3, "output")):
            w, u, b = (parts[place] for parts in weights)
            a_BH = x_BE.numpy() @ w.T + state.h_BH.numpy() @ u.T + b
            found = cell.gates(x_BE, state)[name].detach().numpy()
            np.testing.assert_allclose(
                found, 1 / (1 + np.exp(-a_BH)), atol=1e-12, err_msg=f"{seed}"
            )


def test_gates_that_are_swapped_turn_the_worked_coordinate_and_the_memory_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swapped(self: LSTMCell, gates: Mapping[str, Tensor], state: LSTMState) -> LSTMState:
        c_BH = gates["input"] * state.c_BH + gates["forget"] * gates["candidate"]
        return LSTMState(gates["output"] * torch.tanh(c_BH), c_BH)

    monkeypatch.setattr(LSTMCell, "combine", swapped)
    found = verdicts()
    assert [found[name] for name in ("001-19", "001-20", "001-32")] == ["differs"] * 3
    assert found["001-22"] == "holds"


def test_a_memory_shown_without_its_tanh_turns_both_hidden_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bare(self: LSTMCell, gates: Mapping[str, Tensor], state: LSTMState) -> LSTMState:
        c_BH = gates["forget"] * state.c_BH + gates["input"] * gates["candidate"]
        return LSTMState(gates["output"] * c_BH, c_BH)

    monkeypatch.setattr(LSTMCell, "combine", bare)
    found = verdicts()
    assert [found[name] for name in ("001-20", "001-25")] == ["differs"] * 2
    assert found["001-19"] == "holds"
