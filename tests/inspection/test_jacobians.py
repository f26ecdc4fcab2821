"""Norms of products against closed forms, and against the products themselves."""

import math

import pytest
import torch
from chance_cells import random_model

from elman.inspection.jacobians import (
    local_jacobians,
    lyapunov_spectrum,
    product_norms,
    singular_values,
)
from elman.inspection.recording import record


def test_equal_diagonal_factors_have_powers_for_norms() -> None:
    factor = torch.diag(torch.tensor([0.9, 0.5, -0.2], dtype=torch.float64))
    found = product_norms([factor] * 50)
    want = torch.arange(1, 51).double() * math.log(0.9)
    torch.testing.assert_close(found.of_product_K, want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.of_bound_K, want, rtol=1e-12, atol=1e-12)
    exponents = torch.log(torch.tensor([0.9, 0.5, 0.2], dtype=torch.float64))
    torch.testing.assert_close(lyapunov_spectrum([factor] * 50), exponents, rtol=1e-12, atol=0)


def test_the_product_of_norms_is_only_a_bound() -> None:
    shear = torch.tensor([[0.9, 1.0], [0.0, 0.9]], dtype=torch.float64)
    found = product_norms([shear] * 100)
    assert singular_values(shear)[0].item() == pytest.approx(1.53, abs=0.01)
    assert found.of_product_K[-1].exp().item() == pytest.approx(0.00295, abs=2e-5)
    assert found.of_bound_K[-1].exp().item() > 1e18


def test_products_neither_vanish_nor_overflow() -> None:
    tiny, huge = (torch.eye(2).double() * scale for scale in (1e-200, 1e200))
    assert product_norms([tiny] * 9).of_product_K[-1].item() == pytest.approx(9 * math.log(1e-200))
    assert product_norms([huge] * 9).of_product_K[-1].item() == pytest.approx(9 * math.log(1e200))
    assert product_norms([torch.zeros(2, 2)] * 3).of_product_K.tolist() == [-math.inf] * 3


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_the_product_of_local_jacobians_is_the_derivative_across_all_steps(kind: str) -> None:
    model = random_model(kind, num_layers=1)
    x_BTE = model.inputs(torch.tensor([[1, 5, 3, 2, 7]]))
    recording = record(model.stack, x_BTE)
    cell = model.stack.cell(0)
    jacobians = local_jacobians(cell, recording.steps[0])
    sizes = list(cell.state_sizes)

    def run(flat_P: torch.Tensor) -> torch.Tensor:
        state = cell.pack_state([piece[None] for piece in torch.split(flat_P, sizes)])
        for x_BE in x_BTE.unbind(1):
            state = cell.step(x_BE, state)
        return torch.cat([part[0] for part in state])

    want = torch.autograd.functional.jacobian(run, torch.zeros(sum(sizes)).double())
    product = torch.eye(sum(sizes)).double()
    for matrix in jacobians:
        product = matrix @ product
    torch.testing.assert_close(product, want, rtol=1e-9, atol=1e-12)
    norms = product_norms(jacobians)
    whole = torch.linalg.matrix_norm(want, ord=2).log()
    torch.testing.assert_close(norms.of_product_K[-1], whole, rtol=1e-9, atol=1e-9)
    assert (norms.of_product_K <= norms.of_bound_K + 1e-12).all()
