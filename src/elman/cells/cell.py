"""What every recurrent cell is: parameters under torch's names, one step, a state as a value."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from elman.errors import SettingError

CellState = tuple[Tensor, ...]
"""Any cell's state: a `NamedTuple` of tensors [B, H]; its first field, `h_BH`, is the output."""


class Cell(nn.Module, ABC):
    """One step of a recurrent network: (x_BE, state) → state.

    Parameters have the names, shapes and gate order of torch's `RNNCell`, `GRUCell`, `LSTMCell`:
    `weight_ih` [G, E], `weight_hh` [G, H], `bias_ih` [G], `bias_hh` [G] with G = num_gates · H.
    They are all zero until `initialise` draws them or a state dict is loaded; nothing here is
    random by itself. A cell has no training mode: `step` is the same function always.
    """

    num_gates: ClassVar[int]
    gate_names: ClassVar[tuple[str, ...]]
    """The keys of `gates`, in the order in which the equations use them."""
    state_names: ClassVar[tuple[str, ...]] = ("h",)

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias_ih: nn.Parameter
    bias_hh: nn.Parameter

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        _require_size(type(self).__name__, "input_size", input_size)
        _require_size(type(self).__name__, "hidden_size", hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self.num_gates * hidden_size
        self.weight_ih = nn.Parameter(torch.zeros(rows, input_size))
        self.weight_hh = nn.Parameter(torch.zeros(rows, hidden_size))
        self.bias_ih = nn.Parameter(torch.zeros(rows))
        self.bias_hh = nn.Parameter(torch.zeros(rows))

    @property
    @abstractmethod
    def key(self) -> str:
        """The name of the equations, such as `gru/after/keep`: kernels are looked up by it."""

    @abstractmethod
    def gates(self, x_BE: Tensor, state: CellState) -> dict[str, Tensor]:
        """Return every named gate value [B, H] of one step, under the keys `gate_names`."""

    @abstractmethod
    def step(self, x_BE: Tensor, state: CellState) -> CellState:
        """Return the state after reading x_BE: the class's equation on the values of `gates`."""

    @abstractmethod
    def pack_state(self, parts: Sequence[Tensor]) -> CellState:
        """Return this cell's `NamedTuple` of `parts`, which come in the order of `state_names`."""

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The parameters in torch's order: weight_ih, weight_hh, bias_ih, bias_hh."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def zero_state(
        self,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> CellState:
        """Return zeros [B, H] for each part; type and device are the weights' unless given."""
        dtype = self.weight_hh.dtype if dtype is None else dtype
        device = self.weight_hh.device if device is None else device
        shape = (batch_size, self.hidden_size)
        return self.pack_state(
            [torch.zeros(shape, dtype=dtype, device=device) for _ in self.state_names]
        )

    def initialise(self, generator: torch.Generator) -> None:
        """Draw every parameter uniformly from ±1/√H, torch's own rule, in torch's order."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        with torch.no_grad():
            for weight in self.weights:
                weight.uniform_(-bound, bound, generator=generator)


def cell_parameter_count(num_gates: int, input_size: int, hidden_size: int) -> int:
    """Return gates · H · (E + H + 2): two matrices and two bias vectors for each gate.

    With E = 16 and H = 32 that is 1,600 for one gate (Elman), 4,800 for three (GRU) and 6,400 for
    four (LSTM). Frameworks that keep one bias vector count gates · H fewer.
    """
    return num_gates * hidden_size * (input_size + hidden_size + 2)


def _require_size(owner: str, name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingError(f"{name} of {owner} must be an int >= 1", got=repr(value))
