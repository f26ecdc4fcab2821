from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from elman.config.training_settings import TrainingSettings
from elman.training.optimisers import (
    apply_gradients,
    build_optimiser,
    decay_of_weights,
    peak_rate,
    set_rate,
    takes_rows,
)

Array = npt.NDArray[np.float64]


class Two(nn.Module):
    """A matrix and a bias in float64."""

    def __init__(self, matrix: Array, bias: Array) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor(matrix))
        self.bias = nn.Parameter(torch.tensor(bias))


def sgd(settings: TrainingSettings, weight: Array, gradients: list[Array], decay: float) -> Array:
    velocity = np.zeros_like(weight)
    for gradient in gradients:
        velocity = settings.momentum * velocity + gradient + decay * weight
        weight = weight - settings.learning_rate * velocity
    return weight


def adam(settings: TrainingSettings, weight: Array, gradients: list[Array], decay: float) -> Array:
    mean, square = np.zeros_like(weight), np.zeros_like(weight)
    apart = settings.optimizer == "adamw"
    for number, gradient in enumerate(gradients, start=1):
        if apart:
            weight = weight - settings.learning_rate * decay * weight
        else:
            gradient = gradient + decay * weight
        mean = settings.beta1 * mean + (1 - settings.beta1) * gradient
        square = settings.beta2 * square + (1 - settings.beta2) * gradient**2
        mean_hat = mean / (1 - settings.beta1**number)
        square_hat = square / (1 - settings.beta2**number)
        weight = weight - settings.learning_rate * mean_hat / (np.sqrt(square_hat) + 1e-8)
    return weight


CASES = [
    (TrainingSettings(optimizer="sgd", learning_rate=20.0), sgd, 0.0),
    (TrainingSettings(optimizer="sgd", learning_rate=0.5, momentum=0.9), sgd, 0.0),
    (TrainingSettings(optimizer="sgd", learning_rate=0.5, weight_decay=0.25), sgd, 0.25),
    (TrainingSettings(optimizer="adam", learning_rate=0.01), adam, 0.0),
    (TrainingSettings(optimizer="adam", learning_rate=0.01, weight_decay=0.5), adam, 0.5),
    (TrainingSettings(optimizer="adamw", learning_rate=0.01), adam, 0.01),
    (TrainingSettings(optimizer="adamw", learning_rate=0.01, weight_decay=0.0), adam, 0.0),
]


@pytest.mark.parametrize(("settings", "rule", "decay"), CASES)
def test_five_steps_equal_the_written_equations_in_float64(
    settings: TrainingSettings, rule: Callable[..., Array], decay: float
) -> None:
    draw = np.random.default_rng(9)
    matrix, bias = draw.normal(size=(5, 3)), draw.normal(size=5)
    matrix_gradients = [draw.normal(size=(5, 3)) for _ in range(5)]
    bias_gradients = [draw.normal(size=5) for _ in range(5)]
    module = Two(matrix, bias)
    optimiser = build_optimiser(module, settings)
    set_rate(optimiser, settings.learning_rate)
    for on_matrix, on_bias in zip(matrix_gradients, bias_gradients, strict=True):
        module.matrix.grad, module.bias.grad = torch.tensor(on_matrix), torch.tensor(on_bias)
        optimiser.step()
    expected_matrix = rule(settings, matrix, matrix_gradients, decay)
    expected_bias = rule(settings, bias, bias_gradients, 0.0)
    # Ten roundings an element in float64, over values up to a few hundred.
    np.testing.assert_allclose(module.matrix.data.numpy(), expected_matrix, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(module.bias.data.numpy(), expected_bias, rtol=1e-11, atol=1e-11)


def test_defaults_depend_on_the_optimiser() -> None:
    found = {
        name: (
            peak_rate(TrainingSettings(optimizer=name)),
            decay_of_weights(TrainingSettings(optimizer=name)),
        )
        for name in ("sgd", "adam", "adamw")
    }
    assert found == {"sgd": (1.0, 0.0), "adam": (3e-3, 0.0), "adamw": (3e-3, 0.01)}


def test_a_rate_and_a_decay_that_are_set_are_used() -> None:
    settings = TrainingSettings(optimizer="adamw", learning_rate=20.0, weight_decay=0.0)
    assert (peak_rate(settings), decay_of_weights(settings)) == (20.0, 0.0)


@pytest.mark.parametrize("settings", [case[0] for case in CASES])
def test_a_factor_is_the_same_as_gradients_scaled_before(settings: TrainingSettings) -> None:
    draw = np.random.default_rng(10)
    start = draw.normal(size=(5, 3)), draw.normal(size=5)
    gradients = [(draw.normal(size=(5, 3)), draw.normal(size=5)) for _ in range(3)]
    ends = []
    for before in (False, True):
        module = Two(*start)
        optimiser = build_optimiser(module, settings)
        for on_matrix, on_bias in gradients:
            scale = 0.3 if before else 1.0
            module.matrix.grad = torch.tensor(on_matrix) * scale
            module.bias.grad = torch.tensor(on_bias) * scale
            apply_gradients(optimiser, 1.0 if before else 0.3)
        ends.append([module.matrix.data, module.bias.data])
    for left, right in zip(*ends, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


def test_sgd_takes_the_rows_of_a_gradient_and_leaves_all_others_alone() -> None:
    settings = TrainingSettings(optimizer="sgd", learning_rate=0.5)
    module = Two(np.ones((4, 2)), np.ones(4))
    optimiser = build_optimiser(module, settings)
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    places = torch.tensor([[2, 0, 2]])
    module.matrix.grad = torch.sparse_coo_tensor(places, rows, (4, 2), check_invariants=True)
    apply_gradients(optimiser, 0.5)
    want = [[1 - 0.75, 1 - 1.0], [1.0, 1.0], [1 - 1.5, 1 - 2.0], [1.0, 1.0]]
    assert module.matrix.tolist() == want


def test_rows_are_for_descent_without_memory_and_without_decay() -> None:
    found = {
        name: takes_rows(settings)
        for name, settings in {
            "sgd": TrainingSettings(optimizer="sgd"),
            "momentum": TrainingSettings(optimizer="sgd", momentum=0.9),
            "decay": TrainingSettings(optimizer="sgd", weight_decay=0.1),
            "adamw": TrainingSettings(optimizer="adamw"),
        }.items()
    }
    assert found == {"sgd": True, "momentum": False, "decay": False, "adamw": False}
