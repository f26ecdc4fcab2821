"""The minimal gated unit: a GRU whose one gate both forgets and mixes."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import Cell, CellState


class MGUState(NamedTuple):
    """The state of a minimal gated unit: its last output."""

    h_BH: Tensor


class MGUCell(Cell):
    """The minimal gated step. Rows of the weights: f, n.

        f_t = σ(W_if x_t + b_if + W_hf h_{t−1} + b_hf)
        n_t = tanh(W_in x_t + b_in + W_hn (f_t ∘ h_{t−1}) + b_hn)
        h_t = (1 − f_t) ∘ h_{t−1} + f_t ∘ n_t

    x_BE [B, E], h_BH [B, H]; 2 · H · (E + H + 2) parameters. Source: G.-B. Zhou et al.,
    arXiv:1603.09420, eqs. 6a–6c. It is `gru/before/replace` with one gate as reset and update.
    """

    num_gates: ClassVar[int] = 2
    gate_names: ClassVar[tuple[str, ...]] = ("forget", "candidate")

    @property
    def key(self) -> str:
        """`mgu`."""
        return "mgu"

    def gates(
        self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return forget f_t and candidate n_t, each [B, H]."""
        h_BH = state[0] if seen_BP is None else seen_BP
        weight_f, weight_n = self.weight_hh.chunk(2)
        bias_f, bias_n = (None, None) if self.bias_hh is None else self.bias_hh.chunk(2)
        xf_BH, xn_BH = linear(x_BE, self.weight_ih, self.bias_ih).chunk(2, dim=1)
        f_BH = torch.sigmoid(xf_BH + linear(h_BH, weight_f, bias_f))
        n_BH = torch.tanh(xn_BH + linear(f_BH * h_BH, weight_n, bias_n))
        return {"forget": f_BH, "candidate": n_BH}

    def combine(self, gates: Mapping[str, Tensor], state: CellState) -> MGUState:
        """Return h_t, the old state and the candidate mixed by the forget gate."""
        (h_BH,) = state
        return MGUState(h_BH + gates["forget"] * (gates["candidate"] - h_BH))

    def pack_state(self, parts: Sequence[Tensor]) -> MGUState:
        """Return `MGUState(h_BH)`."""
        (h_BH,) = parts
        return MGUState(h_BH)
