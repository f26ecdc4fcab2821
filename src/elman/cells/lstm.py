"""Long short-term memory: a cell that is added to, behind three gates."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import Cell, CellState


class LSTMState(NamedTuple):
    """The state of an LSTM: its last output and its memory cell."""

    h_BH: Tensor
    c_BH: Tensor


class LSTMCell(Cell):
    """The LSTM step. Rows of the weights: i, f, g, o, as in torch.

        i_t = σ(W_ii x_t + b_ii + W_hi h_{t−1} + b_hi)
        f_t = σ(W_if x_t + b_if + W_hf h_{t−1} + b_hf)
        g_t = tanh(W_ig x_t + b_ig + W_hg h_{t−1} + b_hg)
        o_t = σ(W_io x_t + b_io + W_ho h_{t−1} + b_ho)
        c_t = f_t ∘ c_{t−1} + i_t ∘ g_t
        h_t = o_t ∘ tanh(c_t)

    x_BE [B, E], h_BH and c_BH [B, H]; parameters as in `Cell` with four gates, 4 · H · (E + H + 2)
    of them. Source: F. A. Gers, J. Schmidhuber, F. Cummins, Learning to Forget, Neural Computation
    12 (2000), without peepholes. `torch.nn.LSTM` computes the same; what differs is `initialise`.
    """

    num_gates: ClassVar[int] = 4
    gate_names: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    state_names: ClassVar[tuple[str, ...]] = ("h", "c")

    def __init__(self, input_size: int, hidden_size: int, *, forget_bias: float = 1.0) -> None:
        super().__init__(input_size, hidden_size)
        self.forget_bias = float(forget_bias)

    @property
    def key(self) -> str:
        """`lstm`: the forget bias is a starting value, not another equation."""
        return "lstm"

    def gates(self, x_BE: Tensor, state: CellState) -> dict[str, Tensor]:
        """Return input i_t, forget f_t, candidate g_t and output o_t, each [B, H]."""
        h_BH, _ = state
        a_BG = linear(x_BE, self.weight_ih, self.bias_ih) + linear(
            h_BH, self.weight_hh, self.bias_hh
        )
        i_BH, f_BH, g_BH, o_BH = a_BG.chunk(4, dim=1)
        return {
            "input": torch.sigmoid(i_BH),
            "forget": torch.sigmoid(f_BH),
            "candidate": torch.tanh(g_BH),
            "output": torch.sigmoid(o_BH),
        }

    def step(self, x_BE: Tensor, state: CellState) -> LSTMState:
        """Return h_t and c_t."""
        _, c_BH = state
        gates = self.gates(x_BE, state)
        c_BH = gates["forget"] * c_BH + gates["input"] * gates["candidate"]
        return LSTMState(gates["output"] * torch.tanh(c_BH), c_BH)

    def pack_state(self, parts: Sequence[Tensor]) -> LSTMState:
        """Return `LSTMState(h_BH, c_BH)`."""
        h_BH, c_BH = parts
        return LSTMState(h_BH, c_BH)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw as every cell does, then make the forget biases sum to `forget_bias` exactly.

        The whole value goes to `bias_ih`, `bias_hh` of the forget gate becomes 0: two vectors that
        each hold a bias of 1 would act as 2.
        """
        super().initialise(generator)
        forget = slice(self.hidden_size, 2 * self.hidden_size)
        with torch.no_grad():
            self.bias_ih[forget] = self.forget_bias
            self.bias_hh[forget] = 0.0
