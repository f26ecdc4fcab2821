"""The gated recurrent unit, in all four of its conventions."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import BiasKind, Cell, CellState
from elman.errors import SettingError

Reset = Literal["before", "after"]
Update = Literal["keep", "replace"]


class GRUState(NamedTuple):
    """The state of a gated recurrent unit: its last output."""

    h_BH: Tensor


class GRUCell(Cell):
    """The gated recurrent step. Rows of the weights: r, z, n, as in torch.

        r_t = σ(W_ir x_t + b_ir + W_hr h_{t−1} + b_hr)
        z_t = σ(W_iz x_t + b_iz + W_hz h_{t−1} + b_hz)
        reset after:     n_t = tanh(W_in x_t + b_in + r_t ∘ (W_hn h_{t−1} + b_hn))
        reset before:    n_t = tanh(W_in x_t + b_in + W_hn (r_t ∘ h_{t−1}) + b_hn)
        update keep:     h_t = z_t ∘ h_{t−1} + (1 − z_t) ∘ n_t
        update replace:  h_t = (1 − z_t) ∘ h_{t−1} + z_t ∘ n_t

    x_BE [B, E], h_BH [B, H]; parameters as in `Cell` with three gates, 3 · H · (E + H + 2) of them.
    Source: K. Cho et al., arXiv:1406.1078, eqs. 5–8 (before, keep); "after" is the form of
    cuDNN and torch, "replace" that of J. Chung et al., arXiv:1412.3555, eqs. 4–5. `torch.nn.GRU` is
    after, keep, and has no other form.
    """

    num_gates: ClassVar[int] = 3
    gate_names: ClassVar[tuple[str, ...]] = ("reset", "update", "candidate")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        reset: Reset = "after",
        update: Update = "keep",
        bias: BiasKind = "two",
    ) -> None:
        super().__init__(input_size, hidden_size, bias=bias)
        if reset not in ("before", "after"):
            raise SettingError(
                "reset of GRUCell is unknown", got=repr(reset), allowed="before, after"
            )
        if update not in ("keep", "replace"):
            raise SettingError(
                "update of GRUCell is unknown", got=repr(update), allowed="keep, replace"
            )
        self.reset: Reset = reset
        self.update: Update = update

    @property
    def key(self) -> str:
        """`gru/<reset>/<update>`, such as `gru/after/keep`."""
        return f"gru/{self.reset}/{self.update}"

    def gates(
        self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return reset r_t, update z_t and candidate n_t, each [B, H]."""
        h_BH = state[0] if seen_BP is None else seen_BP
        if self.reset == "after":
            return self._gates_after(x_BE, h_BH)
        return self._gates_before(x_BE, h_BH)

    def combine(self, gates: Mapping[str, Tensor], state: CellState) -> GRUState:
        """Return h_t, the old state and the candidate mixed by the update gate."""
        (h_BH,) = state
        z_BH, n_BH = gates["update"], gates["candidate"]
        if self.update == "keep":
            return GRUState(n_BH + z_BH * (h_BH - n_BH))
        return GRUState(h_BH + z_BH * (n_BH - h_BH))

    def pack_state(self, parts: Sequence[Tensor]) -> GRUState:
        """Return `GRUState(h_BH)`."""
        (h_BH,) = parts
        return GRUState(h_BH)

    def _gates_after(self, x_BE: Tensor, h_BH: Tensor) -> dict[str, Tensor]:
        xr_BH, xz_BH, xn_BH = linear(x_BE, self.weight_ih, self.bias_ih).chunk(3, dim=1)
        hr_BH, hz_BH, hn_BH = linear(h_BH, self.weight_hh, self.bias_hh).chunk(3, dim=1)
        r_BH, z_BH = torch.sigmoid(xr_BH + hr_BH), torch.sigmoid(xz_BH + hz_BH)
        return {"reset": r_BH, "update": z_BH, "candidate": torch.tanh(xn_BH + r_BH * hn_BH)}

    def _gates_before(self, x_BE: Tensor, h_BH: Tensor) -> dict[str, Tensor]:
        rz = 2 * self.hidden_size
        bias_rz, bias_n = None, None
        if self.bias_hh is not None:
            bias_rz, bias_n = self.bias_hh[:rz], self.bias_hh[rz:]
        xr_BH, xz_BH, xn_BH = linear(x_BE, self.weight_ih, self.bias_ih).chunk(3, dim=1)
        hr_BH, hz_BH = linear(h_BH, self.weight_hh[:rz], bias_rz).chunk(2, dim=1)
        r_BH, z_BH = torch.sigmoid(xr_BH + hr_BH), torch.sigmoid(xz_BH + hz_BH)
        hn_BH = linear(r_BH * h_BH, self.weight_hh[rz:], bias_n)
        return {"reset": r_BH, "update": z_BH, "candidate": torch.tanh(xn_BH + hn_BH)}
