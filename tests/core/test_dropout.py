"""Dropout is a function of its generator alone."""

import math

import pytest
import torch

from elman.errors import SettingError
from elman.layers.dropout import drop


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_a_generator_or_a_probability_the_very_input_returns() -> None:
    x_BTE = torch.ones(2, 3, 4)
    assert drop(x_BTE, 0.5, None) is x_BTE
    assert drop(x_BTE, 0.0, generator()) is x_BTE


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("kind", ["ordinary", "locked"])
def test_kept_share_and_scale_are_those_of_p(p, kind) -> None:
    shape = (100, 2, 1000) if kind == "ordinary" else (200, 2, 1000)
    y_BTE = drop(torch.ones(shape), p, generator(), kind=kind)
    drawn_BTE = y_BTE if kind == "ordinary" else y_BTE[:, :1]
    draws = drawn_BTE.numel()
    assert draws == 200_000
    kept = (drawn_BTE != 0).double().mean().item()
    assert abs(kept - (1 - p)) < 5 * math.sqrt(p * (1 - p) / draws)  # five standard deviations
    scale = y_BTE.max().item()
    assert y_BTE.unique().tolist() == [0.0, scale]
    assert abs(scale - 1 / (1 - p)) < 1e-4 / (1 - p)  # p is rounded to a multiple of 2^-16


def test_locked_masks_are_the_same_at_all_steps_and_ordinary_ones_are_not() -> None:
    x_BTE = torch.ones(3, 5, 64)
    locked_BTE = drop(x_BTE, 0.5, generator(), kind="locked")
    assert torch.equal(locked_BTE, locked_BTE[:, :1].expand_as(locked_BTE))
    assert not torch.equal(locked_BTE[0], locked_BTE[1])
    ordinary_BTE = drop(x_BTE, 0.5, generator(), kind="ordinary")
    assert not torch.equal(ordinary_BTE[:, 0], ordinary_BTE[:, 1])


def test_mask_follows_the_generator_whatever_the_threads_and_the_global_seed() -> None:
    x_BTE = torch.ones(33, 17, 129)
    threads = torch.get_num_threads()
    before = torch.get_rng_state()
    try:
        results = []
        for number in (1, 2, 5):
            torch.set_num_threads(number)
            results.append(drop(x_BTE, 0.3, generator()))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    assert torch.equal(before, torch.get_rng_state())
    moving = generator()
    assert not torch.equal(drop(x_BTE, 0.3, moving), drop(x_BTE, 0.3, moving))


def test_gradient_passes_where_values_do() -> None:
    x_BTE = torch.ones(2, 3, 50, requires_grad=True)
    y_BTE = drop(x_BTE, 0.4, generator())
    (grad_BTE,) = torch.autograd.grad(y_BTE.sum(), x_BTE)
    assert torch.equal(grad_BTE, y_BTE)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_any_number_of_elements_can_be_drawn(width: int) -> None:
    assert drop(torch.ones(1, 1, width), 0.5, generator()).shape == (1, 1, width)


def test_smallest_and_largest_probabilities_stay_finite() -> None:
    x_BTE = torch.ones(1, 1, 1000)
    assert drop(x_BTE, 1e-9, generator()).isfinite().all()
    assert drop(x_BTE, 1 - 1e-9, generator()).isfinite().all()


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, math.nan])
def test_impossible_probabilities_are_refused(p: float) -> None:
    with pytest.raises(SettingError, match="at least 0 and below 1"):
        drop(torch.ones(1, 1, 1), p, generator())
