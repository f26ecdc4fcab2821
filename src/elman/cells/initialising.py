"""How the parameters of a cell begin: four schemes, every number from the generator given."""

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

Initialisation = Literal["uniform", "xavier", "orthogonal", "identity"]

GAINS = ("gain_ih", "gain_hh", "gain_c")
"""Parameters that multiply a normalised value: they begin at 1."""
SHIFTS = ("shift_c",)
"""Parameters that are added to a normalised value: they begin at 0."""


def draw_weights(
    named_weights: Iterable[tuple[str, Tensor]],
    hidden_size: int,
    scheme: Initialisation,
    generator: torch.Generator,
) -> None:
    """Fill the weights of a cell in place, in the order given.

        uniform     all from ±1/√H, torch's own rule
        xavier      each gate's block of a matrix from ±√(6 / (columns + rows)); vectors 0
                    (X. Glorot, Y. Bengio, AISTATS 2010, eq. 16)
        orthogonal  blocks of `weight_hh` orthogonal (A. M. Saxe et al., arXiv:1312.6120), the other
                    matrices xavier; vectors 0
        identity    blocks of `weight_hh` the identity (Q. V. Le et al., arXiv:1504.00941), the
                    others xavier, where the paper draws from a deviation of 0.001; vectors 0

    Gains of a normalisation begin at 1 and its shifts at 0 in every scheme. Vectors are biases and
    peepholes. A block that is not square has orthonormal rows or columns, or ones on its diagonal.
    """
    with torch.no_grad():
        for name, weight in named_weights:
            if name in GAINS:
                weight.fill_(1.0)
            elif name in SHIFTS:
                weight.zero_()
            elif scheme == "uniform":
                bound = 1.0 / math.sqrt(hidden_size)
                weight.uniform_(-bound, bound, generator=generator)
            elif weight.ndim == 1:
                weight.zero_()
            else:
                _draw_blocks(name, weight, hidden_size, scheme, generator)


def _draw_blocks(
    name: str,
    weight: Tensor,
    hidden_size: int,
    scheme: Initialisation,
    generator: torch.Generator,
) -> None:
    rows = min(hidden_size, weight.shape[0])
    for block in torch.split(weight, rows):
        if name == "weight_hh" and scheme == "orthogonal":
            block.copy_(_orthogonal(block, generator))
        elif name == "weight_hh" and scheme == "identity":
            block.copy_(torch.eye(*block.shape))
        else:
            bound = math.sqrt(6.0 / (block.shape[0] + block.shape[1]))
            block.uniform_(-bound, bound, generator=generator)


def _orthogonal(block: Tensor, generator: torch.Generator) -> Tensor:
    """Return a matrix of the shape of `block`, drawn evenly from those with orthonormal columns.

    Where there are fewer rows than columns, the rows are orthonormal. The signs of R's diagonal
    make the draw even (F. Mezzadri, arXiv:math-ph/0609050).
    """
    rows, columns = block.shape
    tall = torch.empty(max(rows, columns), min(rows, columns), dtype=torch.float64)
    tall.normal_(generator=generator)
    q, r = torch.linalg.qr(tall)
    q = q * torch.where(torch.diagonal(r) < 0.0, -1.0, 1.0)
    whole: Tensor = q if rows >= columns else q.T
    return whole.to(block.dtype)
