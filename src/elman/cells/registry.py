"""Every cell there is, under its key: what settings build, what the contract suite runs over."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from elman.cells.cell import BiasKind, Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.mgu import MGUCell
from elman.cells.min_gru import MinGRUCell
from elman.cells.min_lstm import MinLSTMCell
from elman.config.model_settings import ModelSettings


def _lstm(options: LSTMOptions, *, projected: bool = False) -> Callable[[int, int], Cell]:
    """Return the builder of an LSTM with `options`, `projected` to half its units where asked."""

    def build(input_size: int, hidden_size: int) -> Cell:
        size = (hidden_size + 1) // 2 if projected else 0
        return LSTMCell(input_size, hidden_size, options=replace(options, projection_size=size))

    return build


CELLS: Mapping[str, Callable[[int, int], Cell]] = MappingProxyType(
    {
        "elman/tanh": lambda E, H: ElmanCell(E, H, activation="tanh"),
        "elman/relu": lambda E, H: ElmanCell(E, H, activation="relu"),
        "elman/identity": lambda E, H: ElmanCell(E, H, activation="identity"),
        "elman/tanh, one bias": lambda E, H: ElmanCell(E, H, bias="one"),
        "gru/after/keep": lambda E, H: GRUCell(E, H, reset="after", update="keep"),
        "gru/after/replace": lambda E, H: GRUCell(E, H, reset="after", update="replace"),
        "gru/before/keep": lambda E, H: GRUCell(E, H, reset="before", update="keep"),
        "gru/before/replace": lambda E, H: GRUCell(E, H, reset="before", update="replace"),
        "gru/after/keep, one bias": lambda E, H: GRUCell(E, H, bias="one"),
        "gru/before/keep, one bias": lambda E, H: GRUCell(E, H, reset="before", bias="one"),
        "lstm": lambda E, H: LSTMCell(E, H),
        "lstm, one bias": lambda E, H: LSTMCell(E, H, bias="one"),
        "lstm, no bias": lambda E, H: LSTMCell(E, H, bias="none"),
        "lstm+peepholes": _lstm(LSTMOptions(peepholes=True)),
        "lstm+coupled": _lstm(LSTMOptions(coupled=True)),
        "lstm+layer_norm": _lstm(LSTMOptions(layer_norm=True)),
        "lstm+projection": _lstm(LSTMOptions(), projected=True),
        "lstm+peepholes+coupled+layer_norm+projection": _lstm(
            LSTMOptions(peepholes=True, coupled=True, layer_norm=True), projected=True
        ),
        "mgu": lambda E, H: MGUCell(E, H),
        "mingru": lambda E, H: MinGRUCell(E, H),
        "minlstm": lambda E, H: MinLSTMCell(E, H),
    }
)
"""Name → (input_size, hidden_size) → cell, all zero. A cell added here gets every contract.

The name is the cell's `key`, and after a comma how many bias vectors it has where not torch's two.
"""


def build_cell(settings: ModelSettings, input_size: int, layer: int = 0) -> Cell:
    """Return the cell of `settings` for a `layer` that reads `input_size` features, all zero."""
    return _BUILDERS[settings.kind](settings, input_size, layer)


def _build_lstm(s: ModelSettings, input_size: int, layer: int) -> Cell:
    options = LSTMOptions(
        peepholes=s.peepholes,
        coupled=s.coupled,
        layer_norm=s.layer_norm in ("cell", "both"),
        projection_size=s.projection_size,
    )
    bias = _forget_bias(s, layer)
    return LSTMCell(input_size, s.hidden_size, forget_bias=bias, options=options, bias=s.bias)


def _forget_bias(s: ModelSettings, layer: int) -> float:
    return s.forget_biases[layer] if s.forget_biases else s.forget_bias


def _only_bias(s: ModelSettings) -> BiasKind:
    """Return the bias of a cell that has one vector at most."""
    return "none" if s.bias == "none" else "one"


_BUILDERS: Mapping[str, Callable[[ModelSettings, int, int], Cell]] = MappingProxyType(
    {
        "elman": lambda s, E, _: ElmanCell(E, s.hidden_size, activation=s.activation, bias=s.bias),
        "gru": lambda s, E, _: GRUCell(
            E, s.hidden_size, reset=s.reset, update=s.update, bias=s.bias
        ),
        "lstm": _build_lstm,
        "mgu": lambda s, E, _: MGUCell(E, s.hidden_size, bias=s.bias),
        "mingru": lambda s, E, _: MinGRUCell(E, s.hidden_size, bias=_only_bias(s)),
        "minlstm": lambda s, E, layer: MinLSTMCell(
            E, s.hidden_size, forget_bias=_forget_bias(s, layer), bias=_only_bias(s)
        ),
    }
)
