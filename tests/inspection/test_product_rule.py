"""The terms of a step's derivative against closed forms, finite differences and their sum."""

import pytest
import torch
from chance_cells import INPUTS, random_cell, random_state

from elman.cells.cell import Cell
from elman.inspection.product_rule import carried_share, step_derivative


def parts_of(cell: Cell):
    drawn = torch.Generator().manual_seed(12)
    x_E = torch.randn(INPUTS, generator=drawn).double()
    return x_E, random_state(cell, 1)


def test_the_terms_add_up_to_the_derivative_of_the_step(cell: Cell) -> None:
    found = step_derivative(cell, *parts_of(cell))
    total = found.carry_PP + sum(found.by_gate.values())
    assert tuple(found.by_gate) == cell.gate_names
    torch.testing.assert_close(total, found.full_PP, rtol=1e-10, atol=1e-12)


def test_the_full_derivative_is_that_of_finite_differences(cell: Cell) -> None:
    x_E, state = parts_of(cell)
    flat = torch.cat([part[0] for part in state])

    def after(flat_P: torch.Tensor) -> torch.Tensor:
        pieces = [piece[None] for piece in torch.split(flat_P, list(cell.state_sizes))]
        with torch.no_grad():
            return torch.cat([part[0] for part in cell.step(x_E[None], cell.pack_state(pieces))])

    step = 1e-6
    columns = [
        (after(flat + step * unit) - after(flat - step * unit)) / (2 * step)
        for unit in torch.eye(len(flat)).double()
    ]
    want = torch.stack(columns, dim=1)
    found = step_derivative(cell, x_E, state).full_PP
    torch.testing.assert_close(found, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("update", ["keep", "replace"])
def test_the_carry_of_a_gru_is_its_update_gate(update: str) -> None:
    cell = random_cell(f"gru/after/{update}")
    x_E, state = parts_of(cell)
    z_H = cell.gates(x_E[None], state)["update"][0]
    want = z_H if update == "keep" else 1 - z_H
    found = step_derivative(cell, x_E, state)
    torch.testing.assert_close(found.carry_PP, torch.diag(want), rtol=1e-12, atol=1e-15)
    assert (found.by_gate["reset"] == 0).all()  # it acts within the candidate


def test_the_carry_of_an_lstm_is_its_forget_gate() -> None:
    cell = random_cell("lstm")
    x_E, state = parts_of(cell)
    f_H = cell.gates(x_E[None], state)["forget"][0]
    units = cell.hidden_size
    found = step_derivative(cell, x_E, state)
    memory = found.carry_PP[units:, units:]
    torch.testing.assert_close(memory, torch.diag(f_H), rtol=1e-12, atol=1e-15)
    assert (found.carry_PP[:, :units] == 0).all()  # h is seen by the gates alone


def test_an_elman_cell_carries_nothing_and_its_derivative_is_the_closed_form() -> None:
    cell = random_cell("elman/tanh")
    x_E, state = parts_of(cell)
    h_H = cell.step(x_E[None], state)[0][0]
    found = step_derivative(cell, x_E, state)
    assert (found.carry_PP == 0).all()
    want = torch.diag(1 - h_H**2) @ cell.weight_hh
    torch.testing.assert_close(found.full_PP, want, rtol=1e-12, atol=1e-14)


def test_the_carried_share_is_the_diagonal_of_the_carry(cell: Cell) -> None:
    x_E, state = parts_of(cell)
    gates = cell.gates(x_E[None], state)
    share_BH = carried_share(cell, gates, state)
    size = state[-1].shape[1]
    memory = step_derivative(cell, x_E, state).carry_PP[-size:, -size:]
    torch.testing.assert_close(share_BH[0], memory.diagonal(), rtol=1e-12, atol=1e-15)
