"""The minLSTM: two gates that share one whole and never see the state."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import BiasKind, Cell, CellState
from elman.cells.initialising import Initialisation
from elman.cells.min_gru import positive


class MinLSTMState(NamedTuple):
    """The state of a minLSTM: its last output, which is its memory too."""

    h_BH: Tensor


class MinLSTMCell(Cell):
    """The minLSTM step. Rows of `weight_ih` and `bias_ih`: f, i, n. There is no `weight_hh`.

        f_t = σ(W_f x_t + b_f);  i_t = σ(W_i x_t + b_i)
        n_t = g(W_n x_t + b_n),  g(a) = a + 0.5 where a ≥ 0, σ(a) elsewhere
        h_t = f_t / (f_t + i_t) ∘ h_{t−1} + i_t / (f_t + i_t) ∘ n_t

    x_BE [B, E], h_BH [B, H]; 3 · H · (E + 1) parameters. Source: L. Feng et al.,
    arXiv:2410.01201, section 3.2 and algorithm 8. An initial state of any sign is allowed.
    """

    num_gates: ClassVar[int] = 3
    gate_names: ClassVar[tuple[str, ...]] = ("forget", "input", "candidate")
    is_recurrent: ClassVar[bool] = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        forget_bias: float = 1.0,
        bias: BiasKind = "one",
    ) -> None:
        super().__init__(input_size, hidden_size, bias=bias)
        self.forget_bias = float(forget_bias)

    @property
    def key(self) -> str:
        """`minlstm`."""
        return "minlstm"

    def gates(
        self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the shares f_t / (f_t + i_t) and i_t / (f_t + i_t), and n_t, each [B, H]."""
        f_BH, i_BH, n_BH = linear(x_BE, self.weight_ih, self.bias_ih).chunk(3, dim=1)
        # f / (f + i) = σ(ln f − ln i): no quotient of two numbers that may both vanish.
        difference_BH = torch.nn.functional.logsigmoid(f_BH) - torch.nn.functional.logsigmoid(i_BH)
        return {
            "forget": torch.sigmoid(difference_BH),
            "input": torch.sigmoid(-difference_BH),
            "candidate": positive(n_BH),
        }

    def combine(self, gates: Mapping[str, Tensor], state: CellState) -> MinLSTMState:
        """Return h_t, the old state and the candidate, each by its share."""
        (h_BH,) = state
        return MinLSTMState(gates["forget"] * h_BH + gates["input"] * gates["candidate"])

    def pack_state(self, parts: Sequence[Tensor]) -> MinLSTMState:
        """Return `MinLSTMState(h_BH)`."""
        (h_BH,) = parts
        return MinLSTMState(h_BH)

    def initialise(self, generator: torch.Generator, scheme: Initialisation = "uniform") -> None:
        """Draw as every cell does, then set the forget bias."""
        super().initialise(generator, scheme)
        if self.bias_ih is not None:
            with torch.no_grad():
                self.bias_ih[: self.hidden_size] = self.forget_bias
