"""From states to a distribution over the vocabulary: what a readout is, and the plain one."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""(x [..., F], weight [V, F], bias [V] or None) → x Wᵀ + b, as `torch.nn.functional.linear`."""


class Softmax(NamedTuple):
    """One softmax in the loss of some rows: −log softmax(W f_n + b)[target_n] of each.

    features_NF, targets_N: the rows that take part and what each must choose; rows_N: their numbers
    among all rows, None where all take part, in order.
    """

    features_NF: Tensor
    weight_VF: Tensor
    bias_V: Tensor
    targets_N: Tensor
    rows_N: Tensor | None


RowNats = Callable[[Softmax], Tensor]
"""A softmax of N rows → −log softmax(W f_n + b)[target_n] of each, [N]."""


class TokenReadout(nn.Module, ABC):
    """What makes a distribution over the next token of a state: softmaxes, or tables."""

    @abstractmethod
    def nats(self, states_NH: Tensor, targets_N: Tensor, of_softmax: RowNats) -> Tensor:
        """Return −log p(target) of each row.

        states_NH [N, H], targets_N [N] ids; `of_softmax` makes the nats of the rows of a softmax.
        The type is that of the states, float64 where probabilities are looked up.
        """

    @abstractmethod
    def logits(self, states_BTH: Tensor, product: Product = linear) -> Tensor:
        """Return logits_BTV for states of any leading axes, by the `product` given."""

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw every parameter of its own, so that a new model is near the uniform distribution."""

    @abstractmethod
    def describe(self) -> str:
        """Return in a few words how tokens are chosen, as the manifest records it."""

    def forward(self, states_BTH: Tensor) -> Tensor:
        """Return logits_BTV."""
        return self.logits(states_BTH)


class SoftmaxReadout(TokenReadout):
    """A readout of one softmax or several.

    `weight` and `bias` are those of the softmax that every token needs; they say which type and
    device the readout has.
    """

    weight: nn.Parameter
    bias: nn.Parameter

    @abstractmethod
    def softmaxes(self, states_NH: Tensor, targets_N: Tensor) -> Sequence[Softmax]:
        """Return softmaxes whose nats, added up for each row, are −log p(target) of that row.

        states_NH [N, H], targets_N [N] ids. This is all that a loss needs to do without the logits.
        """

    def nats(self, states_NH: Tensor, targets_N: Tensor, of_softmax: RowNats) -> Tensor:
        """Return the sum over the softmaxes of each row."""
        nats_N = states_NH.new_zeros(targets_N.shape[0])
        for softmax in self.softmaxes(states_NH, targets_N):
            part_N, rows_N = of_softmax(softmax), softmax.rows_N
            nats_N = nats_N + part_N if rows_N is None else nats_N.index_add(0, rows_N, part_N)
        return nats_N


def projection_between(hidden_size: int, width: int) -> nn.Parameter | None:
    """Return P [F, H], zeros, from states of H to features of F = `width`; None where F = H."""
    return None if width == hidden_size else nn.Parameter(torch.zeros(width, hidden_size))


def projected(states_BTH: Tensor, projection: nn.Parameter | None) -> Tensor:
    """Return the features P states_BTH, the states themselves without P."""
    return states_BTH if projection is None else linear(states_BTH, projection)


def draw_projection(projection: nn.Parameter | None, generator: torch.Generator) -> None:
    """Draw P, where it is there, uniformly from ±1/√(F · H).

    An embedding has entries of order 1, so that P needs the factor 1/√F for logits of the size of
    the states, which puts a new model near the uniform distribution.
    """
    if projection is not None:
        bound = 1.0 / math.sqrt(projection.numel())
        with torch.no_grad():
            projection.uniform_(-bound, bound, generator=generator)


class Readout(SoftmaxReadout):
    """logits_t = W (P states_t) + b, with W [V, F], b [V]; the projection P [F, H] only when F ≠ H.

    Untied, F = H and there is no P. Tied, W is the very tensor of the embedding, F = E, and P is
    there when E and H differ; P has no bias.
    """

    def __init__(
        self, hidden_size: int, vocabulary_size: int, *, tied: nn.Parameter | None = None
    ) -> None:
        super().__init__()
        self._is_tied = tied is not None
        if tied is None:
            tied = nn.Parameter(torch.zeros(vocabulary_size, hidden_size))
        self.weight = tied
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.projection = projection_between(hidden_size, tied.shape[1])

    def project(self, states_BTH: Tensor) -> Tensor:
        """Return the features [..., F] that meet `weight`: the states themselves without P."""
        return projected(states_BTH, self.projection)

    def softmaxes(self, states_NH: Tensor, targets_N: Tensor) -> Sequence[Softmax]:
        """Return the one softmax over the whole vocabulary, in which every row takes part."""
        return (Softmax(self.project(states_NH), self.weight, self.bias, targets_N, None),)

    def logits(self, states_BTH: Tensor, product: Product = linear) -> Tensor:
        """Return logits_BTV for states of any leading axes."""
        return product(self.project(states_BTH), self.weight, self.bias)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw W uniformly from ±1/√H, or, tied, P alone (`draw_projection`); b becomes 0."""
        draw_projection(self.projection, generator)
        with torch.no_grad():
            if not self._is_tied:
                bound = 1.0 / math.sqrt(self.weight.shape[1])
                self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()

    def describe(self) -> str:
        """Return that it is one softmax."""
        return "one softmax over all tokens"
