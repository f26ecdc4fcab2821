"""The norm of the gradient, and the factor that keeps a step short."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class GradientNorm(NamedTuple):
    """The norm of all gradients, whether a step may be taken at all, and what to scale them by."""

    norm: float
    finite: bool
    factor: float


def measure_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> GradientNorm:
    """Return ‖g‖ and the factor max_norm / ‖g‖ where ‖g‖ > max_norm, else 1; max_norm 0: always 1.

        ‖g‖ = √ Σ g²  over all parameters (R. Pascanu and others, arXiv:1211.5063, algorithm 1)

    Nothing is scaled here: `apply_gradients` does, in its own pass where that is possible. Sparse
    gradients become coalesced, each row once. `finite` is False when a gradient is infinite or not
    a number, and when Σ g² is beyond the range of the gradients' own number format; the caller then
    skips the step, even where the loss looks well. Differs from `torch.nn.utils.clip_grad_norm_`,
    which hands on zeros or NaN in these cases, and which divides by ‖g‖ + 1e-6.
    """
    gradients = [_numbers(p) for p in parameters if p.grad is not None]
    if not gradients:
        return GradientNorm(0.0, True, 1.0)
    norm = float(torch.nn.utils.get_total_norm(gradients))
    largest = max(torch.finfo(gradient.dtype).max for gradient in gradients)
    finite = math.isfinite(norm) and norm * norm <= largest
    clips = finite and 0.0 < max_norm < norm
    return GradientNorm(norm, finite, max_norm / norm if clips else 1.0)


def _numbers(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    if not parameter.grad.is_sparse:
        return parameter.grad
    parameter.grad = parameter.grad.coalesce()
    return parameter.grad.values()
