"""Every cell there is, under its key: what settings build, what the contract suite runs over."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.config.settings import ModelSettings

CELLS: Mapping[str, Callable[[int, int], Cell]] = MappingProxyType(
    {
        "elman/tanh": lambda E, H: ElmanCell(E, H, activation="tanh"),
        "elman/relu": lambda E, H: ElmanCell(E, H, activation="relu"),
        "elman/identity": lambda E, H: ElmanCell(E, H, activation="identity"),
        "gru/after/keep": lambda E, H: GRUCell(E, H, reset="after", update="keep"),
        "gru/after/replace": lambda E, H: GRUCell(E, H, reset="after", update="replace"),
        "gru/before/keep": lambda E, H: GRUCell(E, H, reset="before", update="keep"),
        "gru/before/replace": lambda E, H: GRUCell(E, H, reset="before", update="replace"),
        "lstm": lambda E, H: LSTMCell(E, H),
    }
)
"""Key → (input_size, hidden_size) → cell, all zero. A cell added here gets every contract."""

_BUILDERS: Mapping[str, Callable[[ModelSettings, int], Cell]] = MappingProxyType(
    {
        "elman": lambda s, E: ElmanCell(E, s.hidden_size, activation=s.activation),
        "gru": lambda s, E: GRUCell(E, s.hidden_size, reset=s.reset, update=s.update),
        "lstm": lambda s, E: LSTMCell(E, s.hidden_size, forget_bias=s.forget_bias),
    }
)


def build_cell(settings: ModelSettings, input_size: int) -> Cell:
    """Return the cell of `settings` reading `input_size` features; parameters are zero."""
    return _BUILDERS[settings.kind](settings, input_size)
