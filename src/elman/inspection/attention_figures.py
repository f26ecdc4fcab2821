"""What a matrix of attention is like: how spread each row is, and what of it fell on padding."""

from typing import NamedTuple

import torch
from torch import Tensor


class AttentionFigures(NamedTuple):
    """Per row [B, U]: entropy in nats, the largest weight and where it is, the share on padding.

    Only rows of steps that are valid count; padded ones are 0, their place −1.
    """

    entropy_BU: Tensor
    largest_BU: Tensor
    place_BU: Tensor
    on_padding_BU: Tensor


def attention_figures(
    weights_BUS: Tensor, source_lengths_B: Tensor, target_lengths_B: Tensor
) -> AttentionFigures:
    """Return the figures of weights_BUS [B, U, S], each row of which sums to 1 over S.

    0 ln 0 is 0. What is on padding must be exactly 0; it is told, not corrected.
    """
    weights_BUS = weights_BUS.double()
    _, num_targets, num_sources = weights_BUS.shape
    padding_BS = torch.arange(num_sources) >= source_lengths_B.unsqueeze(1)
    valid_BU = torch.arange(num_targets) < target_lengths_B.unsqueeze(1)
    entropy_BU = -torch.xlogy(weights_BUS, weights_BUS).sum(dim=2)
    largest_BU, place_BU = weights_BUS.max(dim=2)
    on_padding_BU = (weights_BUS * padding_BS.unsqueeze(1)).sum(dim=2)
    zero_BU = torch.zeros_like(entropy_BU)
    return AttentionFigures(
        torch.where(valid_BU, entropy_BU, zero_BU),
        torch.where(valid_BU, largest_BU, zero_BU),
        torch.where(valid_BU, place_BU, -torch.ones_like(place_BU)),
        torch.where(valid_BU, on_padding_BU, zero_BU),
    )
