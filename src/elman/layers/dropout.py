"""Dropout as a function of a generator: no generator, no dropout."""

from typing import Literal

import torch
from torch import Tensor

from elman.errors import SettingError

DropoutKind = Literal["ordinary", "locked"]


def drop(
    x_BTE: Tensor, p: float, generator: torch.Generator | None, *, kind: DropoutKind = "ordinary"
) -> Tensor:
    """Return x_BTE with each element set to 0 with probability p, the rest divided by 1 − p.

    "ordinary" draws a mask for every element; "locked" draws one [B, 1, E] and uses it at all steps
    of the call (Y. Gal, Z. Ghahramani, arXiv:1512.05287, section 4, on the inputs of a layer). The
    expectation is x_BTE. With generator None, or p = 0, x_BTE itself is returned. The generator must
    be on the device of x_BTE; torch's global one is never touched.

    Raises `SettingError` unless 0 ≤ p < 1.
    """
    if not 0.0 <= p < 1.0:
        raise SettingError("dropout must be at least 0 and below 1", got=repr(p))
    if generator is None or p == 0.0:
        return x_BTE
    batch_size, num_steps, width = x_BTE.shape
    steps = num_steps if kind == "ordinary" else 1
    mask_BTE = torch.empty((batch_size, steps, width), dtype=x_BTE.dtype, device=x_BTE.device)
    mask_BTE.bernoulli_(1.0 - p, generator=generator).div_(1.0 - p)
    return x_BTE * mask_BTE
