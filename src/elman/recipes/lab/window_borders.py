"""What crosses the border of two windows: values, gradients, both, neither; what clipping does.

    carry: value and gradient;  detach: value alone;  reset: neither
    clipped gradient = g · min(1, max_norm / ‖g‖): one factor for all of it, never above 1

An identity cell with W_h = 1/2 reads four steps in windows of two, so that values and gradients are
powers of 1/2 that a pencil can check.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from elman.cells.cell import CellState
from elman.cells.elman import ElmanCell
from elman.cells.supplied import supply
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.training.clipping import measure_gradients
from elman.training.optimisers import apply_gradients
from elman.training.plain_sgd import PlainSGD
from elman.training.truncation import carry, detach, reset

_PLAN = KernelPlan("reference")
_WINDOW, _LONG = 2, 200
_Border = Callable[[CellState], CellState | None]


def _run() -> Iterator[Measured]:
    """Yield value and gradient across each kind of border, and of a lost signal, clipped."""
    borders: tuple[_Border, ...] = (carry, detach, reset)
    across = [_across(border) for border in borders]
    lost, shares = _clipped(max_norm=10.0), [_ratio(max_norm=norm) for norm in (0.0, 1e-3)]
    how = (
        "h_4 and dh_4/dx_1 of an identity cell with W_h = 1/2 whose first window of two is "
        "carried, detached, reset; the part of a gradient that 200 steps made 0, clipped at a "
        "larger norm; early over late credit of ten steps, unclipped and clipped"
    )
    yield Measured("001-35", [*across, lost, *shares], how)


def _half() -> ElmanCell:
    cell = ElmanCell(1, 1, activation="identity", bias="none")
    matrices = {"weight_ih": torch.ones(1, 1), "weight_hh": torch.full((1, 1), 0.5)}
    supply(cell, matrices, acts_on="columns")
    return cell


def _across(border: _Border, steps: int = 2 * _WINDOW) -> list[float]:
    """Return the last state and its derivative by the first input, windows joined by `border`."""
    cell = _half()
    x_BTE = torch.zeros(1, steps, 1)
    x_BTE[0, 0] = 1.0
    x_BTE.requires_grad_()
    state: CellState | None = None
    for window_BTE in torch.split(x_BTE, _WINDOW, dim=1):
        before = None if state is None else border(state)
        _, state = recur(cell, window_BTE, before, None, plan=_PLAN)
    assert state is not None
    (slope,) = torch.autograd.grad(state[0].sum(), x_BTE)
    return [state[0].item(), slope[0, 0, 0].item()]


def _clipped(max_norm: float) -> float:
    """Return the clipped gradient of the first of 200 steps' own weights: float32 has lost it."""
    credits = _credits(_LONG, max_norm)
    return credits[0]


def _ratio(max_norm: float) -> float:
    """Return the credit of the first of ten steps over that of the last."""
    credits = _credits(10, max_norm)
    return credits[0] / credits[-1]


def _credits(steps: int, max_norm: float) -> list[float]:
    """Return by how much plain descent at rate 1 moves the input weight of each step, from 0.

    Every step has an input weight of its own, all inputs are 1, and the loss is the last state.
    """
    cell, state = _half(), _half().zero_state(1)
    weights = nn.ParameterList(nn.Parameter(torch.zeros(1, 1)) for _ in range(steps))
    for weight in weights:
        state = cell.with_weights({"weight_ih": weight}).step(torch.ones(1, 1), state)
    torch.autograd.backward([state[0].sum()], inputs=list(weights))
    found = measure_gradients(weights, max_norm)
    optimiser = PlainSGD([{"params": list(weights)}], lr=1.0)
    apply_gradients(optimiser, found.factor)
    return [-weight.item() for weight in weights]


def _draw(path: Path) -> None:
    """Draw the state and its reach across borders, and credit with and without clipping."""
    draw_panels(path, [_values, _reaches, _credit])


def _values(axes: Any) -> None:
    _lines(axes, 0)
    axes.set(xlabel="steps, in windows of two", ylabel="what is left of the first input")


def _reaches(axes: Any) -> None:
    _lines(axes, 1)
    axes.set(xlabel="steps, in windows of two", ylabel="credit of the first input")


def _lines(axes: Any, place: int) -> None:
    """Draw the value (place 0) or the credit (1) of the first input under each kind of border."""
    borders: tuple[tuple[str, _Border, str, int], ...] = (
        ("carry", carry, "-", 6),
        ("detach", detach, "o", 10),
        ("reset", reset, "x", 7),
    )
    for name, border, style, size in borders:
        left = [_across(border, steps)[place] for steps in range(2, 11)]
        axes.plot(range(2, 11), left, style, label=name, markersize=size, fillstyle="none")


def _credit(axes: Any) -> None:
    for norm in (0.0, 0.1, 0.001):
        label = f"clipped at {norm:g}" if norm else "not clipped"
        axes.plot(range(1, 21), _credits(20, norm), "o-", label=label)
    axes.set_xticks(range(5, 21, 5))
    axes.set(yscale="log", xlabel="step", ylabel="change of the step's own weight")


WINDOW_BORDERS = Experiment(
    "window-borders",
    "what truncation, reset and clipping do to values and to credit",
    "document 001, 15.5",
    _run,
    _draw,
)
