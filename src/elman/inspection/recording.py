"""Every step of every cell of a stack, kept: input, state before, gates by name, state after."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from elman.cells.cell import Cell, CellState
from elman.layers.recurrence import Direction
from elman.layers.stack import RecurrentStack, StackState


class CellStep(NamedTuple):
    """One step of one cell: after = combine(gates(x, before), before)."""

    x_BE: Tensor
    before: CellState
    gates: Mapping[str, Tensor]
    after: CellState


class Recording(NamedTuple):
    """steps[place][t]: those of each cell, at the place layer · directions + direction.

    They stand in the order of the text, also of a cell that reads backward, whose state before
    step t is that after step t + 1. states_BTH are the outputs of the last layer, `state` that of
    all cells after their last step.
    """

    steps: tuple[tuple[CellStep, ...], ...]
    states_BTH: Tensor
    state: StackState


def record_step(cell: Cell, x_BE: Tensor, state: CellState) -> CellStep:
    """Return one step of `cell` with everything in it.

    `before` is `state` as tensors of their own, so that a gradient by them is that of this step's
    use of the state alone, not of what the step before made of it otherwise.
    """
    before = cell.pack_state([part.view_as(part) for part in state])
    gates = cell.gates(x_BE, before)
    return CellStep(x_BE, before, gates, cell.combine(gates, before))


def record(stack: RecurrentStack, x_BTE: Tensor, state: StackState | None = None) -> Recording:
    """Run the stack over x_BTE [B, T, E], all rows of T ≥ 1 steps, and keep every step.

    The readable equations are used, and no noise; gradients flow where they are recorded. Memory
    grows with T: read a long text window by window, handing `state` on.
    """
    first = stack.zero_state(len(x_BTE)) if state is None else state
    read_BTE, kept, after = x_BTE, list[tuple[CellStep, ...]](), list[CellState]()
    for layer in range(stack.num_layers):
        outputs = []
        for way in range(stack.num_directions):
            place = layer * stack.num_directions + way
            direction: Direction = "backward" if way else "forward"
            steps = _steps_of(stack.cell(place), read_BTE, first[place], direction)
            outputs.append(torch.stack([step.after[0] for step in steps], dim=1))
            after.append(steps[0 if way else -1].after)
            kept.append(steps)
        written_BTH = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
        read_BTE = stack.joined(layer, read_BTE, written_BTH, None)
    return Recording(tuple(kept), read_BTE, tuple(after))


def _steps_of(
    cell: Cell, x_BTE: Tensor, state: CellState, direction: Direction
) -> tuple[CellStep, ...]:
    """Return the steps of one cell in the order of the text."""
    steps = list[CellStep]()
    for x_BE in x_BTE.unbind(1) if direction == "forward" else x_BTE.flip(1).unbind(1):
        steps.append(record_step(cell, x_BE, state))
        state = steps[-1].after
    return tuple(steps if direction == "forward" else reversed(steps))
