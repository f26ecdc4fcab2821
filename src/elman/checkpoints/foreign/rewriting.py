"""The same step in another convention: cells rewritten exactly, for targets that lack the first.

Every function returns a new cell whose step gives the same values, up to the rounding of the last
place where it says so, and leaves the one it was given as it was.
"""

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.mgu import MGUCell

CellKind = TypeVar("CellKind", bound=Cell)


def with_two_biases(cell: Cell) -> Cell:
    """Return an Elman cell, a GRU, a plain LSTM or an MGU with both bias vectors, absent ones 0."""
    twin = _blank_like(cell)
    weights = dict(
        zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), cell.kernel_weights, strict=False)
    )
    own = {name: weight for name, weight in cell.named_parameters() if name not in weights}
    return _filled(twin, {**weights, **own})


def as_keep(cell: GRUCell) -> GRUCell:
    """Return the GRU whose open update gate keeps: 1 − σ(a) = σ(−a), the rows of z negated.

    The rounding of σ may differ in the last place. A cell that keeps already is returned as it is.
    """
    if cell.update == "keep":
        return cell
    twin = GRUCell(
        cell.input_size, cell.hidden_size, reset=cell.reset, update="keep", bias=cell.bias
    )
    turned = {name: _negated(weight, 1, 3) for name, weight in cell.named_parameters()}
    return _filled(twin, turned)


def uncoupled(cell: LSTMCell) -> LSTMCell:
    """Return the LSTM with an input gate of its own: i = 1 − f = σ(−a_f), rows −f before f, g, o.

    The rounding of σ may differ in the last place. Raises `ValueError` for a coupled cell with
    peepholes on f that would need the same, negated, on i and has layer normalisation, whose mean
    would change.
    """
    if not cell.options.coupled:
        return cell
    if cell.options.layer_norm:
        raise ValueError("normalised coupled gates cannot be parted")
    options = LSTMOptions(
        peepholes=cell.options.peepholes, projection_size=cell.options.projection_size
    )
    twin = LSTMCell(
        cell.input_size,
        cell.hidden_size,
        forget_bias=cell.forget_bias,
        options=options,
        bias=cell.bias,
    )
    units = cell.hidden_size
    weights: dict[str, Tensor] = dict(cell.named_parameters())
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "peephole"):
        if name in weights:
            weights[name] = torch.cat([-weights[name][:units], weights[name]])
    return _filled(twin, weights)


def mgu_as_gru(cell: MGUCell) -> GRUCell:
    """Return the GRU, reset before and update replace, whose two gates are the one of the MGU."""
    twin = GRUCell(
        cell.input_size, cell.hidden_size, reset="before", update="replace", bias=cell.bias
    )
    units = cell.hidden_size
    doubled = {
        name: torch.cat([weight[:units], weight]) for name, weight in cell.named_parameters()
    }
    return _filled(twin, doubled)


def _blank_like(cell: Cell) -> Cell:
    if isinstance(cell, ElmanCell):
        return ElmanCell(cell.input_size, cell.hidden_size, activation=cell.activation)
    if isinstance(cell, GRUCell):
        return GRUCell(cell.input_size, cell.hidden_size, reset=cell.reset, update=cell.update)
    if isinstance(cell, LSTMCell):
        return LSTMCell(
            cell.input_size, cell.hidden_size, forget_bias=cell.forget_bias, options=cell.options
        )
    if isinstance(cell, MGUCell):
        return MGUCell(cell.input_size, cell.hidden_size)
    raise ValueError(f"{cell.key} has one bias vector at most")


def _filled(twin: CellKind, weights: Mapping[str, Tensor]) -> CellKind:
    twin.to(next(iter(weights.values())).dtype)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            parameter.copy_(weights[name])
    return twin


def _negated(weight: Tensor, block: int, count: int) -> Tensor:
    parts = list(weight.chunk(count))
    parts[block] = -parts[block]
    return torch.cat(parts)
