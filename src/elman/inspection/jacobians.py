"""Products of the derivatives of steps: their norms, their bound, and what grows or shrinks.

    J_t = d state_t / d state_{t−1},   d state_T / d state_k = J_T … J_{k+1}
    ‖J_T … J_{k+1}‖ ≤ ‖J_T‖ … ‖J_{k+1}‖

The right-hand side is a bound and no more: [[0.9, 1], [0, 0.9]] has the norm 1.53, and its
hundredth power has the norm 0.003. Norms are spectral, the largest singular value. Products are
kept with a scale of their own, so that they neither vanish nor overflow.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.inspection.product_rule import step_derivative
from elman.inspection.recording import CellStep


class ProductNorms(NamedTuple):
    """ln of norms [K] after 1 … K factors, the latest first: of the product, and of its bound."""

    of_product_K: Tensor
    of_bound_K: Tensor


def local_jacobians(cell: Cell, steps: Iterable[CellStep], row: int = 0) -> list[Tensor]:
    """Return J_t [P, P] of each recorded step of one row of the batch, in the steps' order."""
    return [
        step_derivative(cell, step.x_BE[row], tuple(part[row] for part in step.before)).full_PP
        for step in steps
    ]


def product_norms(jacobians: Sequence[Tensor]) -> ProductNorms:
    """Return ln ‖J_T … J_{T−k+1}‖ and Σ ln ‖J‖ of the same factors, for k = 1 … T.

    `jacobians` stand in the order of time. ln 0 is −∞.
    """
    size = jacobians[0].shape[0]
    product = torch.eye(size, dtype=torch.float64)
    log_scale, bound, products, bounds = 0.0, 0.0, [], []
    for matrix in reversed(jacobians):
        product = product @ matrix.double()
        norm, own = _norm(product), _norm(matrix.double())
        bound += math.log(own) if own else -math.inf
        bounds.append(bound)
        products.append(log_scale + math.log(norm) if norm else -math.inf)
        if norm:
            product, log_scale = product / norm, log_scale + math.log(norm)
    return ProductNorms(
        torch.tensor(products, dtype=torch.float64), torch.tensor(bounds, dtype=torch.float64)
    )


def lyapunov_spectrum(jacobians: Sequence[Tensor]) -> Tensor:
    """Return the exponents [P] of the product, nats a step, the largest first.

    By QR of each factor times the frame so far: the mean of ln |R_ii|. Source: G. Benettin et al.,
    "Lyapunov Characteristic Exponents", Meccanica 15 (1980). A direction that is lost has −∞.
    """
    size = jacobians[0].shape[0]
    frame, sums_P = torch.eye(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    for matrix in jacobians:
        frame, upper = torch.linalg.qr(matrix.double() @ frame)
        sums_P = sums_P + upper.diagonal().abs().log()
    return (sums_P / len(jacobians)).sort(descending=True).values


def singular_values(matrix: Tensor) -> Tensor:
    """Return those of one J_t, the largest first, in float64."""
    found: Tensor = torch.linalg.svdvals(matrix.double())
    return found


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2))
