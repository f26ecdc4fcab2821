"""Matrices that somebody else wrote down, put into a cell: which way they act must be said.

A square matrix fits either way round, and a text may write W [h; x] for two matrices side by side.
Nothing here guesses: every function is told.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.errors import SettingError
from elman.shapes import require_shape

ActsOn = Literal["columns", "rows"]
"""columns: y = W x, W [out, in], as here and in torch. rows: y = x W, W [in, out], as in Keras."""

Order = Literal["hx", "xh"]
"""hx: the state stands before the input, [h; x]. xh: after it, [x; h]."""


def split_matrix(
    matrix: Tensor, hidden_size: int, *, order: Order, acts_on: ActsOn
) -> tuple[Tensor, Tensor]:
    """Return (weight_ih [G, E], weight_hh [G, H]) of one matrix over [h; x] or [x; h].

        W [h; x] = W_hh h + W_ih x

    Raises `ShapeError` for what is no matrix, `SettingError` where nothing is left for the input.
    """
    require_shape("matrix", matrix, (None, None))
    columns = matrix if acts_on == "columns" else matrix.T
    input_size = columns.shape[1] - hidden_size
    if input_size < 1:
        raise SettingError(
            "a joined matrix must be wider than the state alone",
            got=f"{columns.shape[1]} columns for {hidden_size} units",
            hint="check which way the matrix acts",
        )
    if order == "hx":
        return columns[:, hidden_size:], columns[:, :hidden_size]
    return columns[:, :input_size], columns[:, input_size:]


def joined_matrix(cell: Cell, *, order: Order, acts_on: ActsOn) -> Tensor:
    """Return the one matrix over [h; x] or [x; h] that `split_matrix` takes apart again."""
    parts = (cell.weight_hh, cell.weight_ih) if order == "hx" else (cell.weight_ih, cell.weight_hh)
    joined = torch.cat(parts, dim=1)
    return joined if acts_on == "columns" else joined.T


def supply(cell: Cell, matrices: Mapping[str, Tensor], *, acts_on: ActsOn) -> None:
    """Copy `matrices`, by the names of its parameters, into the cell; biases may be left out.

    Gates are stacked as in the cell's docstring. Biases that are left out become 0. Raises
    `SettingError` for a name that is no parameter or a matrix that is missing, `ShapeError` where a
    matrix does not fit the way it is said to act.
    """
    named = dict(cell.named_parameters())
    unknown = sorted(set(matrices) - set(named))
    missing = sorted(name for name in named if named[name].ndim == 2 and name not in matrices)
    if unknown or missing:
        raise SettingError(
            f"the matrices of {cell.key} must be its own",
            got=", ".join([*unknown, *(f"no {name}" for name in missing)]),
            allowed=", ".join(named),
        )
    with torch.no_grad():
        for name, parameter in named.items():
            given = matrices.get(name)
            if given is None:
                parameter.zero_()
                continue
            turned = given.T if given.ndim == 2 and acts_on == "rows" else given
            require_shape(f"{name} ({acts_on})", turned, tuple(parameter.shape))
            parameter.copy_(turned)
