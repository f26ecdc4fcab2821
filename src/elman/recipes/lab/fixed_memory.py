"""A recurrent state is as large after 1,000 steps as after 10, and its steps wait for each other.

    h_T = f(x_T, f(x_{T−1}, …))   T steps in turn, one state of H numbers
    scores = Q Kᵀ                 one product, T² numbers

Steps and numbers are counted; seconds are told and nothing rests on them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import CellState
from elman.cells.elman import ElmanCell, ElmanState
from elman.kernels.dispatch import KernelPlan
from elman.layers.attention import DotAttention
from elman.layers.stack import RecurrentStack, StackState, flat_state
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_INPUTS, _UNITS = 16, 32
_SHORT, _LONG = 10, 1000
_DRAWN = (10, 30, 100, 300, 1000)


class _CountingCell(ElmanCell):
    """A plain cell that keeps every state it was given and made."""

    def __init__(self) -> None:
        super().__init__(_INPUTS, _UNITS)
        self.before: list[Tensor] = []
        self.after: list[Tensor] = []

    def step(self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None) -> ElmanState:
        made = self.combine(self.gates(x_BE, state, seen_BP), state)
        self.before.append(state[0])
        self.after.append(made.h_BH)
        return made


def _run() -> Iterator[Measured]:
    """Yield the sizes of states, the steps in turn, and the numbers of a grid of scores."""
    shapes = [list(flat_state(_read(_cell(), steps))[0].shape) for steps in (_SHORT, _LONG)]
    yield Measured("002-35", shapes, f"state of torch's form after {_SHORT} and {_LONG:,} steps")
    cell = _cell()
    begun = time.perf_counter()
    _read(cell, _LONG)
    in_turn = time.perf_counter() - begun
    waits = [before is after for before, after in zip(cell.before[1:], cell.after, strict=False)]
    told = f"steps made, and how many were given the state of the one before; {in_turn:.3f} s"
    yield Measured("002-36", [len(cell.after), sum(waits)], told)
    sizes = []
    for steps in (_LONG // 2, _LONG):
        begun = time.perf_counter()
        sizes.append(list(_weights(steps).shape[1:]))
        at_once = time.perf_counter() - begun
    numbers = [rows * columns for rows, columns in sizes]
    told = f"grid of all pairs, its numbers, and those over those of half as many; {at_once:.3f} s"
    yield Measured("002-37", [sizes[1], numbers[1], numbers[1] / numbers[0]], told)


def _cell() -> _CountingCell:
    cell = _CountingCell()
    cell.initialise(generator(1, "initialisation"))
    return cell


def _inputs(num_steps: int, width: int) -> Tensor:
    return torch.randn(1, num_steps, width, generator=generator(1, "sampling"))


def _read(cell: ElmanCell, num_steps: int) -> StackState:
    """Return the state of a stack of `cell` after so many inputs, read step by step."""
    with torch.no_grad():
        x_1TE = _inputs(num_steps, _INPUTS)
        _, state = RecurrentStack([cell])(x_1TE, None, None, plan=KernelPlan("reference"))
    after: StackState = state
    return after


def _weights(num_steps: int) -> Tensor:
    """Return how every position attends to every other: [1, T, T]."""
    attention = DotAttention(_UNITS, _UNITS, scale="width")
    x_1TH = _inputs(num_steps, _UNITS)
    with torch.no_grad():
        memory = attention.prepare(x_1TH, torch.ones(1, num_steps, dtype=torch.bool))
        return attention.attend(x_1TH, memory).weights_BTS


def _draw(path: Path) -> None:
    """Draw what is carried and what is compared against the length, and the seconds of both."""
    draw_panels(path, [_numbers, _seconds])


def _numbers(axes: Any) -> None:
    kept = [flat_state(_read(_cell(), steps))[0].numel() for steps in _DRAWN]
    axes.plot(_DRAWN, kept, marker="o", label="numbers in the state")
    axes.plot(_DRAWN, [_weights(steps).numel() for steps in _DRAWN], marker="s", label="scores")
    axes.set(xscale="log", yscale="log", xlabel="length", ylabel="numbers")
    axes.set_title("The state stays, the grid grows with the square")


def _seconds(axes: Any) -> None:
    ways: Sequence[tuple[str, Callable[[int], object]]] = (
        ("recurrence, step by step", lambda steps: _read(_cell(), steps)),
        ("all pairs at once", _weights),
    )
    for label, run in ways:
        axes.plot(_DRAWN, [_fastest(run, steps) for steps in _DRAWN], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="length", ylabel="seconds, least of 5")
    axes.set_title("One after another, or at once")


def _fastest(run: Callable[[int], object], num_steps: int) -> float:
    seconds = []
    for _ in range(5):
        begun = time.perf_counter()
        run(num_steps)
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


FIXED_MEMORY = Experiment(
    "fixed-memory",
    "a state of one size for any length, and steps that wait for each other",
    "document 002, limits of recurrence",
    _run,
    _draw,
)
