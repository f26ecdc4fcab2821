"""Order, and the loop by hand: as NumPy has them, and red where order enters or is lost."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import CellState
from elman.cells.elman import ElmanCell
from elman.layers import pooling
from elman.recipes.lab import loop_by_hand, word_order
from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.loop_by_hand import LOOP_BY_HAND
from elman.recipes.lab.word_order import WORD_ORDER


def differing(experiment: Experiment) -> list[str]:
    findings = run_experiments([experiment]).findings
    return [one.claim.name for one in findings if one.verdict == "differs"]


def test_the_states_are_those_of_numpy() -> None:
    cell, x_1TE = loop_by_hand._cell(4), loop_by_hand._inputs(4)
    W_ih, W_hh, b_ih, b_hh = (weight.detach().numpy() for weight in cell.parameters())
    h = np.zeros(3)
    for x, state in zip(x_1TE[0].numpy(), loop_by_hand._by_hand(cell, x_1TE), strict=True):
        h = np.tanh(W_ih @ x + b_ih + W_hh @ h + b_hh)
        np.testing.assert_allclose(state.detach().numpy()[0], h, atol=1e-14)


def test_a_cell_that_forgets_its_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def gates(
        self: ElmanCell, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        nothing_BH = self.weight_hh.sum() * 0.0  # keeps the graph, so that slopes are 0
        return {"preactivation": linear(x_BE, self.weight_ih, self.bias_ih) + nothing_BH}

    monkeypatch.setattr(ElmanCell, "gates", gates)
    assert differing(LOOP_BY_HAND) == ["002-04", "002-05", "002-07"]


def test_an_average_that_knows_of_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def weighted(states_BTH: Tensor, lengths_B: Tensor) -> Tensor:
        steps_T1 = torch.arange(1, states_BTH.shape[1] + 1, dtype=states_BTH.dtype).unsqueeze(1)
        return (states_BTH * steps_T1).sum(dim=1) / steps_T1.sum()

    monkeypatch.setattr(pooling, "mean_states", weighted)
    assert differing(WORD_ORDER) == ["002-01", "002-44"]


def test_a_final_state_that_is_an_average_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def averaged(x_BTE: Tensor) -> Tensor:
        return x_BTE.mean(dim=1, keepdim=True).expand(-1, x_BTE.shape[1], -1)

    true = word_order.recur
    monkeypatch.setattr(
        word_order,
        "recur",
        lambda cell, x_BTE, *rest, plan: true(cell, averaged(x_BTE), *rest, plan=plan),
    )
    assert differing(WORD_ORDER) == ["002-10"]


def test_torchs_own_random_numbers_are_left_alone() -> None:
    before = torch.random.get_rng_state()
    list(LOOP_BY_HAND.run())
    assert torch.equal(torch.random.get_rng_state(), before)
