"""Attention of a sequence to its own past, over a bounded reach, with its keys and values kept."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class Reach(NamedTuple):
    """Which positions of the past each step may see, and the place of each.

    allowed_BTL: step t of row b may see column l; the columns are the cached steps, then the new
    ones. places_L: numbers that grow by 1 from column to column.
    """

    allowed_BTL: Tensor
    places_L: Tensor


def reach_of(counts_B: Tensor, cached: int, num_steps: int, seen_BT: Tensor) -> Reach:
    """Return the reach of num_steps new steps after `cached` columns.

    counts_B [B]: how many of the cached columns, the newest, are the row's own. seen_BT [B, T]: how
    many steps before itself each new step may see at most.
    """
    device = counts_B.device
    places_L = torch.arange(cached + num_steps, device=device)
    distance_TL = (cached + torch.arange(num_steps, device=device)).unsqueeze(1) - places_L
    own_BL = places_L >= (cached - counts_B).unsqueeze(1)
    allowed_BTL = (distance_TL >= 0) & (distance_TL <= seen_BT.unsqueeze(2)) & own_BL.unsqueeze(1)
    return Reach(allowed_BTL, places_L)


def attend(
    q_BTH: Tensor, k_BLH: Tensor, v_BLH: Tensor, reach: Reach, *, num_heads: int, rotary: bool
) -> Tensor:
    """Return what each step retrieves, [B, T, H]: softmax(q · k / √A) v over what it may see.

    A = H / num_heads. With `rotary`, q and k are turned by angles of their places, so that their
    product depends on the distance alone (J. Su et al., arXiv:2104.09864, eq. 34).
    """
    q_BNTA, k_BNLA, v_BNLA = (_heads(part, num_heads) for part in (q_BTH, k_BLH, v_BLH))
    if rotary:
        places_T = reach.places_L[len(reach.places_L) - q_BTH.shape[1] :]
        q_BNTA, k_BNLA = turned(q_BNTA, places_T), turned(k_BNLA, reach.places_L)
    found_BNTA = scaled_dot_product_attention(
        q_BNTA, k_BNLA, v_BNLA, attn_mask=reach.allowed_BTL.unsqueeze(1)
    )
    return found_BNTA.transpose(1, 2).flatten(2)


def turned(x_BNTA: Tensor, places_T: Tensor, base: float = 10_000.0) -> Tensor:
    """Return each pair (x_i, x_{i + A/2}) turned by the angle place · base^(−2i / A)."""
    half = x_BNTA.shape[3] // 2
    rates = torch.exp(
        torch.arange(half, device=x_BNTA.device, dtype=torch.float64) * (-math.log(base) / half)
    )
    angles_TA = places_T.double().unsqueeze(1) * rates
    cos_TA, sin_TA = angles_TA.cos().to(x_BNTA.dtype), angles_TA.sin().to(x_BNTA.dtype)
    first, second = x_BNTA[..., :half], x_BNTA[..., half:]
    return torch.cat((first * cos_TA - second * sin_TA, second * cos_TA + first * sin_TA), dim=3)


def _heads(x_BTH: Tensor, num_heads: int) -> Tensor:
    batch_size, num_steps, width = x_BTH.shape
    return x_BTH.view(batch_size, num_steps, num_heads, width // num_heads).transpose(1, 2)
