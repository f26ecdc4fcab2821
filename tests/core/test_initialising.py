"""How cells begin: the rule of each scheme, from the generator alone."""

import math

import pytest
import torch

from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.registry import CELLS, build_cell
from elman.config.model_settings import ModelSettings

SCHEMES = ("uniform", "xavier", "orthogonal", "identity")


def begun(key: str, scheme, seed: int = 3):
    cell = CELLS[key](6, 8)
    cell.initialise(torch.Generator().manual_seed(seed), scheme)
    return cell


@pytest.mark.parametrize("key", CELLS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_cell_begins_from_its_generator_alone(key: str, scheme) -> None:
    first, again, other = begun(key, scheme), begun(key, scheme), begun(key, scheme, seed=4)
    for left, right in zip(first.weights, again.weights, strict=True):
        assert torch.equal(left, right)
    assert not torch.equal(first.weight_ih, other.weight_ih)
    assert all(weight.isfinite().all() for weight in first.weights)


@pytest.mark.parametrize("key", [key for key in CELLS if CELLS[key](2, 2).is_recurrent])
def test_recurrent_blocks_are_orthogonal_or_the_identity(key: str) -> None:
    for scheme in ("orthogonal", "identity"):
        cell = begun(key, scheme)
        for block in cell.weight_hh.split(cell.hidden_size):
            if scheme == "identity":
                assert torch.equal(block, torch.eye(*block.shape))
            else:
                torch.testing.assert_close(block.T @ block, torch.eye(block.shape[1]))


def test_xavier_draws_within_its_bound_and_fills_it() -> None:
    cell = CELLS["gru/after/keep"](30, 50)
    cell.initialise(torch.Generator().manual_seed(3), "xavier")
    for block in cell.weight_ih.split(50):
        bound = math.sqrt(6 / 80)
        assert block.abs().max() <= bound
        assert block.abs().max() > 0.99 * bound
    assert cell.bias_ih is not None
    assert cell.bias_ih.eq(0).all()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("coupled", [False, True])
def test_the_forget_bias_is_a_sum_in_every_scheme(scheme, coupled: bool) -> None:
    cell = LSTMCell(3, 4, forget_bias=2.5, options=LSTMOptions(coupled=coupled, layer_norm=True))
    cell.initialise(torch.Generator().manual_seed(3), scheme)
    assert cell.bias_ih is not None
    assert cell.bias_hh is not None
    forget = slice(0, 4) if coupled else slice(4, 8)
    assert (cell.bias_ih + cell.bias_hh)[forget].tolist() == [2.5] * 4
    assert cell.gain_ih.eq(1).all()
    assert cell.shift_c.eq(0).all()


def test_each_layer_has_its_own_forget_bias() -> None:
    settings = ModelSettings(hidden_size=4, num_layers=2, forget_biases=(1.0, -2.0))
    for layer, want in enumerate((1.0, -2.0)):
        cell = build_cell(settings, 4, layer)
        cell.initialise(torch.Generator().manual_seed(3))
        assert cell.bias_ih is not None
        assert cell.bias_ih[4:8].tolist() == [want] * 4


@pytest.mark.parametrize("key", CELLS)
def test_the_formula_counts_the_parameters(key: str) -> None:
    for sizes in ((1, 1), (3, 5), (16, 32)):
        cell = CELLS[key](*sizes)
        assert cell.parameter_count() == sum(weight.numel() for weight in cell.weights)
