"""The reach of gradients is that of NumPy and finite differences, and red where a gate is wrong."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from elman.cells.cell import CellState
from elman.cells.lstm import LSTMCell, LSTMState
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab import gradient_reach
from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.gradient_reach import GRADIENT_REACH
from elman.recipes.lab.over_seeds import over_seeds
from elman.seeding import generator


def test_the_reach_in_a_plain_network_is_a_product_of_matrices_and_slopes() -> None:
    seed = 3
    cell = gradient_reach._cell("rnn").double()
    cell.initialise(generator(seed, "initialisation"))
    x_TE = torch.randn(1, 60, 16, generator=generator(seed, "sampling"), dtype=torch.float64)
    W_ih, W_hh, b_ih, b_hh = (weight.detach().numpy() for weight in cell.parameters())
    h, states = np.zeros(32), []
    for x in x_TE[0].numpy():
        h = np.tanh(W_ih @ x + b_ih + W_hh @ h + b_hh)
        states.append(h)
    back, expected = np.ones(32), []
    for h in reversed(states):
        back = back * (1.0 - h * h)
        expected.append(np.linalg.norm(W_ih.T @ back))
        back = W_hh.T @ back
    np.testing.assert_allclose(gradient_reach._reach("rnn", seed), expected, rtol=1e-9)


@pytest.mark.parametrize("back", [0, 30, 59])
def test_the_reach_in_an_open_lstm_is_what_finite_differences_find(back: int) -> None:
    seed, size = 2, 1e-5
    cell = gradient_reach._cell("open").double()
    cell.initialise(generator(seed, "initialisation"))
    x_1TE = torch.randn(1, 60, 16, generator=generator(seed, "sampling"), dtype=torch.float64)
    moved_BTE = x_1TE.repeat(32, 1, 1)
    for place in range(16):
        moved_BTE[2 * place, 59 - back, place] += size
        moved_BTE[2 * place + 1, 59 - back, place] -= size
    with torch.no_grad():
        states_BTH, _ = recur(cell, moved_BTE, None, None, plan=KernelPlan("reference"))
    sums_B = states_BTH[:, -1].sum(dim=1)
    slopes = (sums_B[0::2] - sums_B[1::2]) / (2 * size)
    found = gradient_reach._reach("open", seed)[back]
    assert found == pytest.approx(slopes.norm().item(), rel=1e-6)


def test_a_random_matrix_of_a_third_over_its_width_bounds_what_a_plain_network_keeps() -> None:
    # E ‖Wᵏ v‖² = 3⁻ᵏ ‖v‖² for fresh matrices: the bound that the expectations stand on.
    draw = np.random.default_rng(1)
    squares = []
    for _ in range(2000):
        v = np.ones(32) / np.sqrt(32)
        for _ in range(5):
            v = draw.uniform(-1, 1, (32, 32)) / np.sqrt(32) @ v
        squares.append(v @ v)
    assert np.mean(squares) == pytest.approx(3.0**-5, rel=0.1)


def test_the_interval_is_that_of_student() -> None:
    values = [1.0, 2.0, 4.0]
    mean, half = over_seeds(values)
    assert mean == pytest.approx(7 / 3)
    assert half == pytest.approx(4.3027 * np.std(values, ddof=1) / np.sqrt(3))
    with pytest.raises(KeyError):
        over_seeds([1.0, 2.0])


def test_a_forget_gate_that_keeps_half_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def combine(self: LSTMCell, gates: Mapping[str, torch.Tensor], state: CellState) -> LSTMState:
        c_BH = 0.5 * gates["forget"] * state[1] + gates["input"] * gates["candidate"]
        return LSTMState(gates["output"] * torch.tanh(c_BH), c_BH)

    monkeypatch.setattr(LSTMCell, "combine", combine)
    found = {one.claim.name: one.verdict for one in run_experiments([GRADIENT_REACH]).findings}
    assert found["002-42"] == "differs"
    assert found["002-16"] == "holds"  # the plain network has no such gate
