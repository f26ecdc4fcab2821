"""The norm of the gradient, and the scaling that keeps a step short."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Clipped(NamedTuple):
    """The norm before clipping, and whether a step may be taken with these gradients at all."""

    norm: float
    finite: bool


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Clipped:
    """Scale all gradients by max_norm / ‖g‖ where ‖g‖ > max_norm, in place; 0: never.

        ‖g‖ = √ Σ g²  over all parameters (R. Pascanu and others, arXiv:1211.5063, algorithm 1)

    `finite` is False when a gradient is infinite or not a number, and when Σ g² is beyond the range
    of the gradients' own number format; nothing is scaled then and the caller skips the step, even
    where the loss looks well. Differs from `torch.nn.utils.clip_grad_norm_`, which hands on zeros
    or NaN in these cases, and which divides by ‖g‖ + 1e-6.
    """
    gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return Clipped(0.0, True)
    norm = float(torch.nn.utils.get_total_norm(gradients))
    largest = max(torch.finfo(gradient.dtype).max for gradient in gradients)
    finite = math.isfinite(norm) and norm * norm <= largest
    if finite and 0.0 < max_norm < norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return Clipped(norm, finite)
