"""Gradient descent without memory: one pass over each gradient, or over the rows it has."""

from collections import defaultdict
from typing import Any, Protocol

import torch
from torch import Tensor


class Optimiser(Protocol):
    """What a trainer needs of an optimiser: all of `torch.optim` have it."""

    param_groups: list[dict[str, Any]]
    state: defaultdict[Tensor, Any]

    def step(self) -> object:
        """Make one step from the gradients that are there."""


class PlainSGD:
    """w ← w − rate · (factor · g + decay · w), g dense, or rows of a matrix as a sparse tensor.

    `factor` is what clipping asks for: scaling and adding are one pass over memory instead of two.
    Of a sparse gradient only its rows are touched, which is exact without decay; with decay every
    row moves. Differs from `torch.optim.SGD` without momentum by rounding alone. It is not one of
    `torch.optim`, whose first optimiser loads torch's compiler: 70 MiB and half a second or more.

    Groups hold `params` and, where it is not 0, `weight_decay`.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        self.param_groups = [{"lr": lr, "weight_decay": 0.0, **group} for group in groups]
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)

    @torch.no_grad()
    def step(self, factor: float = 1.0) -> None:
        """Make one step from the gradients that are there, times `factor`."""
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
