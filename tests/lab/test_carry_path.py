"""The three terms beside NumPy's; an update gate that points the other way is noticed."""

import numpy as np
import pytest
from planted_faults import verdicts

from elman.cells.cell import CellState
from elman.cells.gru import GRUCell, GRUState
from elman.recipes.lab import carry_path
from elman.recipes.lab.carry_path import CARRY_PATH


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_terms_are_those_of_the_product_rule(seed: int) -> None:
    print(f"seed {seed}")
    import torch

    from elman.seeding import generator

    cell = GRUCell(3, 4, reset="before", update="replace").double()
    cell.initialise(generator(seed, "initialisation"))
    draw = generator(seed, "sampling")
    x = torch.randn(1, 3, generator=draw, dtype=torch.float64)[0].numpy()
    h = (torch.rand(1, 4, generator=draw, dtype=torch.float64) * 2.0 - 1.0)[0].numpy()
    w, u = cell.weight_ih.detach().numpy(), cell.weight_hh.detach().numpy()
    b = (cell.bias_ih + cell.bias_hh).detach().numpy()
    r, z = (1 / (1 + np.exp(-(w @ x + u @ h + b)[rows])) for rows in (slice(0, 4), slice(4, 8)))
    n = np.tanh((w @ x + b)[8:] + u[8:] @ (r * h))
    dz = np.diag(z * (1 - z)) @ u[4:8]
    dr = np.diag(r * (1 - r)) @ u[:4]
    dn = np.diag(1 - n**2) @ u[8:] @ (np.diag(r) + np.diag(h) @ dr)
    carry, gate, candidate, whole = (term.numpy() for term in carry_path._terms(seed))
    np.testing.assert_allclose(carry, np.diag(1 - z), atol=1e-12)
    np.testing.assert_allclose(gate, np.diag(n - h) @ dz, atol=1e-12)
    np.testing.assert_allclose(candidate, np.diag(z) @ dn, atol=1e-12)
    np.testing.assert_allclose(whole, np.diag(1 - z) + np.diag(n - h) @ dz + np.diag(z) @ dn)


def test_curves_start_at_one_and_multiply() -> None:
    curve = carry_path._carried(carry_path._gated(0.25), 3)
    assert curve == pytest.approx([1.0, 0.75, 0.5625, 0.421875])


def test_a_gate_that_points_the_other_way_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(self: GRUCell, gates: dict, state: CellState) -> GRUState:  # type: ignore[type-arg]
        z_BH, n_BH = gates["update"], gates["candidate"]
        return GRUState(n_BH + z_BH * (state[0] - n_BH))

    monkeypatch.setattr(GRUCell, "combine", turned)
    found = verdicts(CARRY_PATH)
    assert found["000-12"] == found["000-13"] == "differs"
