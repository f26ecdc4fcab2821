"""A stack of recurrent layers ↔ `torch.nn.RNN`, `GRU` or `LSTM`, exactly or not at all."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NoReturn

import torch
from torch import Tensor, nn

from elman.cells.cell import BiasKind, Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.checkpoints.foreign.rewriting import as_keep, uncoupled, with_two_biases
from elman.errors import ConversionError
from elman.layers.stack import RecurrentStack, StackOptions

TorchKind = Literal["RNN_TANH", "RNN_RELU", "GRU", "LSTM"]
"""The recurrences of torch, under the names of its word language model example."""

_NO_SUCH_CELL: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "mgu": ("minimal gated unit", "gru"),
        "mingru": ("minGRU", "gru"),
        "minlstm": ("minLSTM", "lstm"),
    }
)


def stack_to_torch(stack: RecurrentStack) -> nn.RNNBase:
    """Return the `nn.RNN`, `nn.GRU` or `nn.LSTM`, batch first, that computes what `stack` does.

    Of any depth and one or two directions; its state is `flat_state` of ours. Where torch has the
    very convention, the weights are the same bits; else they are rewritten (`rewriting`): one bias
    becomes two, an update gate that replaces one that keeps, coupled gates an LSTM's four. Dropout
    between layers goes along where it is ordinary; noise that acts in training only is left out.
    The module is in evaluation mode and has the stack's type and device.

    Raises `ConversionError`, with the reason and the nearest model that torch has, for the reset
    gate before the product, minimal cells, peepholes, normalisation, residual connections, zoneout,
    the identity as activation, a projection to the full width, and cells of several kinds.
    """
    _require_plain(stack)
    cells = [in_torch_terms(stack.cell(place)) for place in range(len(stack.cells))]
    if any(cell.bias != "none" for cell in cells):
        cells = [cell if cell.bias == "two" else with_two_biases(cell) for cell in cells]
    _require_one_kind(cells)
    module = _blank_module(cells[0], stack)
    with torch.no_grad():
        for place, cell in enumerate(cells):
            for name, weight in cell.named_parameters():
                getattr(module, torch_name(name, place, stack.num_directions)).copy_(weight)
    return module.eval()


def stack_from_torch(module: nn.RNNBase) -> RecurrentStack:
    """Return the stack with the weights of `module`, bit for bit; it is always batch first.

    Raises `ConversionError` for a class derived from torch's three, whose equations may differ.
    """
    if type(module) not in (nn.RNN, nn.GRU, nn.LSTM):
        raise ConversionError(
            "only torch's own recurrences can be read",
            got=type(module).__name__,
            allowed="nn.RNN, nn.GRU, nn.LSTM",
        )
    directions = 2 if module.bidirectional else 1
    written = (module.proj_size or module.hidden_size) * directions
    first = module.weight_ih_l0
    assert isinstance(first, Tensor)  # torch's types do not say so
    cells: list[Cell] = []
    for place in range(module.num_layers * directions):
        width = module.input_size if place < directions else written
        cell = _blank_cell(module, width).to(first)
        with torch.no_grad():
            for name, weight in cell.named_parameters():
                weight.copy_(getattr(module, torch_name(name, place, directions)))
        cells.append(cell)
    options = StackOptions(dropout=module.dropout)
    return RecurrentStack(cells, num_directions=directions, options=options)


def torch_kind(cell: Cell) -> TorchKind:
    """Return which of torch's recurrences `cell`, already in torch's terms, is."""
    if isinstance(cell, LSTMCell):
        return "LSTM"
    if isinstance(cell, GRUCell):
        return "GRU"
    assert isinstance(cell, ElmanCell)  # in_torch_terms lets no other through
    return "RNN_RELU" if cell.activation == "relu" else "RNN_TANH"


def torch_name(name: str, place: int, num_directions: int = 1) -> str:
    """Return torch's name of the parameter `name` of the cell at `place`: weight_ih_l1_reverse."""
    layer, way = divmod(place, num_directions)
    return f"{name}_l{layer}{'_reverse' if way else ''}"


def in_torch_terms(cell: Cell) -> Cell:
    """Return `cell`, rewritten where torch has another convention, with the biases that it has.

    Raises `ConversionError` where torch has no such cell.
    """
    match cell:
        case ElmanCell():
            if cell.activation == "identity":
                _refuse(
                    "torch's RNN has no identity activation",
                    'the nearest it has is model.activation = "relu" or "tanh"',
                )
            return cell
        case GRUCell():
            if cell.reset == "before":
                _refuse(
                    "torch's GRU applies the reset gate after the recurrent product only",
                    'train with model.reset = "after", the nearest it has',
                )
            return as_keep(cell)
        case LSTMCell():
            _require_plain_lstm(cell)
            return uncoupled(cell)
    name, nearest = _NO_SUCH_CELL.get(cell.key, (cell.key, "lstm"))
    _refuse(f"torch has no {name}", f'the nearest it has is model.kind = "{nearest}"')


def _require_plain_lstm(cell: LSTMCell) -> None:
    if cell.options.peepholes:
        _refuse("torch's LSTM has no peepholes", "the nearest it has is model.peepholes = false")
    if cell.options.layer_norm:
        _refuse(
            "torch's LSTM has no layer normalisation",
            'the nearest it has is model.layer_norm = "none"',
        )
    if cell.options.projection_size == cell.hidden_size:
        _refuse(
            "torch's LSTM has no projection to the full width",
            f"the nearest it has is model.projection_size = {cell.hidden_size - 1}, or 0 for none",
        )


def _require_plain(stack: RecurrentStack) -> None:
    noise = stack.options.noise
    if stack.options.layer_norm:
        _refuse(
            "torch has no layer normalisation between recurrent layers",
            'the nearest it has is model.layer_norm = "none"',
        )
    if stack.options.residual and _adds(stack):
        _refuse(
            "torch's recurrent layers have no residual connections",
            "the nearest it has is model.residual = false",
        )
    if noise.zoneout or noise.zoneout_cell:  # without a generator their expectation acts
        _refuse(
            "torch has no zoneout, which acts after training as well, by its expectation",
            "the nearest it has is model.recurrent_dropout, which acts in training only",
        )


def _adds(stack: RecurrentStack) -> bool:
    """Return whether some layer writes what it reads in width, so that the two are added."""
    ways = stack.num_directions
    for first in range(0, len(stack.cells), ways):
        row = [stack.cell(first + way) for way in range(ways)]
        if row[0].input_size == sum(cell.output_size for cell in row):
            return True
    return False


def _require_one_kind(cells: Iterable[Cell]) -> None:
    kinds = {f"{cell.key} of {cell.hidden_size} to {cell.output_size} units": 0 for cell in cells}
    if len(kinds) > 1:
        _refuse("torch's recurrences have one kind of cell in all layers", got=", ".join(kinds))


def _blank_module(cell: Cell, stack: RecurrentStack) -> nn.RNNBase:
    """Return a module like `cell` in every layer; its weights are not yet anything."""
    options = stack.options
    between = (
        options.dropout if stack.num_layers > 1 and options.dropout_kind == "ordinary" else 0.0
    )
    sizes = (stack.input_size, cell.hidden_size, stack.num_layers)
    bias, two = cell.bias != "none", stack.num_directions == 2
    # Made without memory, so that torch draws no starting values from its global generator.
    module: nn.RNNBase
    match torch_kind(cell):
        case "LSTM":
            size = cell.output_size if cell.output_size < cell.hidden_size else 0
            module = nn.LSTM(*sizes, bias, True, between, two, size, device="meta")
        case "GRU":
            module = nn.GRU(*sizes, bias, True, between, two, device="meta")
        case kind:
            f = kind.removeprefix("RNN_").lower()
            module = nn.RNN(*sizes, f, bias, True, between, two, device="meta")
    module.to(cell.weight_ih.dtype)
    return module.to_empty(device=cell.weight_ih.device)


def _blank_cell(module: nn.RNNBase, width: int) -> Cell:
    units = module.hidden_size
    bias: BiasKind = "two" if module.bias else "none"
    match module.mode:
        case "LSTM":
            options = LSTMOptions(projection_size=module.proj_size)
            return LSTMCell(width, units, options=options, bias=bias)
        case "GRU":
            return GRUCell(width, units, bias=bias)
        case "RNN_RELU":
            return ElmanCell(width, units, activation="relu", bias=bias)
        case _:
            return ElmanCell(width, units, activation="tanh", bias=bias)


def _refuse(what: str, hint: str = "", *, got: str = "") -> NoReturn:
    raise ConversionError(what, got=got, hint=hint)
