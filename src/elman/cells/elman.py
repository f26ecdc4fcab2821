"""The simple recurrent network: one affine step and one function."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import BiasKind, Cell, CellState
from elman.errors import SettingError

Activation = Literal["tanh", "relu", "identity"]


def _identity(a_BH: Tensor) -> Tensor:
    return a_BH


_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"tanh": torch.tanh, "relu": torch.relu, "identity": _identity}
)


class ElmanState(NamedTuple):
    """The state of an Elman cell: its last output."""

    h_BH: Tensor


class ElmanCell(Cell):
    """Elman's recurrent step.

        a_t = W_ih x_t + b_ih + W_hh h_{t−1} + b_hh
        h_t = f(a_t),  f one of tanh, relu, identity

    x_BE [B, E], h_BH [B, H]; parameters as in `Cell` with one gate, H · (E + H + 2) of them.
    Source: J. L. Elman, Finding Structure in Time, Cognitive Science 14 (1990), whose f is the
    logistic function; tanh and relu are those of `torch.nn.RNN`, identity is not in torch.
    """

    num_gates: ClassVar[int] = 1
    gate_names: ClassVar[tuple[str, ...]] = ("preactivation",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: Activation = "tanh",
        bias: BiasKind = "two",
    ) -> None:
        super().__init__(input_size, hidden_size, bias=bias)
        if activation not in _ACTIVATIONS:
            raise SettingError(
                "activation of ElmanCell is unknown",
                got=repr(activation),
                allowed=", ".join(_ACTIVATIONS),
            )
        self.activation: Activation = activation

    @property
    def key(self) -> str:
        """`elman/tanh`, `elman/relu` or `elman/identity`."""
        return f"elman/{self.activation}"

    def gates(
        self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the preactivation a_t [B, H]; an Elman cell has no gate."""
        h_BH = state[0] if seen_BP is None else seen_BP
        a_BH = linear(x_BE, self.weight_ih, self.bias_ih) + linear(
            h_BH, self.weight_hh, self.bias_hh
        )
        return {"preactivation": a_BH}

    def combine(self, gates: Mapping[str, Tensor], state: CellState) -> ElmanState:
        """Return h_t = f(a_t)."""
        return ElmanState(_ACTIVATIONS[self.activation](gates["preactivation"]))

    def pack_state(self, parts: Sequence[Tensor]) -> ElmanState:
        """Return `ElmanState(h_BH)`."""
        (h_BH,) = parts
        return ElmanState(h_BH)
