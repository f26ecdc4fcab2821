"""From states to one logit for each token of the vocabulary."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class Readout(nn.Module):
    """logits_t = W (P states_t) + b, with W [V, F], b [V]; the projection P [F, H] only when F ≠ H.

    Untied, F = H and there is no P. Tied, W is the very tensor of the embedding, F = E, and P is
    there when E and H differ; P has no bias. `weight`, `bias` and `project` are what a fused loss
    needs to do without the logits.
    """

    def __init__(
        self, hidden_size: int, vocabulary_size: int, *, tied: nn.Parameter | None = None
    ) -> None:
        super().__init__()
        if tied is None:
            tied = nn.Parameter(torch.zeros(vocabulary_size, hidden_size))
        self.weight = tied
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.projection: nn.Parameter | None = None
        if tied.shape[1] != hidden_size:
            self.projection = nn.Parameter(torch.zeros(tied.shape[1], hidden_size))

    def project(self, states_BTH: Tensor) -> Tensor:
        """Return the features [..., F] that meet `weight`: the states themselves without P."""
        return states_BTH if self.projection is None else linear(states_BTH, self.projection)

    def logits(self, states_BTH: Tensor) -> Tensor:
        """Return logits_BTV for states of any leading axes."""
        return linear(self.project(states_BTH), self.weight, self.bias)

    def forward(self, states_BTH: Tensor) -> Tensor:
        """Return logits_BTV."""
        return self.logits(states_BTH)

    def initialise(self, generator: torch.Generator, *, tied: bool) -> None:
        """Draw W uniformly from ±1/√H, or, `tied`, P alone from ±1/√(F · H); b becomes 0.

        An embedding has entries of order 1, so that P needs the factor 1/√F for logits of the size
        of the states, which puts a new model near the uniform distribution.
        """
        with torch.no_grad():
            if self.projection is not None:
                bound = 1.0 / math.sqrt(self.projection.numel())
                self.projection.uniform_(-bound, bound, generator=generator)
            if not tied:
                bound = 1.0 / math.sqrt(self.weight.shape[1])
                self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()
