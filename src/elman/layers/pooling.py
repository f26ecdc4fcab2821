"""From the states of a text to one vector: the final state, a mean, a maximum, or attention."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elman.cells.initialising import draw_weights
from elman.errors import SettingError
from elman.layers.masks import valid_positions
from elman.shapes import require_shape

PoolingKind = Literal["final", "mean", "max", "attention"]


def final_states(states_BTH: Tensor, lengths_B: Tensor, *, num_directions: int = 1) -> Tensor:
    """Return pooled_BH: where each reader ended, forward at t = length − 1, backward at t = 0.

    With two directions the first half of the width is the forward reader's. For a plain stack this
    is the output part of its final state; with normalised or residual layers it is what the last
    layer hands on at that step. A row of length 0 gives zeros.
    """
    valid_BT = _checked(states_BTH, lengths_B)
    if states_BTH.shape[1] == 0:
        return states_BTH.sum(dim=1)
    rows_B = torch.arange(states_BTH.shape[0], device=states_BTH.device)
    pooled_BH = states_BTH[rows_B, (lengths_B - 1).clamp(min=0).to(states_BTH.device)]
    if num_directions == 2:
        half = states_BTH.shape[2] // 2
        pooled_BH = torch.cat((pooled_BH[:, :half], states_BTH[:, 0, half:]), dim=1)
    return pooled_BH.masked_fill(~valid_BT[:, :1], 0.0)


def mean_states(states_BTH: Tensor, lengths_B: Tensor) -> Tensor:
    """Return pooled_BH = Σ_t states_t / length over valid steps; length 0 gives zeros."""
    valid_BT = _checked(states_BTH, lengths_B)
    sums_BH = states_BTH.masked_fill(~valid_BT.unsqueeze(2), 0.0).sum(dim=1)
    return sums_BH / valid_BT.sum(dim=1).clamp(min=1).unsqueeze(1).to(states_BTH.dtype)


def max_states(states_BTH: Tensor, lengths_B: Tensor) -> Tensor:
    """Return pooled_BH, the largest value of each unit over valid steps; length 0 gives zeros.

    Padding never wins, also where all values are negative. Equal values share the gradient.
    """
    valid_BT = _checked(states_BTH, lengths_B)
    if states_BTH.shape[1] == 0:
        return states_BTH.sum(dim=1)
    largest_BH = states_BTH.masked_fill(~valid_BT.unsqueeze(2), -math.inf).amax(dim=1)
    return largest_BH.masked_fill(~valid_BT[:, :1], 0.0)


class Pooling(nn.Module):
    """states_BTH → pooled_BH, by one of the functions of this module or by a learnt query.

        attention:  u_t = tanh(W h_t + b);  α = softmax(q · u_t) over valid t;  pooled = Σ_t α_t h_t

    W [H, H], b [H], q [H] (Z. Yang et al., Hierarchical Attention Networks for Document
    Classification, NAACL 2016, eqs. 5–7); a row of length 0 gives zeros. The other kinds have no
    parameters. What stands at padding, be it NaN, has no influence on values or gradients.
    """

    def __init__(self, kind: PoolingKind, size: int, *, num_directions: int = 1) -> None:
        super().__init__()
        if kind not in get_args(PoolingKind):
            allowed = ", ".join(get_args(PoolingKind))
            raise SettingError("the kind of pooling is unknown", got=repr(kind), allowed=allowed)
        self.kind, self.size, self.num_directions = kind, size, num_directions
        if kind == "attention":
            self.weight = nn.Parameter(torch.zeros(size, size))
            self.bias = nn.Parameter(torch.zeros(size))
            self.query = nn.Parameter(torch.zeros(size))

    def forward(self, states_BTH: Tensor, lengths_B: Tensor) -> Tensor:
        """Return pooled_BH of states_BTH [B, T, H], of which steps t ≥ lengths_B are padding.

        Raises `ShapeError` where the axes do not fit.
        """
        require_shape("states_BTH", states_BTH, (None, None, self.size))
        if self.kind == "final":
            return final_states(states_BTH, lengths_B, num_directions=self.num_directions)
        if self.kind == "mean":
            return mean_states(states_BTH, lengths_B)
        if self.kind == "max":
            return max_states(states_BTH, lengths_B)
        clean_BTH, weights_BT = self._attended(states_BTH, lengths_B)
        return (weights_BT.unsqueeze(1) @ clean_BTH).squeeze(1)

    def weights(self, states_BTH: Tensor, lengths_B: Tensor) -> Tensor:
        """Return weights_BT of attention pooling: exactly 0 at padding, else they sum to 1.

        Raises `SettingError` for the other kinds.
        """
        if self.kind != "attention":
            raise SettingError("only attention pooling has weights", got=repr(self.kind))
        return self._attended(states_BTH, lengths_B)[1]

    def initialise(self, generator: torch.Generator) -> None:
        """Draw W and q from ±1/√H; b becomes 0."""
        if self.kind != "attention":
            return
        draw_weights(
            [("weight", self.weight), ("query", self.query)], self.size, "uniform", generator
        )
        with torch.no_grad():
            self.bias.zero_()

    def _attended(self, states_BTH: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        valid_BT = _checked(states_BTH, lengths_B)
        clean_BTH = states_BTH.masked_fill(~valid_BT.unsqueeze(2), 0.0)
        scores_BT = torch.tanh(linear(clean_BTH, self.weight, self.bias)) @ self.query
        # A row without a valid step takes its softmax over padding, so that it has no NaN.
        open_BT = valid_BT | ~valid_BT.any(dim=1, keepdim=True)
        weights_BT = scores_BT.masked_fill(~open_BT, -math.inf).softmax(dim=1)
        return clean_BTH, weights_BT.masked_fill(~valid_BT, 0.0)


def _checked(states_BTH: Tensor, lengths_B: Tensor) -> Tensor:
    """Return valid_BT once the axes fit."""
    require_shape("states_BTH", states_BTH, (None, None, None))
    require_shape("lengths_B", lengths_B, (states_BTH.shape[0],))
    return valid_positions(lengths_B.to(states_BTH.device), states_BTH.shape[1])
