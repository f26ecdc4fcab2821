"""A moving average of the weights, scored and kept in their place."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from elman.errors import RunError


class WeightAverage:
    """An exponential average of all parameters without the pull of its start.

        ā_n = Σ_k d^{n−k} (1 − d) w_k / (1 − d^n),   kept as  ā ← ā + (1 − d)/(1 − d^n) · (w_n − ā)

    with d the decay and w_k the weights after update k: after one update it is those weights. A
    decay of 1 is the plain mean, whose share is 1 / n.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.num_updates = 0
        with torch.no_grad():
            self.tensors: dict[str, Tensor] = {
                name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()
            }

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take the weights of `model` in."""
        self.num_updates += 1
        share = 1.0 / self.num_updates
        if self.decay < 1.0:
            share = (1.0 - self.decay) / (1.0 - self.decay**self.num_updates)
        for name, parameter in model.named_parameters():
            self.tensors[name].lerp_(parameter, share)

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], num_updates: int) -> None:
        """Go on from a saved average over `num_updates` updates."""
        if tensors.keys() != self.tensors.keys():
            odd = sorted(tensors.keys() ^ self.tensors.keys())
            raise RunError(
                f"the saved average does not fit the model: {odd[0]} is on one side only"
            )
        for name, tensor in tensors.items():
            self.tensors[name].copy_(tensor)
        self.num_updates = num_updates

    @contextmanager
    def in_place_of_weights(self, model: nn.Module) -> Iterator[None]:
        """Let `model` hold the average inside the block, and its own weights, untouched, after it.

        Tensors change places, nothing is copied. Before the first update the model stays as it is.
        """
        if self.num_updates == 0:
            yield
            return
        own = {name: parameter.data for name, parameter in model.named_parameters()}
        try:
            for name, parameter in model.named_parameters():
                parameter.data = self.tensors[name]
            yield
        finally:
            for name, parameter in model.named_parameters():
                parameter.data = own[name]
