"""Gradient descent without memory: one pass over each gradient, or over the rows it has."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class PlainSGD(torch.optim.Optimizer):
    """w ← w − rate · (factor · g + decay · w), g dense, or rows of a matrix as a sparse tensor.

    `factor` is what clipping asks for: scaling and adding are one pass over memory instead of two.
    Of a sparse gradient only its rows are touched, which is exact without decay; with decay every
    row moves. Differs from `torch.optim.SGD` without momentum by rounding alone.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None, *, factor: float = 1.0) -> None:  # type: ignore[override]
        """Make one step; `closure` is there for torch's sake and must be None."""
        assert closure is None
        for group in self.param_groups:
            rate, decay = float(group["lr"]), float(group["weight_decay"])
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if decay:
                    parameter.mul_(1.0 - rate * decay)
                _add(parameter, parameter.grad, -rate * factor)


def _add(parameter: Tensor, gradient: Tensor, factor: float) -> None:
    if not gradient.is_sparse:
        parameter.add_(gradient, alpha=factor)
        return
    gradient = gradient.coalesce()
    parameter.index_add_(0, gradient.indices()[0], gradient.values(), alpha=factor)
