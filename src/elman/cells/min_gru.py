"""The minGRU: gates that never see the state, so that all steps can be computed at once."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import BiasKind, Cell, CellState


class MinGRUState(NamedTuple):
    """The state of a minGRU: its last output."""

    h_BH: Tensor


def positive(a_BH: Tensor) -> Tensor:
    """Return g(a) = a + 0.5 where a ≥ 0, σ(a) elsewhere: positive, continuous, increasing."""
    return torch.where(a_BH >= 0.0, a_BH + 0.5, torch.sigmoid(a_BH))


class MinGRUCell(Cell):
    """The minGRU step. Rows of `weight_ih` and `bias_ih`: z, n. There is no `weight_hh`.

        z_t = σ(W_z x_t + b_z)
        n_t = g(W_n x_t + b_n),  g(a) = a + 0.5 where a ≥ 0, σ(a) elsewhere
        h_t = (1 − z_t) ∘ h_{t−1} + z_t ∘ n_t

    x_BE [B, E], h_BH [B, H]; 2 · H · (E + 1) parameters. Source: L. Feng et al.,
    arXiv:2410.01201, section 3.1 and algorithm 6 (the form for a scan in log-space). An initial
    state of any sign is allowed, zeros unless given; the paper's is g of something.
    """

    num_gates: ClassVar[int] = 2
    gate_names: ClassVar[tuple[str, ...]] = ("update", "candidate")
    is_recurrent: ClassVar[bool] = False

    def __init__(self, input_size: int, hidden_size: int, *, bias: BiasKind = "one") -> None:
        super().__init__(input_size, hidden_size, bias=bias)

    @property
    def key(self) -> str:
        """`mingru`."""
        return "mingru"

    def gates(
        self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return update z_t and candidate n_t, each [B, H]; neither depends on the state."""
        z_BH, n_BH = linear(x_BE, self.weight_ih, self.bias_ih).chunk(2, dim=1)
        return {"update": torch.sigmoid(z_BH), "candidate": positive(n_BH)}

    def combine(self, gates: Mapping[str, Tensor], state: CellState) -> MinGRUState:
        """Return h_t, the old state and the candidate mixed by the update gate."""
        (h_BH,) = state
        return MinGRUState(h_BH + gates["update"] * (gates["candidate"] - h_BH))

    def pack_state(self, parts: Sequence[Tensor]) -> MinGRUState:
        """Return `MinGRUState(h_BH)`."""
        (h_BH,) = parts
        return MinGRUState(h_BH)
