"""Products of factors over time: what fifty steps make of 0.9, 0.99, 1 and 1.1.

    h_T = w h_{T−1} = … = w^{T} h_0,   dh_T/dw = T w^{T−1} h_0

is the identity cell with one unit and no input; its values and derivatives are those of the cell
that is trained, run by the layer that is trained.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from elman.cells.elman import ElmanCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels

_STEPS = 50


def _run() -> Iterator[Measured]:
    """Yield what the cell makes of a state of 1, and of its weight's derivative."""
    how = "an identity cell of one unit run over {} empty inputs from a state of 1"
    for claim, weight, steps in (
        ("000-10", 0.9, _STEPS),
        ("000-11", 1.1, _STEPS),
        ("001-29", 0.5, 10),
        ("001-30", 1.5, 10),
        ("002-17", 0.9, 40),
        ("002-18", 0.5, 40),
        ("002-19", 1.1, 40),
    ):
        yield Measured(claim, _carried(weight, steps)[0], how.format(steps))
    for claim, weight in (("004-09", 0.9), ("004-10", 1.0), ("004-11", 1.1)):
        state, slope = _carried(weight, _STEPS)
        yield Measured(claim, [state, slope], f"{how.format(_STEPS)}, and its weight's derivative")
    least, most = _carried(0.9, _STEPS)[1], _carried(1.1, _STEPS)[1]
    yield Measured("004-12", most / least, "the weight's derivative at 1.1 over that at 0.9")
    exact = [_carried(weight, _STEPS)[0] for weight in (0.9, 1.0, 1.1)]
    stable = exact[0] < 0.01 and exact[1] == 1.0 and exact[2] > 100.0
    yield Measured("004-13", stable, "0.9 vanishes, 1.1 explodes, exactly 1 stays")


def _carried(weight: float, steps: int) -> tuple[float, float]:
    """Return the state after `steps` from 1, and its derivative by the weight, in float64."""
    cell = ElmanCell(1, 1, activation="identity", bias="none").double()
    with torch.no_grad():
        cell.weight_hh.fill_(weight)
    state = cell.pack_state([torch.ones(1, 1, dtype=torch.float64)])
    empty_BTE = torch.zeros(1, steps, 1, dtype=torch.float64)
    _, after = recur(cell, empty_BTE, state, None, plan=KernelPlan("reference"))
    (slope,) = torch.autograd.grad(after[0].sum(), cell.weight_hh)
    return after[0].item(), slope.item()


def _draw(path: Path) -> None:
    """Draw w^t for t from 0 to 50 on a log axis."""
    draw_panels(path, [_powers])


def _powers(axes: Any) -> None:
    for weight in (0.9, 0.99, 1.0, 1.1):
        states = [1.0, *(_carried(weight, steps)[0] for steps in range(1, _STEPS + 1))]
        axes.plot(range(_STEPS + 1), states, label=f"{weight:g}")
    axes.set(yscale="log", xlabel="steps", ylabel="state, from 1")
    axes.set_title("What a factor makes of 1, step by step")
    axes.legend(frameon=False, title="factor of each step")


FACTORS = Experiment(
    "factors",
    "what fifty steps make of a factor near 1",
    "document 000, Jacobians; document 001, 15.5; document 002, long-term; document 004, 3.1",
    _run,
    _draw,
)
