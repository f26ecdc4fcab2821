"""How one unit's step is written out: an equation a line, with places for the recorded numbers.

In `filled`, {name} stands for a recorded number of the unit after the step and {name|before} for a
part of its state before it. A gate whose product sees the whole input has an equation alone.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell


class StepLine(NamedTuple):
    """`name` is that of the gate or of the part of the state that the line comes to."""

    name: str
    equation: str
    filled: str = ""


def step_lines(cell: Cell) -> Sequence[StepLine]:
    """Return the lines of a step of `cell`, in the order in which they are computed."""
    if isinstance(cell, LSTMCell):
        return _lstm(cell)
    if isinstance(cell, GRUCell):
        return _gru(cell)
    if isinstance(cell, ElmanCell):
        function = {"identity": ""}.get(cell.activation, cell.activation)
        return (
            StepLine("preactivation", "a = W_ih x + b_ih + W_hh h′ + b_hh"),
            StepLine("h", f"h = {function or 'identity'}(a)", f"{function}({{preactivation}})"),
        )
    return _MINIMAL[cell.key]


def _lstm(cell: LSTMCell) -> Sequence[StepLine]:
    options = cell.options
    look = " + p ∘ c" if options.peepholes else ""
    own = "1 − f" if options.coupled else f"σ(W_ii x + W_hi h′ + b_i{look}{'′' if look else ''})"
    shown = "N(c)" if options.layer_norm else "c"
    numbers = "N({c})" if options.layer_norm else "{c}"
    whole = f"o ∘ tanh {shown}"
    return (
        StepLine("forget", f"f = σ(W_if x + W_hf h′ + b_f{look}{'′' if look else ''})"),
        StepLine("input", f"i = {own}", "1 − {forget}" if options.coupled else ""),
        StepLine("candidate", "g = tanh(W_ig x + W_hg h′ + b_g)"),
        StepLine("c", "c = f ∘ c′ + i ∘ g", "{forget} · {c|before} + {input} · {candidate}"),
        StepLine("output", f"o = σ(W_io x + W_ho h′ + b_o{look})"),
        StepLine("h", f"h = W_hr ({whole})")
        if options.projection_size
        else StepLine("h", f"h = {whole}", f"{{output}} · tanh({numbers})"),
    )


def _gru(cell: GRUCell) -> Sequence[StepLine]:
    inner = "r ∘ (W_hn h′ + b_hn)" if cell.reset == "after" else "W_hn (r ∘ h′) + b_hn"
    keep, take = ("z", "1 − z") if cell.update == "keep" else ("1 − z", "z")
    numbers = ("{update}", "(1 − {update})")
    kept, taken = numbers if cell.update == "keep" else numbers[::-1]
    return (
        StepLine("reset", "r = σ(W_ir x + b_ir + W_hr h′ + b_hr)"),
        StepLine("update", "z = σ(W_iz x + b_iz + W_hz h′ + b_hz)"),
        StepLine("candidate", f"n = tanh(W_in x + b_in + {inner})"),
        StepLine(
            "h",
            f"h = ({keep}) ∘ h′ + ({take}) ∘ n".replace("(z)", "z"),
            f"{kept} · {{h|before}} + {taken} · {{candidate}}",
        ),
    )


_MINIMAL: Mapping[str, Sequence[StepLine]] = MappingProxyType(
    {
        "mgu": (
            StepLine("forget", "f = σ(W_if x + b_if + W_hf h′ + b_hf)"),
            StepLine("candidate", "n = tanh(W_in x + b_in + W_hn (f ∘ h′) + b_hn)"),
            StepLine(
                "h",
                "h = (1 − f) ∘ h′ + f ∘ n",
                "(1 − {forget}) · {h|before} + {forget} · {candidate}",
            ),
        ),
        "mingru": (
            StepLine("update", "z = σ(W_z x + b_z)"),
            StepLine("candidate", "n = g(W_n x + b_n)"),
            StepLine(
                "h",
                "h = (1 − z) ∘ h′ + z ∘ n",
                "(1 − {update}) · {h|before} + {update} · {candidate}",
            ),
        ),
        "minlstm": (
            StepLine("forget", "f / (f + i) of f = σ(W_f x + b_f)"),
            StepLine("input", "i / (f + i) of i = σ(W_i x + b_i)"),
            StepLine("candidate", "n = g(W_n x + b_n)"),
            StepLine("h", "h = f ∘ h′ + i ∘ n", "{forget} · {h|before} + {input} · {candidate}"),
        ),
    }
)
