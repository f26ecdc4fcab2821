"""One layer's cells ↔ one RNN, GRU or LSTM node of ONNX: gate orders, biases, attributes.

What ONNX fixes, and what of it differs from here:

    order of gates      LSTM i, o, f, c (here i, f, g, o); GRU z, r, h (here r, z, n)
    peepholes           P = i, o, f (here i, f, o); the output gate looks at the new memory, as here
    W, R, B, P          [D, G, E], [D, G, H], [D, 2G] with W's biases first, [D, 3H]
    GRU's update        H_t = (1 − z) ∘ h_t + z ∘ H_{t−1}: "keep"
    linear_before_reset 0 is "before", 1 is "after"
    input_forget        onnxruntime computes f = 1 − i; here it is i = 1 − f. The specification does
                        not say which, and its reference ignores it: coupled cells are written with
                        both gates, which every program reads alike

Source: the operators RNN, GRU and LSTM of https://onnx.ai/onnx/operators/, opset 14. Nothing here
needs the package onnx: a node is a value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.elman import Activation, ElmanCell
from elman.cells.gru import GRUCell, Reset
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.mgu import MGUCell
from elman.checkpoints.foreign.rewriting import (
    as_keep,
    mgu_as_gru,
    uncoupled,
    with_two_biases,
)
from elman.errors import ConversionError

Array = npt.NDArray[Any]
NodeDirection = Literal["forward", "reverse", "bidirectional"]

RECURRENT_OPS = ("RNN", "GRU", "LSTM")
_ROWS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
)
"""For each gate of ONNX, in its order, the place of that gate here."""
_PEEPHOLES = (0, 2, 1)
_GATE_FUNCTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"RNN": (), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
)
_ACTIVATIONS: Mapping[Activation, str] = MappingProxyType(
    {"tanh": "Tanh", "relu": "Relu", "identity": "Affine"}
)
_KNOWN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "RNN": frozenset(),
        "GRU": frozenset(("linear_before_reset",)),
        "LSTM": frozenset(("input_forget",)),
    }
)
_KNOWN_ALWAYS = frozenset(
    ("activations", "activation_alpha", "activation_beta", "direction", "hidden_size", "layout")
)

CellKind = TypeVar("CellKind", bound=Cell)


@dataclass(frozen=True)
class RecurrentNode:
    """One node: its operator, its attributes under ONNX's names, its weights W, R, B, P.

    W [D, G, E], R [D, G, H]; B [D, 2G] and P [D, 3H] where there are any. `name` is what errors
    call it.
    """

    op_type: str
    attributes: Mapping[str, Any]
    weights: Mapping[str, Array]
    name: str = field(default="the node", compare=False)


def node_of_cells(cells: Sequence[Cell], direction: NodeDirection) -> RecurrentNode:
    """Return the node of one cell, or of the forward and the backward cell of one layer.

    Raises `ConversionError` where ONNX has no such cell (`plain_cell`), or no pair of such cells.
    """
    plain = [plain_cell(cell) for cell in cells]
    first = plain[0]
    if len({_family(cell) for cell in plain}) > 1:
        raise ConversionError(
            "the two cells of a bidirectional layer must be of one kind and width in ONNX",
            got=", ".join(f"{cell.key} of {cell.hidden_size}" for cell in cells),
        )
    op_type = _op_type(first)
    attributes: dict[str, Any] = {"hidden_size": first.hidden_size, "direction": direction}
    if isinstance(first, GRUCell):
        attributes["linear_before_reset"] = int(first.reset == "after")
    functions = [cell.activation for cell in plain if isinstance(cell, ElmanCell)]
    if functions:
        attributes["activations"] = [_ACTIVATIONS[name] for name in functions]
    affine = functions.count("identity")
    if affine:
        attributes |= {"activation_alpha": [1.0] * affine, "activation_beta": [0.0] * affine}
    rows = _ROWS[op_type]
    weights = {
        "W": np.stack([_reordered(cell.weight_ih, rows) for cell in plain]),
        "R": np.stack([_reordered(cell.weight_hh, rows) for cell in plain]),
        "B": np.stack([_both_biases(cell, rows) for cell in plain]),
    }
    looking = [dict(cell.named_parameters()).get("peephole") for cell in plain]
    found = [_reordered(peephole, _PEEPHOLES) for peephole in looking if peephole is not None]
    if found:
        weights["P"] = np.stack(found)
    return RecurrentNode(op_type, attributes, weights)


def cells_of_node(node: RecurrentNode) -> tuple[Cell, ...]:
    """Return the cell of each direction of `node`, with both bias vectors: a missing B is 0.

    Weights keep their type, float32 or float64, and their bits; only `input_forget` = 1, read as
    onnxruntime computes it, turns the sign of the coupled gate. Raises `ConversionError` for an
    attribute that no cell here has, for shapes that do not fit each other, for a type of weights
    that is none of the two.
    """
    _refuse_unknown(node)
    directions = len(directions_of_node(node))
    units = _checked_weights(node, directions)
    functions = _functions(node, directions)
    return tuple(
        _cell_of_way(node, way, units, activation) for way, activation in enumerate(functions)
    )


def directions_of_node(node: RecurrentNode) -> tuple[Literal["forward", "backward"], ...]:
    """Return the way or the two ways in which `node` reads."""
    direction = node.attributes.get("direction", "forward")
    match direction:
        case "forward":
            return ("forward",)
        case "reverse":
            return ("backward",)
        case "bidirectional":
            return ("forward", "backward")
    raise _unreadable(node, "direction", direction, "forward, reverse, bidirectional")


@singledispatch
def plain_cell(cell: Cell) -> Cell:
    """Return `cell` as ONNX can hold it, rewritten exactly where that is needed, two biases.

    GRUs that replace and MGUs become GRUs that keep, coupled LSTMs get an input gate of their own;
    an absent bias is 0. Raises `ConversionError` for a cell that ONNX has no operator for, and for
    weights that are not float32: onnxruntime runs no other type in LSTMs.
    """
    raise ConversionError(
        "ONNX has no operator for this cell",
        got=cell.key,
        allowed="elman, gru, lstm, mgu",
        hint="train with model.kind gru, the nearest that ONNX has",
    )


@plain_cell.register
def _(cell: ElmanCell) -> Cell:
    return with_two_biases(_float32(cell))


@plain_cell.register
def _(cell: GRUCell) -> Cell:
    return with_two_biases(as_keep(_float32(cell)))


@plain_cell.register
def _(cell: MGUCell) -> Cell:
    return with_two_biases(as_keep(mgu_as_gru(_float32(cell))))


@plain_cell.register
def _(cell: LSTMCell) -> Cell:
    for name, there, instead in (
        ("layer normalisation within the step", cell.options.layer_norm, "model.layer_norm layers"),
        ("a projection", cell.options.projection_size > 0, "model.projection_size 0"),
    ):
        if there:
            raise ConversionError(
                f"the LSTM of ONNX has no place for {name}",
                got=cell.key,
                hint=f"train with {instead}, the nearest that ONNX has",
            )
    return with_two_biases(uncoupled(_float32(cell)))


@singledispatch
def restored_cell(blank: Cell, plain: Cell) -> Cell:
    """Return `blank` with the weights of which `plain_cell` made `plain`: its exact inverse.

    Of a `plain` that no such cell can have become, it returns another cell: whoever calls compares
    `plain_cell` of what is returned. Raises `ConversionError` where the sizes do not fit.
    """
    return _filled(blank, dict(plain.named_parameters()))


@restored_cell.register
def _(blank: GRUCell, plain: Cell) -> Cell:
    weights: dict[str, Tensor] = dict(plain.named_parameters())
    if blank.update == "replace":
        for name, weight in weights.items():
            r, z, n = weight.chunk(3)
            weights[name] = torch.cat([r, -z, n])
    return _filled(blank, weights)


@restored_cell.register
def _(blank: MGUCell, plain: Cell) -> Cell:
    parts = {name: weight.chunk(3) for name, weight in plain.named_parameters()}
    return _filled(blank, {name: torch.cat([r, n]) for name, (r, _, n) in parts.items()})


@restored_cell.register
def _(blank: LSTMCell, plain: Cell) -> Cell:
    first = blank.hidden_size if blank.options.coupled else 0
    return _filled(blank, {name: weight[first:] for name, weight in plain.named_parameters()})


def _filled(blank: CellKind, weights: Mapping[str, Tensor]) -> CellKind:
    for name, parameter in blank.named_parameters():
        weight = weights.get(name)
        if weight is None or weight.shape != parameter.shape:
            raise ConversionError(
                f"{name} of {blank.key} has another size in the file than in its settings",
                got="none" if weight is None else str(tuple(weight.shape)),
                allowed=str(tuple(parameter.shape)),
            )
    blank.to(next(iter(weights.values())).dtype)
    with torch.no_grad():
        for name, parameter in blank.named_parameters():
            parameter.copy_(weights[name])
    return blank


def _float32(cell: CellKind) -> CellKind:
    if cell.weight_ih.dtype != torch.float32:
        raise ConversionError(
            f"the weights of {cell.key} must be float32 for ONNX: onnxruntime runs no other LSTM",
            got=str(cell.weight_ih.dtype).removeprefix("torch."),
            hint="call .float() on the model first",
        )
    return cell


def _op_type(cell: Cell) -> str:
    if isinstance(cell, ElmanCell):
        return "RNN"
    return "GRU" if isinstance(cell, GRUCell) else "LSTM"


def _family(cell: Cell) -> tuple[str, int]:
    """Return what the two cells of a node must share: all but an Elman cell's function."""
    return ("elman" if isinstance(cell, ElmanCell) else cell.key, cell.hidden_size)


def _reordered(weight: Tensor, order: Sequence[int]) -> Array:
    blocks = weight.detach().cpu().numpy().reshape(len(order), -1, *weight.shape[1:])
    return blocks[list(order)].reshape(weight.shape)


def _both_biases(cell: Cell, order: Sequence[int]) -> Array:
    assert cell.bias_ih is not None  # plain cells have both
    assert cell.bias_hh is not None
    return np.concatenate([_reordered(cell.bias_ih, order), _reordered(cell.bias_hh, order)])


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(place) for place in range(len(order))]


def _cell_of_way(node: RecurrentNode, way: int, units: int, activation: Activation) -> Cell:
    order = _inverse(_ROWS[node.op_type])
    w, r = torch.tensor(node.weights["W"][way]), torch.tensor(node.weights["R"][way])
    rows = len(order) * units
    both = torch.tensor(node.weights["B"][way]) if "B" in node.weights else w.new_zeros(2 * rows)
    weights = {"weight_ih": w, "weight_hh": r, "bias_ih": both[:rows], "bias_hh": both[rows:]}
    weights = {name: torch.tensor(_reordered(part, order)) for name, part in weights.items()}
    if "P" in node.weights:
        peephole = torch.tensor(node.weights["P"][way])
        weights["peephole"] = torch.tensor(_reordered(peephole, _inverse(_PEEPHOLES)))
    size = w.shape[1]
    if node.op_type == "RNN":
        return _filled(ElmanCell(size, units, activation=activation), weights)
    if node.op_type == "GRU":
        after = node.attributes.get("linear_before_reset", 0) == 1
        reset: Reset = "after" if after else "before"
        return _filled(GRUCell(size, units, reset=reset), weights)
    coupled = bool(node.attributes.get("input_forget", 0))
    if coupled:  # f = 1 − σ(a_i) = σ(−a_i), i = 1 − f; the rows of f are read by nobody
        weights = {
            name: torch.cat([-part[:units], part[2 * units :]]) for name, part in weights.items()
        }
    options = LSTMOptions(peepholes="P" in node.weights, coupled=coupled)
    return _filled(LSTMCell(size, units, options=options), weights)


def _refuse_unknown(node: RecurrentNode) -> None:
    if node.op_type not in RECURRENT_OPS:
        raise ConversionError(
            f"{node.name} is no recurrent node", got=node.op_type, allowed=", ".join(RECURRENT_OPS)
        )
    known = _KNOWN_ALWAYS | _KNOWN[node.op_type]
    for name, value in node.attributes.items():
        if name not in known:
            raise _unreadable(node, name, value, "a node without it")
    for name in ("layout", "linear_before_reset", "input_forget"):
        value = node.attributes.get(name, 0)
        if value not in ((0,) if name == "layout" else (0, 1)):
            raise _unreadable(node, name, value, "0" if name == "layout" else "0, 1")


def _functions(node: RecurrentNode, directions: int) -> Iterator[Activation]:
    """Yield each direction's function of an Elman cell; those of gated cells must be σ and tanh."""
    default = _GATE_FUNCTIONS[node.op_type] or ("tanh",)
    names = [str(name).lower() for name in node.attributes.get("activations", ())]
    names = names or [*default] * directions
    alpha = list(node.attributes.get("activation_alpha", ()))
    beta = list(node.attributes.get("activation_beta", ()))
    affine = names.count("affine")
    here: dict[str, Activation] = {theirs.lower(): ours for ours, theirs in _ACTIVATIONS.items()}
    fit = len(names) == directions * len(default)
    if _GATE_FUNCTIONS[node.op_type]:
        fit = fit and names == [*default] * directions
    else:
        fit = fit and all(name in here for name in names)
    if not fit:
        allowed = ", ".join(default) if node.op_type != "RNN" else "Tanh, Relu, Affine(1, 0)"
        raise _unreadable(node, "activations", names, f"{allowed} in each direction")
    for name, values, value in (("activation_alpha", alpha, 1.0), ("activation_beta", beta, 0.0)):
        if values != [value] * affine:
            raise _unreadable(node, name, values, f"{value:g} for each Affine and no other")
    for way in range(directions):
        yield here[names[way]] if node.op_type == "RNN" else "tanh"


def _checked_weights(node: RecurrentNode, directions: int) -> int:
    """Return the number of units, once every weight has the shape and type it must have."""
    gates = len(_ROWS[node.op_type])
    for name in ("W", "R"):
        if name not in node.weights or node.weights[name].ndim != 3:
            raise _unreadable(node, name, "none of three axes", "one of three axes")
    units, size = int(node.weights["R"].shape[2]), int(node.weights["W"].shape[2])
    wanted = {
        "W": (directions, gates * units, size),
        "R": (directions, gates * units, units),
        "B": (directions, 2 * gates * units),
        "P": (directions, 3 * units),
    }
    types = {weight.dtype.name for weight in node.weights.values()}
    if len(types) > 1 or not types <= {"float32", "float64"}:
        raise _unreadable(node, "type", ", ".join(sorted(types)), "float32 or float64 throughout")
    for name, weight in node.weights.items():
        if name not in wanted or (name == "P" and node.op_type != "LSTM"):
            raise _unreadable(node, name, weight.shape, "a node without it")
        if weight.shape != wanted[name]:
            raise _unreadable(node, f"shape of {name}", weight.shape, str(wanted[name]))
    if min(units, size) < 1 or node.attributes.get("hidden_size", units) != units:
        raise _unreadable(node, "hidden_size", node.attributes.get("hidden_size"), str(units))
    return units


def _unreadable(node: RecurrentNode, what: str, got: object, allowed: str) -> ConversionError:
    return ConversionError(
        f"the {what} of {node.name} ({node.op_type}) cannot be converted",
        got=str(got),
        allowed=allowed,
    )
