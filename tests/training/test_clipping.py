import math

import pytest
import torch
from torch import nn

from elman.training.clipping import measure_gradients


def parameter(gradient: torch.Tensor) -> nn.Parameter:
    made = nn.Parameter(torch.ones_like(gradient))
    made.grad = gradient
    return made


def gradient_of(made: nn.Parameter) -> torch.Tensor:
    assert made.grad is not None
    return made.grad


def test_a_long_gradient_is_scaled_to_the_largest_norm_over_all_parameters() -> None:
    left = parameter(torch.tensor([3.0, 0.0]).double())
    right = parameter(torch.tensor([[0.0], [4.0]]).double())
    assert measure_gradients([left, right], 1.0) == (5.0, True, 0.2)
    assert gradient_of(left).tolist() == [3.0, 0.0]  # what scales them is the step
    assert gradient_of(right).flatten().tolist() == [0.0, 4.0]


@pytest.mark.parametrize("max_norm", [0.0, 5.0, 6.0])
def test_a_short_gradient_or_no_limit_changes_nothing(max_norm: float) -> None:
    made = parameter(torch.tensor([3.0, -4.0]))
    assert measure_gradients([made], max_norm) == (5.0, True, 1.0)


def test_a_norm_beyond_float32_is_told_and_nothing_is_scaled() -> None:
    made = parameter(torch.full((100,), 1e20))
    norm, finite, factor = measure_gradients([made], 1.0)
    assert not finite
    assert factor == 1.0
    assert norm > 1e18
    assert torch.equal(gradient_of(made), torch.full((100,), 1e20))


def test_a_single_large_gradient_whose_square_overflows_is_not_finite_either() -> None:
    assert not measure_gradients([parameter(torch.tensor([1e20]))], 1.0).finite
    assert measure_gradients([parameter(torch.tensor([1e18]))], 0.0).finite
    assert measure_gradients([parameter(torch.tensor([1e20]).double())], 0.0).finite


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_one_bad_number_makes_the_gradient_not_finite(bad: float) -> None:
    good = parameter(torch.ones(3))
    broken = parameter(torch.tensor([1.0, bad, 1.0]))
    assert not measure_gradients([good, broken], 1.0).finite
    assert gradient_of(good).tolist() == [1.0, 1.0, 1.0]


def test_parameters_without_a_gradient_count_nothing() -> None:
    assert measure_gradients([nn.Parameter(torch.ones(2))], 1.0) == (0.0, True, 1.0)


def test_rows_of_a_matrix_met_twice_count_as_their_sum() -> None:
    made = nn.Parameter(torch.zeros(4, 2))
    rows = torch.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    made.grad = torch.sparse_coo_tensor(
        torch.tensor([[1, 3, 3]]), rows, (4, 2), check_invariants=True
    )
    assert measure_gradients([made], 1.0) == (5.0, True, 0.2)
    assert gradient_of(made).to_dense().tolist() == [[0, 0], [3, 0], [0, 0], [0, 4]]
