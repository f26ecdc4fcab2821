"""What every recurrent cell is: parameters under torch's names, one step, a state as a value."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from elman.cells.initialising import Initialisation, draw_weights
from elman.errors import SettingError

CellState = tuple[Tensor, ...]
"""Any cell's state: a `NamedTuple` of tensors; its first field, `h`, is the output."""

BiasKind = Literal["two", "one", "none"]


class Cell(nn.Module, ABC):
    """One step of a recurrent network: (x_BE, state) → state.

    Parameters have the names, shapes and gate order of torch's `RNNCell`, `GRUCell`, `LSTMCell`:
    `weight_ih` [G, E], `weight_hh` [G, P], `bias_ih` [G], `bias_hh` [G] with G = num_gates · H,
    and P the width of the output: H, unless the cell projects it. `bias` says which of the two
    bias vectors there are: "one" leaves `bias_hh` out, "none" both. They are all zero until
    `initialise` draws them or a state dict is loaded; nothing here is random by itself. A cell has
    no training mode: `step` is the same function always.
    """

    num_gates: ClassVar[int]
    gate_names: ClassVar[tuple[str, ...]]
    """The keys of `gates`, in the order in which the equations use them."""
    state_names: ClassVar[tuple[str, ...]] = ("h",)
    is_recurrent: ClassVar[bool] = True
    """Whether the gates see the state: without, there is no `weight_hh` and no `bias_hh`."""

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        output_size: int | None = None,
        bias: BiasKind = "two",
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.input_size = _checked_size(name, "input_size", input_size)
        self.hidden_size = _checked_size(name, "hidden_size", hidden_size)
        self.output_size = hidden_size if output_size is None else output_size
        if bias not in ("two", "one", "none"):
            raise SettingError(
                f"bias of {name} is unknown", got=repr(bias), allowed="two, one, none"
            )
        self.bias: BiasKind = bias
        rows = self.num_rows
        self.weight_ih = nn.Parameter(torch.zeros(rows, input_size))
        if self.is_recurrent:
            self.weight_hh = nn.Parameter(torch.zeros(rows, self.output_size))
        self.bias_ih = None if bias == "none" else nn.Parameter(torch.zeros(rows))
        second = bias == "two" and self.is_recurrent
        self.bias_hh = nn.Parameter(torch.zeros(rows)) if second else None

    @property
    @abstractmethod
    def key(self) -> str:
        """The name of the equations, such as `gru/after/keep`: kernels are looked up by it."""

    @abstractmethod
    def gates(
        self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return every named gate value [B, H] of one step, under the keys `gate_names`.

        `seen_BP` is what the recurrent products see in place of the output h (dropout on it).
        """

    @abstractmethod
    def combine(self, gates: Mapping[str, Tensor], state: CellState) -> CellState:
        """Return the state after a step whose gates have these values: what they do to `state`."""

    def step(self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None) -> CellState:
        """Return the state after reading x_BE: `combine` on the values of `gates`."""
        return self.combine(self.gates(x_BE, state, seen_BP), state)

    @abstractmethod
    def pack_state(self, parts: Sequence[Tensor]) -> CellState:
        """Return this cell's `NamedTuple` of `parts`, which come in the order of `state_names`."""

    @property
    def num_rows(self) -> int:
        """Rows of the input matrix: G = num_gates · H."""
        return self.num_gates * self.hidden_size

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each part of the state, in the order of `state_names`."""
        return (self.output_size, *(self.hidden_size for _ in self.state_names[1:]))

    @property
    def weights(self) -> tuple[nn.Parameter, ...]:
        """The parameters that there are, in torch's order, those of the cell's own after them."""
        return tuple(self.parameters())

    @property
    def kernel_weights(self) -> tuple[Tensor, ...]:
        """What kernels take: `weights` with zeros in place of a bias that is not there."""
        if not self.is_recurrent:
            return (self.weight_ih, self._bias(self.bias_ih))
        four = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}
        own = [weight for name, weight in self.named_parameters() if name not in four]
        biases = self._bias(self.bias_ih), self._bias(self.bias_hh)
        return (self.weight_ih, self.weight_hh, *biases, *own)

    def with_weights(self, weights: Mapping[str, Tensor]) -> Self:
        """Return this cell on other tensors, through which gradients flow; it shares the rest.

        Raises `KeyError` for a name that is no parameter.
        """
        twin = copy.copy(self)
        unknown = set(weights) - set(self._parameters)
        if unknown:
            raise KeyError(f"no parameter of {self.key}: {', '.join(sorted(unknown))}")
        object.__setattr__(twin, "_parameters", {**self._parameters, **weights})
        return twin

    def zero_state(
        self,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> CellState:
        """Return zeros for each part; type and device are the weights' unless given."""
        dtype = self.weight_ih.dtype if dtype is None else dtype
        device = self.weight_ih.device if device is None else device
        return self.pack_state(
            [torch.zeros(batch_size, size, dtype=dtype, device=device) for size in self.state_sizes]
        )

    def initialise(self, generator: torch.Generator, scheme: Initialisation = "uniform") -> None:
        """Draw every parameter by `scheme` (`elman.cells.initialising`), in torch's order."""
        draw_weights(self.named_parameters(), self.hidden_size, scheme, generator)

    def parameter_count(self) -> int:
        """Return `cell_parameter_count` of this cell, plus what its own equation adds."""
        return cell_parameter_count(
            self.num_gates,
            self.input_size,
            self.hidden_size,
            recurrent_size=self.output_size if self.is_recurrent else 0,
            num_biases=sum(bias is not None for bias in (self.bias_ih, self.bias_hh)),
        )

    def _bias(self, bias: Tensor | None) -> Tensor:
        return self.weight_ih.new_zeros(self.num_rows) if bias is None else bias


def cell_parameter_count(
    num_gates: int,
    input_size: int,
    hidden_size: int,
    *,
    recurrent_size: int | None = None,
    num_biases: int = 2,
) -> int:
    """Return gates · H · (E + P + biases): two matrices and the bias vectors of each gate.

    P is `recurrent_size`, H unless given. With E = 16 and H = 32 that is 1,600 for one gate
    (Elman), 4,800 for three (GRU) and 6,400 for four (LSTM). Frameworks that keep one bias vector
    count gates · H fewer.
    """
    recurrent = hidden_size if recurrent_size is None else recurrent_size
    return num_gates * hidden_size * (input_size + recurrent + num_biases)


def _checked_size(owner: str, name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingError(f"{name} of {owner} must be an int >= 1", got=repr(value))
    return value
