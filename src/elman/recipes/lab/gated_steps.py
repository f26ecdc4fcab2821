"""One step of a gated cell: gates, what they keep and add, and what of it is shown.

    i, f, o = σ(W x_t + U h_{t−1} + b), each its own;  g = tanh(W_g x_t + U_g h_{t−1} + b_g)
    c_t = f ∘ c_{t−1} + i ∘ g;  h_t = o ∘ tanh(c_t)

Values are given to `LSTMCell.combine` where the page supplies gates, and found by `LSTMCell.gates`
where it supplies weights. With the gates held, c_t changes with c_{t−1} by f alone; in the whole
step the gates see h_{t−1}, which the memory before has made as well.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.cell import Cell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMState
from elman.cells.supplied import joined_matrix, split_matrix
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured, Value
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_UNITS, _WIDTH, _SEEDS = 4, 3, range(1, 11)
_SUPPLIED = (("forget", 0.8), ("input", 0.3), ("output", 0.6), ("candidate", 0.4))


def _run() -> Iterator[Measured]:
    """Yield the forms of the gates, the two worked coordinates, and the path of the memory."""
    yield from _forms()
    yield from _supplied()
    yield from _found()
    yield _held()
    yield _parts()


def _forms() -> Iterator[Measured]:
    """Yield the sizes of one gate in both forms, their ranges, and how far apart the forms are."""
    lows, highs, apart, candidates = (list[float]() for _ in range(4))
    joined: list[Value] = []
    for seed in _SEEDS:
        cell, x_BE, state = _drawn(seed)
        gates = cell.gates(x_BE, state)
        for name in ("input", "forget", "output"):
            lows.append(gates[name].min().item())
            highs.append(gates[name].max().item())
        candidates.append(gates["candidate"].abs().max().item())
        rows = slice(_UNITS, 2 * _UNITS)
        whole = joined_matrix(cell, order="hx", acts_on="columns")[rows]
        assert cell.bias_ih is not None
        hx_BJ = torch.cat((state.h_BH, x_BE), dim=1)
        forget_BH = torch.sigmoid(linear(hx_BJ, whole, cell.bias_ih[rows]))
        apart.append((forget_BH - gates["forget"]).abs().max().item())
        joined = [list(whole.shape), list(cell.bias_ih[rows].shape), hx_BJ.shape[1]]
    yield Measured(
        "001-18",
        [*joined, min(lows) > 0.0, max(highs) < 1.0],
        f"D = {_WIDTH}, H = {_UNITS}: W_f, b_f, the width of [h; x]; gates over ten seeds",
    )
    cell = _drawn(1)[0]
    whole = joined_matrix(cell, order="hx", acts_on="columns")
    weight_ih, weight_hh = split_matrix(whole, _UNITS, order="hx", acts_on="columns")
    sizes = [[len(part) // 4, *part.shape[1:]] for part in (weight_ih, weight_hh, cell.weights[2])]
    yield Measured(
        "001-21",
        [*sizes, max(apart), max(candidates) < 1.0],
        "one gate's W, U and b; the largest distance of the forget gate by W_f [h; x] + b_f from "
        "the cell's, ten seeds; all candidates within (−1, 1)",
    )


def _drawn(seed: int) -> tuple[LSTMCell, Tensor, LSTMState]:
    """Return an LSTM with random weights and one bias, inputs and a state for eight rows."""
    draw = generator(seed, "initialisation")
    cell = LSTMCell(_WIDTH, _UNITS, bias="one").double()
    cell.initialise(draw)
    x_BE, h_BH, c_BH = (
        2.0 * torch.randn(8, size, generator=draw, dtype=torch.float64)
        for size in (_WIDTH, _UNITS, _UNITS)
    )
    return cell, x_BE, LSTMState(torch.tanh(h_BH), c_BH)


def _supplied() -> Iterator[Measured]:
    """Yield the update of one memory coordinate whose gates are given."""
    gates, before = {name: _one(value) for name, value in _SUPPLIED}, _memory(0.5)
    kept, added = _terms(gates, before)
    after = LSTMCell(1, 1).combine(gates, before)
    how = "gates 0.8, 0.3, 0.6, candidate 0.4, memory 0.5"
    yield Measured("001-19", [kept, added, after.c_BH.item()], f"kept, added, memory: {how}")
    yield Measured("001-20", after.h_BH.item(), f"the hidden state: {how}")


def _terms(gates: Mapping[str, Tensor], before: LSTMState) -> tuple[float, float]:
    """Return what a step keeps (nothing is let in) and what it adds (nothing is kept)."""
    cell, closed = LSTMCell(1, 1), _one(0.0)
    kept = cell.combine({**gates, "input": closed}, before).c_BH.item()
    return kept, cell.combine({**gates, "forget": closed}, before).c_BH.item()


def _found() -> Iterator[Measured]:
    """Yield the step whose gates have no weights, and whose candidate has one."""
    cell = LSTMCell(1, 1, bias="none").double()
    before, x_BE = _memory(0.0), _one(1.0)
    gates = cell.gates(x_BE, before)
    value = [gates[name].item() for name in ("input", "forget", "output")]
    yield Measured("001-22", value, "the gates of a cell whose weights are all zero")
    weight = _weight_for(cell, 0.38)
    gates = cell.gates(x_BE, before)
    yield Measured(
        "001-23",
        [weight, gates["candidate"].item()],
        "the candidate's input weight, halved upon until the candidate is 0.38, and the candidate",
    )
    kept, added = _terms(gates, before)
    state = recur(cell, x_BE.unsqueeze(1), before, None, plan=KernelPlan("reference"))[1]
    yield Measured("001-24", [kept, added, state[1].item()], "kept, added, the new memory")
    yield Measured("001-25", state[0].item(), "the hidden state of the same step")


def _weight_for(cell: LSTMCell, candidate: float) -> float:
    """Set and return the candidate's input weight at which it comes to `candidate`."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        with torch.no_grad():
            cell.weight_ih[2] = middle
        found = cell.gates(_one(1.0), _memory(0.0))["candidate"].item()
        low, high = (middle, high) if found < candidate else (low, middle)
    return middle


def _held() -> Measured:
    """Return ∂c_t/∂c_{t−1} with the gates held at f = 0.9, 0.5, 0.1."""
    forget_BH = torch.tensor([[0.9, 0.5, 0.1]], dtype=torch.float64)
    gates = {name: torch.full_like(forget_BH, value) for name, value in _SUPPLIED}
    h_BH = torch.zeros_like(forget_BH)

    def after(c_BH: Tensor) -> Tensor:
        held = {**gates, "forget": forget_BH}
        return LSTMCell(1, 3).combine(held, LSTMState(h_BH, c_BH)).c_BH[0]

    jacobian = torch.autograd.functional.jacobian(after, torch.ones_like(forget_BH))  # type: ignore[no-untyped-call]
    return Measured("001-32", jacobian[:, 0].tolist(), "the Jacobian of the memory, gates held")


def _parts() -> Measured:
    """Return how many tensors the final state of each gated cell has."""
    x_BTE = torch.zeros(2, 3, _WIDTH)
    cells: tuple[Cell, ...] = (GRUCell(_WIDTH, _UNITS), LSTMCell(_WIDTH, _UNITS))
    counts = [len(recur(cell, x_BTE, None, None, plan=KernelPlan())[1]) for cell in cells]
    return Measured("001-46", counts, "the tensors of a GRU's state and of an LSTM's")


def _one(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def _memory(value: float) -> LSTMState:
    return LSTMState(_one(0.0), _one(value))


def _draw(path: Path) -> None:
    """Draw the worked coordinate, and twenty steps of memory under three forget gates."""
    draw_panels(path, [_bars, _memories])


def _bars(axes: Any) -> None:
    gates, before = {name: _one(value) for name, value in _SUPPLIED}, _memory(0.5)
    kept, added = _terms(gates, before)
    shown = LSTMCell(1, 1).combine(gates, before).h_BH.item()
    axes.bar(["memory before", "memory after", "shown"], [0.5, kept, shown], color="tab:blue")
    axes.bar(["memory after"], [added], bottom=[kept], color="tab:orange")
    for place, bottom, text in (
        (0, 0.5, "0.5"),
        (1, kept + added, f"{kept:.2g} kept + {added:.2g} added"),
        (2, shown, f"{shown:.3f}"),
    ):
        axes.text(place, bottom + 0.01, text, ha="center")
    axes.set(ylim=(0.0, 0.65), ylabel="value of one coordinate")


def _memories(axes: Any) -> None:
    cell = LSTMCell(1, 1)
    for forget in (0.8, 0.95, 1.0):
        gates, state = {name: _one(value) for name, value in _SUPPLIED}, _memory(1.0)
        gates |= {"forget": _one(forget), "input": _one(0.0)}
        memories = [1.0]
        for _ in range(20):
            state = cell.combine(gates, state)
            memories.append(state.c_BH.item())
        axes.plot(range(21), memories, label=f"forget gate {forget:g}")
    axes.set_xticks(range(0, 21, 5))
    axes.set(xlabel="steps with nothing let in", ylabel="memory, from 1", ylim=(0.0, 1.05))


GATED_STEPS = Experiment(
    "gated-steps",
    "one step of an LSTM: what is kept, added and shown",
    "document 001, 15.3, 15.4, 15.5",
    _run,
    _draw,
)
