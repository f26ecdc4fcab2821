"""Attention of a sequence to its own past, over a bounded reach, with its keys and values kept."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

BASE = 10_000.0
"""What the slowest of the rates that places are turned at is below the fastest, about."""


def allowed_columns(counts_B: Tensor, cached: int, seen_BT: Tensor) -> Tensor:
    """Return allowed_BTL: which columns each new step may see, the cached ones, then the new ones.

    counts_B [B]: how many of the cached columns, the newest, are the row's own. seen_BT [B, T]: how
    many steps before itself each new step may see at most.
    """
    device, num_steps = counts_B.device, seen_BT.shape[1]
    places_L = torch.arange(cached + num_steps, device=device)
    distance_TL = (cached + torch.arange(num_steps, device=device)).unsqueeze(1) - places_L
    own_BL = places_L >= (cached - counts_B).unsqueeze(1)
    within_BTL = (distance_TL >= 0) & (distance_TL <= seen_BT.unsqueeze(2))
    return within_BTL & own_BL.unsqueeze(1)


def attend(
    q_BTH: Tensor, k_BLH: Tensor, v_BLH: Tensor, allowed_BTL: Tensor, *, num_heads: int
) -> Tensor:
    """Return what each step retrieves, [B, T, H]: softmax(q · k / √A) v over what it may see.

    A = H / num_heads, a part of H for each head.
    """
    q_BNTA, k_BNLA, v_BNLA = (
        part.reshape(*part.shape[:2], num_heads, -1).transpose(1, 2)
        for part in (q_BTH, k_BLH, v_BLH)
    )
    found_BNTA = scaled_dot_product_attention(
        q_BNTA, k_BNLA, v_BNLA, attn_mask=allowed_BTL.unsqueeze(1)
    )
    return found_BNTA.transpose(1, 2).flatten(2)


class Turns(NamedTuple):
    """cos_BT1A and sin_BT1A of the angles by which each step is turned, A being half a head."""

    cos_BT1A: Tensor
    sin_BT1A: Tensor


def turns_of(places_BT: Tensor, width: int, dtype: torch.dtype) -> Turns:
    """Return the angles place · BASE^(−2i / width) of heads of an even width, made in float64."""
    half = width // 2
    rates_A = torch.exp(
        torch.arange(half, device=places_BT.device, dtype=torch.float64) * (-math.log(BASE) / half)
    )
    angles_BT1A = places_BT.double()[:, :, None, None] * rates_A
    return Turns(angles_BT1A.cos().to(dtype), angles_BT1A.sin().to(dtype))


def turned(x_BTH: Tensor, turns: Turns, num_heads: int) -> Tensor:
    """Return each pair (x_i, x_{i + A}) of each head of width 2 A turned by its angle.

    The product of two that are turned so depends on the distance of their places alone: J. Su et
    al., arXiv:2104.09864, equation 34.
    """
    first_BTNA, second_BTNA = x_BTH.reshape(*x_BTH.shape[:2], num_heads, 2, -1).unbind(3)
    cos, sin = (part.to(x_BTH.dtype) for part in turns)
    both = (first_BTNA * cos - second_BTNA * sin, second_BTNA * cos + first_BTNA * sin)
    return torch.stack(both, dim=3).flatten(2)
