"""The conventions of a gated unit: which way the update gate points, where the reset gate stands.

    replace: h_t = (1 − z_t) ∘ h_{t−1} + z_t ∘ n_t      keep: h_t = z_t ∘ h_{t−1} + (1 − z_t) ∘ n_t
    before:  n_t = tanh(… + W (r_t ∘ h_{t−1}) + b)      after: n_t = tanh(… + r_t ∘ (W h_{t−1} + b))

The two of a line give other numbers from the same weights. 1 − σ(a) = σ(−a), so that the rows of z
negated turn the first pair into each other exactly; nothing turns the second.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.gru import GRUCell, Reset, Update
from elman.cells.lstm import LSTMCell
from elman.checkpoints.foreign.rewriting import as_keep
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import TEN_SEEDS
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_INPUTS = (1.0, -2.0)


def _run() -> Iterator[Measured]:
    """Yield the two update conventions, the two resets, and the gates of an LSTM."""
    pairs = [_converted(seed) for seed in TEN_SEEDS]
    yield Measured(
        "000-15",
        [max(converted for converted, _ in pairs), min(raw for _, raw in pairs) > 1e-3],
        "ten random GRUs that replace, five steps: greatest difference from the one that keeps "
        "with the rows of z negated; whether the same weights unchanged give other numbers "
        f"(by {min(raw for _, raw in pairs):.3g} at least)",
        tuple(raw for _, raw in pairs),
    )
    yield Measured(
        "000-16",
        [_outputs("before", "keep"), _outputs("after", "keep")],
        "a GRU of one unit with input weights .1, .2, .3, recurrent .4, .5, .6, biases .1, .2, .3 "
        "and .05, .15, .25 on 1, −2: reset before, after",
    )
    sigmoids, tanhs = _curves_of(LSTMCell(1, 1))
    yield Measured(
        "000-17",
        [sorted(sigmoids), sorted(tanhs)],
        "the gates of an LSTM of one unit with weights of 1: those that follow σ, those that "
        "follow tanh, over inputs from −6 to 6",
    )


def _small(reset: Reset, update: Update) -> GRUCell:
    """Return the unit whose outputs other programs are known to give."""
    cell = GRUCell(1, 1, reset=reset, update=update).double()
    assert cell.bias_ih is not None
    assert cell.bias_hh is not None
    with torch.no_grad():
        cell.weight_ih.copy_(torch.tensor([[0.1], [0.2], [0.3]], dtype=torch.float64))
        cell.weight_hh.copy_(torch.tensor([[0.4], [0.5], [0.6]], dtype=torch.float64))
        cell.bias_ih.copy_(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
        cell.bias_hh.copy_(torch.tensor([0.05, 0.15, 0.25], dtype=torch.float64))
    return cell


def _outputs(reset: Reset, update: Update) -> list[float]:
    x_BTE = torch.tensor(_INPUTS, dtype=torch.float64).view(1, -1, 1)
    return _states(_small(reset, update), x_BTE).flatten().tolist()


def _states(cell: Cell, x_BTE: Tensor) -> Tensor:
    with torch.no_grad():
        return recur(cell, x_BTE, None, None, plan=KernelPlan("reference"))[0]


def _converted(seed: int) -> tuple[float, float]:
    """Return how far the states are from those of the other convention, converted and not."""
    cell = GRUCell(3, 4, reset="before", update="replace").double()
    cell.initialise(generator(seed, "initialisation"))
    unchanged = GRUCell(3, 4, reset="before", update="keep").double()
    unchanged.load_state_dict(cell.state_dict())
    draw = generator(seed, "sampling")
    x_BTE = torch.randn(2, 5, 3, generator=draw, dtype=torch.float64)
    states_BTH = _states(cell, x_BTE)
    converted, raw = (
        (_states(other, x_BTE) - states_BTH).abs().max().item()
        for other in (as_keep(cell), unchanged)
    )
    return converted, raw


def _curves_of(cell: Cell) -> tuple[list[str], list[str]]:
    """Return the names of the gates that are σ of the input, and of those that are its tanh."""
    inputs_BE = torch.linspace(-6.0, 6.0, 25).unsqueeze(1)
    with torch.no_grad():
        cell.weight_ih.fill_(1.0)
        gates = cell.gates(inputs_BE, cell.zero_state(len(inputs_BE)))
    of = {
        function: [
            name for name, gate_BH in gates.items() if torch.allclose(gate_BH, function(inputs_BE))
        ]
        for function in (torch.sigmoid, torch.tanh)
    }
    return of[torch.sigmoid], of[torch.tanh]


def _draw(path: Path) -> None:
    """Draw what the four conventions make of the same weights and inputs."""
    draw_panels(path, [_four, _gates])


def _four(axes: Any) -> None:
    resets: tuple[Reset, ...] = ("before", "after")
    updates: tuple[Update, ...] = ("keep", "replace")
    places = range(len(_INPUTS))
    for number, (reset, update) in enumerate((r, u) for r in resets for u in updates):
        outputs = _outputs(reset, update)
        left = [place + 0.18 * (number - 1.5) for place in places]
        bars = axes.bar(left, outputs, 0.17, label=f"reset {reset}, {update}")
        axes.bar_label(bars, fmt="%.4f", fontsize=7, rotation=90, padding=3)
    axes.set_xticks(places, [f"after reading {value:g}" for value in _INPUTS])
    axes.set(ylabel="output", title="one set of weights, four units")
    axes.margins(y=0.25)


def _gates(axes: Any) -> None:
    cell = LSTMCell(1, 1)
    inputs_BE = torch.linspace(-6.0, 6.0, 97).unsqueeze(1)
    with torch.no_grad():
        cell.weight_ih.fill_(1.0)
        gates = cell.gates(inputs_BE, cell.zero_state(len(inputs_BE)))
    styles = {"input": "-", "forget": "--", "output": ":", "candidate": "-"}
    for name, gate_BH in gates.items():
        axes.plot(inputs_BE[:, 0], gate_BH[:, 0], styles[name], label=name)
    axes.set(xlabel="input to the gate", ylabel="value", title="an LSTM: three of σ, one of tanh")


GRU_CONVENTIONS = Experiment(
    "gru-conventions",
    "the update gate turned around, the reset gate before and after, the gates of an LSTM",
    "document 000, Keep the GRU convention attached to its equation",
    _run,
    _draw,
)
