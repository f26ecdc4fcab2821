"""Dropout as a function of a generator: no generator, no dropout."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor

from elman.errors import SettingError
from elman.seeding import RowGenerator, rows_to_draw

DropoutKind = Literal["ordinary", "locked"]

MASK_LEVELS = 1 << 16
"""Masks compare 16 random bits with a threshold, so p is rounded to a multiple of 1 / 65536."""


@dataclass(frozen=True)
class DropMask:
    """Which elements stay, keep_BTE [B, T, E] or [B, 1, E] for all steps alike, and their factor.

    A mask is a value: the same one can act again, and it can be cut into steps.
    """

    keep_BTE: Tensor
    scale: float

    def on(self, x_BTE: Tensor) -> Tensor:
        """Return x_BTE with 0 where nothing stays, the rest times the factor."""
        return x_BTE * self.keep_BTE.to(x_BTE.dtype).mul_(self.scale)

    def of_steps(self, start: int, stop: int) -> Self:
        """Return the mask of the steps start … stop − 1."""
        if self.keep_BTE.shape[1] == 1:
            return self
        return replace(self, keep_BTE=self.keep_BTE[:, start:stop])


def draw_mask(
    shape: tuple[int, int, int],
    p: float,
    generator: torch.Generator | None,
    *,
    kind: DropoutKind = "ordinary",
    device: torch.device | None = None,
) -> DropMask | None:
    """Return the mask that `drop` uses on an x_BTE of `shape`; None where nothing is dropped.

    Raises `SettingError` unless 0 ≤ p < 1.
    """
    if not 0.0 <= p < 1.0:
        raise SettingError("dropout must be at least 0 and below 1", got=repr(p))
    if generator is None or p == 0.0:
        return None
    batch_size, num_steps, width = shape
    steps = num_steps if kind == "ordinary" else 1
    dropped = min(max(round(p * MASK_LEVELS), 1), MASK_LEVELS - 1)
    num_rows, own = rows_to_draw(generator, batch_size)
    keep_BTE = _at_least(dropped, (num_rows, steps, width), device, generator)[own]
    return DropMask(keep_BTE, MASK_LEVELS / (MASK_LEVELS - dropped))


def drop(
    x_BTE: Tensor, p: float, generator: torch.Generator | None, *, kind: DropoutKind = "ordinary"
) -> Tensor:
    """Return x_BTE with each element set to 0 with probability p, the rest divided by 1 − p.

    "ordinary" draws a mask for every element; "locked" draws one [B, 1, E] and uses it at all steps
    of the call (Y. Gal, Z. Ghahramani, arXiv:1512.05287, section 4, on the inputs of a layer). The
    expectation is x_BTE exactly, as both p's are the same multiple of 1 / `MASK_LEVELS`, at least
    one for p > 0. With generator None, or p = 0, x_BTE itself is returned. The masks depend on the
    generator alone, not on the number of threads; torch's global generator is never touched. The
    generator must be on the device of x_BTE.

    Raises `SettingError` unless 0 ≤ p < 1.
    """
    batch_size, num_steps, width = x_BTE.shape
    shape = (batch_size, num_steps, width)
    mask = draw_mask(shape, p, generator, kind=kind, device=x_BTE.device)
    return x_BTE if mask is None else mask.on(x_BTE)


def drop_weights(weight: Tensor, p: float, generator: torch.Generator | None) -> Tensor:
    """Return a matrix [M, N] with each element 0 with probability p, the rest divided by 1 − p.

    It has nothing to do with rows of a batch: processes that share those draw the same mask here.
    """
    with generator.of_rows(None) if isinstance(generator, RowGenerator) else nullcontext():
        return drop(weight.unsqueeze(0), p, generator).squeeze(0)


def uniform_rows(shape_BT: torch.Size, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return uniform numbers in [0, 1) for the steps of each row: [B, T] float32."""
    num_rows, own = rows_to_draw(generator, shape_BT[0])
    return torch.rand((num_rows, *shape_BT[1:]), generator=generator, device=device)[own]


def _at_least(
    level: int,
    shape: tuple[int, int, int],
    device: torch.device | None,
    generator: torch.Generator,
) -> Tensor:
    """Return booleans that are False with probability level / `MASK_LEVELS`, four from each draw.

    A draw fills 64 bits, read as four 16-bit integers: several times faster than one draw each.
    """
    size = shape[0] * shape[1] * shape[2]
    draws_N = torch.empty(-(-size // 4), dtype=torch.int64, device=device)
    draws_N.random_(-(2**63), None, generator=generator)
    levels = draws_N.view(torch.int16)[:size].view(shape)
    return levels >= level - MASK_LEVELS // 2
