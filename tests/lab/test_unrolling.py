"""Unrolling: gradients against copies of the weights and finite differences, graphs by hand."""

import numpy as np
import pytest
import torch

from elman.cells.elman import ElmanCell, ElmanState
from elman.recipes.lab import checking, unrolling


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([unrolling.UNROLLING])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_each_token_more_keeps_what_a_count_by_hand_says() -> None:
    # Its id, its vector, the state after it, and the gradient of the loss by that state.
    model, width = unrolling._model("elman"), unrolling._UNITS
    more = unrolling._numbers_kept(model, 60) - unrolling._numbers_kept(model, 50)
    assert more == 10 * (1 + width + width + width)


def test_the_longest_chain_of_a_graph_is_the_longest_and_not_the_number_of_nodes() -> None:
    x = torch.ones((), requires_grad=True)
    y = x.tanh().tanh().tanh() * x.tanh()
    assert unrolling._longest_chain(y.grad_fn, "TanhBackward0") == 3


def test_the_jacobian_of_all_steps_is_that_of_finite_differences() -> None:
    cell, x_BTE, state = unrolling._cell()
    w, u = (weight.numpy(force=True) for weight in (cell.weight_hh, cell.weight_ih))
    bias = (cell.bias_ih + cell.bias_hh).numpy(force=True)
    inputs = x_BTE[0].numpy()

    def run(h: np.ndarray) -> np.ndarray:
        for x in inputs:
            h = np.tanh(w @ h + u @ x + bias)
        return h

    begun, size = state[0][0].numpy(), 1e-6
    found = np.stack(
        [(run(begun + size * e) - run(begun - size * e)) / (2 * size) for e in np.eye(len(begun))],
        axis=1,
    )
    product, h = np.eye(len(begun)), torch.from_numpy(begun)
    for x_E in x_BTE[0]:
        product = unrolling._step_jacobian(cell, x_E, h).numpy() @ product
        h = torch.from_numpy(np.tanh(w @ h.numpy() + u @ x_E.numpy() + bias))
    np.testing.assert_allclose(product, found, rtol=1e-4, atol=1e-10)


def test_a_steeper_tanh_in_the_cell_turns_the_factors_red(monkeypatch: pytest.MonkeyPatch) -> None:
    def combine(self, gates, state):  # type: ignore[no-untyped-def]
        return ElmanState(torch.tanh(1.1 * gates["preactivation"]))

    assert set(verdicts().values()) == {"holds"}
    monkeypatch.setattr(ElmanCell, "combine", combine)
    assert verdicts()["004-07"] == "differs"
