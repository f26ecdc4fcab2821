"""Long short-term memory: a cell that is added to, behind three gates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from elman.cells.cell import BiasKind, Cell, CellState
from elman.cells.initialising import Initialisation
from elman.errors import SettingError


class LSTMState(NamedTuple):
    """The state of an LSTM: its last output, P wide where it is projected, and its memory."""

    h_BH: Tensor
    c_BH: Tensor


@dataclass(frozen=True)
class LSTMOptions:
    """What an LSTM may have beside its plain equation; all of it can be had together.

    `projection_size` is P, 0: no projection.
    """

    peepholes: bool = False
    coupled: bool = False
    layer_norm: bool = False
    projection_size: int = 0


class LSTMCell(Cell):
    """The LSTM step. Rows of the weights: i, f, g, o, as in torch.

        i_t = σ(W_ii x_t + b_ii + W_hi h_{t−1} + b_hi)
        f_t = σ(W_if x_t + b_if + W_hf h_{t−1} + b_hf)
        g_t = tanh(W_ig x_t + b_ig + W_hg h_{t−1} + b_hg)
        o_t = σ(W_io x_t + b_io + W_ho h_{t−1} + b_ho)
        c_t = f_t ∘ c_{t−1} + i_t ∘ g_t
        h_t = o_t ∘ tanh(c_t)

    Source: F. A. Gers, J. Schmidhuber, F. Cummins, Learning to Forget, Neural Computation 12
    (2000). `torch.nn.LSTM` computes the same; what differs is `initialise`. Options:

        peepholes   p_i ∘ c_{t−1} within the σ of i_t, p_f ∘ c_{t−1} within f_t, p_o ∘ c_t within
                    o_t, `peephole` [rows of i, f, o] (F. A. Gers et al., JMLR 3 (2002))
        coupled     i_t = 1 − f_t; rows f, g, o (K. Greff et al., arXiv:1503.04069, CIFG)
        layer_norm  N(W_h x_t) ∘ gain_ih + N(W_hh h_{t−1}) ∘ gain_hh in place of the two products,
                    N over all rows at once, and h_t = o_t ∘ tanh(N(c_t) ∘ gain_c + shift_c)
                    (J. L. Ba et al., arXiv:1607.06450, eqs. 20–22, whose other shifts are our
                    biases)
        projection  h_t = W_hr (o_t ∘ tanh(c_t)), `weight_hr` [P, H], torch's `proj_size`
                    (H. Sak et al., arXiv:1402.1128)

    x_BE [B, E], h_BP [B, P], c_BH [B, H]; P = H without a projection. Plain, there are
    4 · H · (E + H + 2) parameters.
    """

    num_gates: ClassVar[int] = 4
    gate_names: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    state_names: ClassVar[tuple[str, ...]] = ("h", "c")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        forget_bias: float = 1.0,
        options: LSTMOptions | None = None,
        bias: BiasKind = "two",
    ) -> None:
        self.options = LSTMOptions() if options is None else options
        size = self.options.projection_size
        if size < 0 or size > hidden_size:
            raise SettingError(
                "projection_size of LSTMCell must be at most hidden_size",
                got=f"{size}",
                allowed=f"0 (none) to {hidden_size}",
            )
        super().__init__(input_size, hidden_size, output_size=size or None, bias=bias)
        self.forget_bias = float(forget_bias)
        rows, units = self.num_rows, hidden_size
        if size:
            self.weight_hr = nn.Parameter(torch.zeros(size, hidden_size))
        if self.options.peepholes:
            self.peephole = nn.Parameter(torch.zeros((2 if self.options.coupled else 3) * units))
        if self.options.layer_norm:
            self.gain_ih = nn.Parameter(torch.zeros(rows))
            self.gain_hh = nn.Parameter(torch.zeros(rows))
            self.gain_c = nn.Parameter(torch.zeros(units))
            self.shift_c = nn.Parameter(torch.zeros(units))

    @property
    def num_rows(self) -> int:
        """4 · H, or 3 · H where the input gate is coupled to the forget gate."""
        return (3 if self.options.coupled else 4) * self.hidden_size

    @property
    def key(self) -> str:
        """`lstm`, and each option that is on: the forget bias is a starting value, no equation.

        A projection to the full width has a name of its own, as torch has no operator for it.
        """
        o = self.options
        names = (
            ("peepholes", o.peepholes),
            ("coupled", o.coupled),
            ("layer_norm", o.layer_norm),
            ("projection", 0 < o.projection_size < self.hidden_size),
            ("full_projection", o.projection_size == self.hidden_size),
        )
        return "+".join(["lstm", *(name for name, on in names if on)])

    def gates(
        self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return input i_t, forget f_t, candidate g_t and output o_t, each [B, H]."""
        h_BP, c_BH = state
        a_BG = self._preactivations(x_BE, h_BP if seen_BP is None else seen_BP)
        *first, f_BH, g_BH, o_BH = a_BG.chunk(self.num_rows // self.hidden_size, dim=1)
        p_i, p_f, p_o = self._peepholes()
        f_BH = torch.sigmoid(_looking(f_BH, p_f, c_BH))
        i_BH = torch.sigmoid(_looking(first[0], p_i, c_BH)) if first else 1.0 - f_BH
        g_BH = torch.tanh(g_BH)
        o_BH = torch.sigmoid(_looking(o_BH, p_o, f_BH * c_BH + i_BH * g_BH))
        return {"input": i_BH, "forget": f_BH, "candidate": g_BH, "output": o_BH}

    def combine(self, gates: Mapping[str, Tensor], state: CellState) -> LSTMState:
        """Return h_t and c_t."""
        _, c_BH = state
        c_BH = gates["forget"] * c_BH + gates["input"] * gates["candidate"]
        shown_BH = c_BH
        if self.options.layer_norm:
            shown_BH = _normalised(c_BH) * self.gain_c + self.shift_c
        h_BP = gates["output"] * torch.tanh(shown_BH)
        if self.options.projection_size:
            h_BP = linear(h_BP, self.weight_hr)
        return LSTMState(h_BP, c_BH)

    def pack_state(self, parts: Sequence[Tensor]) -> LSTMState:
        """Return `LSTMState(h_BH, c_BH)`."""
        h_BP, c_BH = parts
        return LSTMState(h_BP, c_BH)

    def parameter_count(self) -> int:
        """Return the plain count, and what the options add."""
        o, units, rows = self.options, self.hidden_size, self.num_rows
        count = super().parameter_count()
        if o.coupled:
            count = count // self.num_gates * 3
        peepholes = (2 if o.coupled else 3) * units if o.peepholes else 0
        normalisation = 2 * rows + 2 * units if o.layer_norm else 0
        return count + peepholes + normalisation + o.projection_size * units

    def initialise(self, generator: torch.Generator, scheme: Initialisation = "uniform") -> None:
        """Draw as every cell does, then make the forget biases sum to `forget_bias` exactly.

        The whole value goes to `bias_ih`, `bias_hh` of the forget gate becomes 0: two vectors that
        each hold a bias of 1 would act as 2. Without a bias there is none to set.
        """
        super().initialise(generator, scheme)
        first = 0 if self.options.coupled else self.hidden_size
        forget = slice(first, first + self.hidden_size)
        with torch.no_grad():
            if self.bias_ih is not None:
                self.bias_ih[forget] = self.forget_bias
            if self.bias_hh is not None:
                self.bias_hh[forget] = 0.0

    def _preactivations(self, x_BE: Tensor, h_BP: Tensor) -> Tensor:
        if not self.options.layer_norm:
            return linear(x_BE, self.weight_ih, self.bias_ih) + linear(
                h_BP, self.weight_hh, self.bias_hh
            )
        a_BG = _normalised(linear(x_BE, self.weight_ih)) * self.gain_ih
        a_BG = a_BG + _normalised(linear(h_BP, self.weight_hh)) * self.gain_hh
        for bias in (self.bias_ih, self.bias_hh):
            a_BG = a_BG if bias is None else a_BG + bias
        return a_BG

    def _peepholes(self) -> list[Tensor | None]:
        """Return p_i, p_f and p_o, each None where there is none."""
        if not self.options.peepholes:
            return [None, None, None]
        parts = torch.split(self.peephole, self.hidden_size)
        return [*parts] if len(parts) == 3 else [None, *parts]


def _looking(a_BH: Tensor, peephole: Tensor | None, c_BH: Tensor) -> Tensor:
    """Return the preactivation a_BH of a gate that looks at the memory through its peephole."""
    return a_BH if peephole is None else a_BH + peephole * c_BH


def _normalised(a_BG: Tensor) -> Tensor:
    """Return a_BG less its mean, over its deviation, row by row."""
    return layer_norm(a_BG, a_BG.shape[-1:])
