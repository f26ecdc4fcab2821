"""Matrices written down by others: one over [h; x] or two, acting on columns or on rows."""

import pytest
import torch

from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.registry import CELLS
from elman.cells.supplied import joined_matrix, split_matrix, supply
from elman.errors import SettingError, ShapeError


@pytest.mark.parametrize("order", ["hx", "xh"])
@pytest.mark.parametrize("acts_on", ["columns", "rows"])
@pytest.mark.parametrize("key", ["elman/tanh", "gru/before/keep", "gru/after/keep", "lstm", "mgu"])
def test_split_and_joined_matrices_give_the_same_step(key: str, order, acts_on) -> None:
    seed = 7
    generator = torch.Generator().manual_seed(seed)
    cell = CELLS[key](3, 4).double()
    cell.initialise(generator)
    joined = joined_matrix(cell, order=order, acts_on=acts_on)
    weight_ih, weight_hh = split_matrix(joined, 4, order=order, acts_on=acts_on)
    twin = CELLS[key](3, 4).double()
    biases = {name: p for name, p in cell.named_parameters() if p.ndim == 1}
    supply(twin, {"weight_ih": weight_ih, "weight_hh": weight_hh, **biases}, acts_on="columns")
    x_BE = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    state = cell.pack_state(
        [torch.randn(5, 4, generator=generator, dtype=torch.float64) for _ in cell.state_names]
    )
    for got, want in zip(twin.step(x_BE, state), cell.step(x_BE, state), strict=True):
        assert torch.equal(got, want), f"seed {seed}"


def test_one_product_over_the_joined_vector_is_the_sum_of_two() -> None:
    seed = 8
    generator = torch.Generator().manual_seed(seed)
    cell = ElmanCell(3, 4).double()
    cell.initialise(generator)
    x_E = torch.randn(3, generator=generator, dtype=torch.float64)
    h_H = torch.randn(4, generator=generator, dtype=torch.float64)
    whole = joined_matrix(cell, order="hx", acts_on="columns") @ torch.cat([h_H, x_E])
    torch.testing.assert_close(whole, cell.weight_hh @ h_H + cell.weight_ih @ x_E)
    turned = torch.cat([x_E, h_H]) @ joined_matrix(cell, order="xh", acts_on="rows")
    torch.testing.assert_close(turned, whole)


def test_a_square_matrix_acts_as_it_is_said_to() -> None:
    square = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for acts_on, want in (("columns", square), ("rows", square.T)):
        cell = ElmanCell(2, 2)
        supply(cell, {"weight_ih": square, "weight_hh": square}, acts_on=acts_on)
        assert torch.equal(cell.weight_ih, want)
        assert cell.bias_ih is not None
        assert cell.bias_ih.eq(0).all()


def test_a_matrix_that_does_not_fit_the_way_it_acts_is_refused() -> None:
    cell = GRUCell(2, 3)
    with pytest.raises(ShapeError, match="weight_ih \\(rows\\)"):
        supply(
            cell, {"weight_ih": torch.zeros(9, 2), "weight_hh": torch.zeros(9, 3)}, acts_on="rows"
        )
    with pytest.raises(SettingError, match="got kernel, no weight_hh, no weight_ih"):
        supply(cell, {"kernel": torch.zeros(2, 9)}, acts_on="rows")
    with pytest.raises(SettingError, match="wider than the state"):
        split_matrix(torch.zeros(9, 3), 3, order="hx", acts_on="columns")
