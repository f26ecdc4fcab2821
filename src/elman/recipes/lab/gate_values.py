"""Slopes of tanh and values of gates: what one step keeps, and what is left of it after forty.

    d tanh(a) / da = 1 − tanh²(a);   c_t = σ(b)^t c_0   for an LSTM whose weights are 0

All of it is asked of the cells that are trained: a slope is the derivative of an Elman cell, what
is kept is an LSTM's memory run by the layer, parameters are counted one by one.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import Cell, CellState
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_STEPS = 40
_INPUTS, _UNITS = 16, 32
_SEEDS = tuple(range(1, 11))
_PER_VECTOR = 1.5
_FORTY_BACK = "8.8e-12"
"""What the document found forty steps back in its plain network."""


def _run() -> Iterator[Measured]:
    """Yield slopes, gates, what they keep, parameter counts and one update by hand."""
    slopes = _slopes([0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0])
    yield Measured("002-20", slopes, "derivative of an Elman cell at 0, ±1, ±2, ±3")
    for claim, bias in (("002-26", 0.0), ("002-27", 2 * _PER_VECTOR)):
        gate, kept = _forgetting(bias)
        told = f"forget gate at a bias of {bias:g}, and a memory of 1 after {_STEPS} steps"
        yield Measured(claim, [gate, kept[-1]], told)
    yield Measured("002-28", _of_two_biases(), "gate of 1.5 in both vectors, less that of 3 in one")
    names, least, greatest = _ranges()
    told = f"{', '.join(names)} of 10 random cells lie from {least:.3f} to {greatest:.3f}"
    yield Measured("002-29", [len(names), least > 0.0, greatest < 1.0], told)
    cells: Sequence[Cell] = [kind(_INPUTS, _UNITS) for kind in (ElmanCell, GRUCell, LSTMCell)]
    counts = [sum(weight.numel() for weight in cell.parameters()) for cell in cells]
    yield Measured("002-33", counts, "parameters of Elman, GRU and LSTM, counted one by one")
    told = "f 0.9, i 0.4, g −0.3, o 0.7 on a memory of 0.5: memory and output after"
    yield Measured("002-34", _one_update(), told)
    digits = f"{Decimal(_FORTY_BACK):f}".split(".")[1]
    zeros = len(digits) - len(digits.lstrip("0"))
    yield Measured("002-49", [zeros, digits.lstrip("0")], f"{_FORTY_BACK} written out")


def _slopes(at: Sequence[float]) -> list[float]:
    """Return d h / d x of a cell of one unit with an input weight of 1."""
    cell = ElmanCell(1, 1, bias="none").double()
    with torch.no_grad():
        cell.weight_ih.fill_(1.0)
    x_BE = torch.tensor(at, dtype=torch.float64).unsqueeze(1).requires_grad_()
    state = cell.step(x_BE, cell.zero_state(len(at)))
    (slopes_BE,) = torch.autograd.grad(state[0].sum(), x_BE)
    slopes: list[float] = slopes_BE.flatten().tolist()
    return slopes


def _forgetting(bias: float) -> tuple[float, list[float]]:
    """Return the forget gate of an LSTM whose weights are 0, and its memory from 1, step by step.

    A candidate of 0 is all that such a cell can write.
    """
    cell = LSTMCell(1, 1).double()
    with torch.no_grad():
        assert cell.bias_ih is not None
        cell.bias_ih[1] = bias
    one, zero = torch.ones(1, 1).double(), torch.zeros(1, 1).double()
    gates = cell.gates(zero, cell.pack_state([zero, one]))
    kept = []
    with torch.no_grad():
        state: CellState = cell.pack_state([zero, one])
        for _ in range(_STEPS):
            _, state = recur(cell, zero.unsqueeze(1), state, None, plan=KernelPlan("reference"))
            kept.append(state[1].item())
    return gates["forget"].item(), kept


def _of_two_biases() -> float:
    """Return how far a gate of two biases of 1.5 is from that of a cell begun with 3."""
    begun = LSTMCell(_INPUTS, _UNITS, forget_bias=2 * _PER_VECTOR).double()
    begun.initialise(generator(1, "initialisation"))
    halved = LSTMCell(_INPUTS, _UNITS).double()
    halved.load_state_dict(begun.state_dict())
    rows = slice(_UNITS, 2 * _UNITS)
    with torch.no_grad():
        for bias in (halved.bias_ih, halved.bias_hh):
            assert bias is not None
            bias[rows] = _PER_VECTOR
        x_BE, state = _random_step(begun, 1)
        one, other = (cell.gates(x_BE, state)["forget"] for cell in (begun, halved))
    return (one - other).abs().max().item()


def _ranges() -> tuple[list[str], float, float]:
    """Return the gates of an LSTM, its candidate left out, and their least and greatest value."""
    found: dict[str, list[Tensor]] = {}
    for seed in _SEEDS:
        cell = LSTMCell(_INPUTS, _UNITS).double()
        cell.initialise(generator(seed, "initialisation"))
        with torch.no_grad():
            for name, gate_BH in cell.gates(*_random_step(cell, seed)).items():
                found.setdefault(name, []).append(gate_BH)
    values = {name: torch.cat(gates) for name, gates in found.items()}
    gates = [name for name in values if name != "candidate"]
    least = min(values[name].min().item() for name in gates)
    return gates, least, max(values[name].max().item() for name in gates)


def _random_step(cell: Cell, seed: int) -> tuple[Tensor, CellState]:
    """Return a random input for four rows, and a random state."""
    draw = generator(seed, "sampling")
    x_BE = torch.randn(4, cell.input_size, generator=draw, dtype=torch.float64)
    parts = [torch.randn(4, size, generator=draw, dtype=torch.float64) for size in cell.state_sizes]
    return x_BE, cell.pack_state(parts)


def _one_update() -> list[float]:
    """Return memory and output of one unit after a step with gates that are given."""
    cell = LSTMCell(1, 1)
    given = {"forget": 0.9, "input": 0.4, "candidate": -0.3, "output": 0.7}
    gates = {name: torch.full((1, 1), value, dtype=torch.float64) for name, value in given.items()}
    before = cell.pack_state([torch.zeros(1, 1).double(), torch.full((1, 1), 0.5).double()])
    h_BH, c_BH = cell.combine(gates, before)
    return [c_BH.item(), h_BH.item()]


def _draw(path: Path) -> None:
    """Draw tanh with its slope, and what forget gates keep over forty steps."""
    draw_panels(path, [_tanh, _memories])


def _tanh(axes: Any) -> None:
    at = [step / 20.0 for step in range(-80, 81)]
    cell = ElmanCell(1, 1, bias="none").double()
    with torch.no_grad():
        cell.weight_ih.fill_(1.0)
        x_BE = torch.tensor(at, dtype=torch.float64).unsqueeze(1)
        outputs = cell.step(x_BE, cell.zero_state(len(at)))[0].flatten().tolist()
    axes.plot(at, outputs, label="tanh")
    axes.plot(at, _slopes(at), label="its slope")
    marked = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]
    axes.plot(marked, _slopes(marked), "o", color="tab:orange")
    axes.set(xlabel="what is squashed", ylabel="value", title="tanh is flat away from 0")


def _memories(axes: Any) -> None:
    for bias in (0.0, 1.0, 2.0, 3.0, 5.0):
        gate, kept = _forgetting(bias)
        axes.plot(range(_STEPS + 1), [1.0, *kept], label=f"bias {bias:g}: {gate:.3f}")
    axes.set(
        yscale="log", xlabel="steps", ylabel="memory, from 1", title="What a forget gate keeps"
    )


GATE_VALUES = Experiment(
    "gate-values",
    "slopes of tanh, values of gates, and what they keep over forty steps",
    "document 002, long-term dependencies and gates; F. A. Gers, J. Schmidhuber, F. Cummins (2000)",
    _run,
    _draw,
)
