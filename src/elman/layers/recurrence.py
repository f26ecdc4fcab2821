"""Run one cell over time: forward or backward, on rows of any lengths, fast or readable.

The native kernel takes lengths and direction itself. For torch's kernels and for the readable loop
rows are sorted by length and run in plateaus between distinct lengths.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from elman.cells.cell import Cell, CellState
from elman.errors import ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.noise import StepNoise
from elman.shapes import require_shape

Direction = Literal["forward", "backward"]


def recur(
    cell: Cell,
    x_BTE: Tensor,
    state: CellState | None,
    lengths_B: Tensor | None,
    *,
    plan: KernelPlan,
    direction: Direction = "forward",
    noise: StepNoise | None = None,
) -> tuple[Tensor, CellState]:
    """Return (states_BTH, state): the cell's outputs at every step and its state after the last.

        state_t = step(x_t, state_{t−1}),  t = 1 … length;  states_t = the output h of state_t

    x_BTE [B, T, E]; `state` None means zeros; `lengths_B` None means that all rows have T steps,
    else 0 ≤ lengths_B ≤ T. A backward reader starts at each row's own last step and its final state
    is that at step 1; `states_BTH` stays in the order of the input. Steps beyond a row's length are
    never computed: outputs there are exactly 0, gradients there are exactly 0, and the final state
    is that of the row's own last step. A row of length 0 hands its state on unchanged. `noise` acts
    on the state between two steps (`elman.layers.noise`) and needs the readable loop.

    Raises `ShapeError` when state or lengths do not fit x_BTE.
    """
    require_shape("x_BTE", x_BTE, (None, None, cell.input_size))
    batch_size, num_steps = x_BTE.shape[:2]
    state = _checked_state(cell, x_BTE, state)
    lengths = _checked_lengths(lengths_B, batch_size, num_steps)
    is_equal = all(length == num_steps for length in lengths)
    if any(lengths):
        needs_loop = "" if noise is None else noise.needs_loop
        sweep = plan.find_native(
            cell.key, x_BTE, cell.hidden_size, is_ragged=not is_equal, needs_loop=needs_loop
        )
        if sweep is not None:
            valid_B = None if is_equal else torch.tensor(lengths)
            states_BTH, parts = sweep(x_BTE, tuple(state), cell.kernel_weights, valid_B, direction)
            return states_BTH, cell.pack_state(parts)
    if is_equal:
        return _run_equal(cell, x_BTE, state, plan, direction, noise)
    if direction == "backward":
        index_BT = _reversal(lengths, num_steps, x_BTE.device)
        states_BTH, state = _run_plateaus(
            cell, _reordered(x_BTE, index_BT), state, lengths, plan, noise
        )
        return _reordered(states_BTH, index_BT), state
    return _run_plateaus(cell, x_BTE, state, lengths, plan, noise)


class Plateau(NamedTuple):
    """Steps [start, stop) in which the same first `alive` rows, longest first, go on."""

    start: int
    stop: int
    alive: int


def plateaus(lengths_descending: Sequence[int]) -> list[Plateau]:
    """Return the stretches between distinct lengths; Σ (stop − start) · alive = Σ lengths.

    Lengths 3, 3, 1 give [0, 1) with three rows and [1, 3) with two.
    """
    found: list[Plateau] = []
    start, alive = 0, len(lengths_descending)
    while alive > 0:
        stop = lengths_descending[alive - 1]
        if stop > start:
            found.append(Plateau(start, stop, alive))
            start = stop
        while alive > 0 and lengths_descending[alive - 1] == stop:
            alive -= 1
    return found


def _run_plateaus(
    cell: Cell,
    x_BTE: Tensor,
    state: CellState,
    lengths: Sequence[int],
    plan: KernelPlan,
    noise: StepNoise | None,
) -> tuple[Tensor, CellState]:
    batch_size, num_steps = x_BTE.shape[:2]
    order = sorted(range(batch_size), key=lambda row: -lengths[row])
    order_B = torch.tensor(order, device=x_BTE.device)
    x_BTE = x_BTE.index_select(0, order_B)
    parts = [part.index_select(0, order_B) for part in state]
    noise = None if noise is None else noise.of_rows(order_B)
    pieces: list[Tensor] = []
    finished: list[list[Tensor]] = []  # of each plateau, the state of the rows that end before it
    done = 0
    for start, done, alive in plateaus([lengths[row] for row in order]):
        finished.append([part[alive:] for part in parts])
        alive_state = cell.pack_state([part[:alive] for part in parts])
        part_noise = None if noise is None else noise.of_steps(start, done)
        piece_BTH, alive_state = _run_full(
            cell, x_BTE[:alive, start:done], alive_state, plan, part_noise
        )
        parts = list(alive_state)
        pieces.append(pad(piece_BTH, (0, 0, 0, 0, 0, batch_size - alive)))
    finished.append(parts)
    if done < num_steps:
        pieces.append(x_BTE.new_zeros(batch_size, num_steps - done, cell.output_size))
    place_B = torch.empty_like(order_B)
    place_B[order_B] = torch.arange(batch_size, device=x_BTE.device)
    # Rows end in the reverse of their order, so the last plateau's rows come first.
    by_part = zip(*reversed(finished), strict=True)
    final = [torch.cat(part).index_select(0, place_B) for part in by_part]
    return torch.cat(pieces, dim=1).index_select(0, place_B), cell.pack_state(final)


def _run_equal(
    cell: Cell,
    x_BTE: Tensor,
    state: CellState,
    plan: KernelPlan,
    direction: Direction,
    noise: StepNoise | None,
) -> tuple[Tensor, CellState]:
    if direction == "forward":
        return _run_full(cell, x_BTE, state, plan, noise)
    states_BTH, state = _run_full(cell, x_BTE.flip(1), state, plan, noise)
    return states_BTH.flip(1), state


def _run_full(
    cell: Cell, x_BTE: Tensor, state: CellState, plan: KernelPlan, noise: StepNoise | None
) -> tuple[Tensor, CellState]:
    """Run every row over all T steps, forward in time."""
    batch_size, num_steps = x_BTE.shape[:2]
    if batch_size == 0 or num_steps == 0:
        return x_BTE.new_zeros(batch_size, num_steps, cell.output_size), state
    needs_loop = "" if noise is None else noise.needs_loop
    kernel = plan.find(cell.key, x_BTE, needs_loop=needs_loop)
    if kernel is None:
        return _loop(cell, x_BTE, state, noise)
    states_BTH, parts = kernel(x_BTE, tuple(state), cell.kernel_weights)
    return states_BTH, cell.pack_state(parts)


def _loop(
    cell: Cell, x_BTE: Tensor, state: CellState, noise: StepNoise | None
) -> tuple[Tensor, CellState]:
    """The readable twin of every kernel: the cell's step, once for each moment."""
    outputs = []
    for step, x_BE in enumerate(x_BTE.unbind(1)):
        if noise is None:
            state = cell.step(x_BE, state)
        else:
            after = cell.step(x_BE, state, noise.seen(state[0]))
            state = cell.pack_state(noise.mixed(step, state, after))
        outputs.append(state[0])
    return torch.stack(outputs, dim=1), state


def _reversal(lengths: Sequence[int], num_steps: int, device: torch.device) -> Tensor:
    """Return the index [B, T] that turns each row around within its own length; padding stays."""
    steps_T = torch.arange(num_steps, device=device)
    lengths_B1 = torch.tensor(lengths, device=device).unsqueeze(1)
    return torch.where(steps_T < lengths_B1, lengths_B1 - 1 - steps_T, steps_T)


def _reordered(x_BTE: Tensor, index_BT: Tensor) -> Tensor:
    return x_BTE.gather(1, index_BT.unsqueeze(2).expand(-1, -1, x_BTE.shape[2]))


def _checked_state(cell: Cell, x_BTE: Tensor, state: CellState | None) -> CellState:
    batch_size = x_BTE.shape[0]
    if state is None:
        return cell.zero_state(batch_size, dtype=x_BTE.dtype, device=x_BTE.device)
    if len(state) != len(cell.state_names):
        raise ShapeError(
            f"the state of {cell.key} must have the parts {', '.join(cell.state_names)}",
            got=f"{len(state)} parts",
        )
    for name, size, part in zip(cell.state_names, cell.state_sizes, state, strict=True):
        require_shape(f"{name}_BH", part, (batch_size, size))
    return state


def _checked_lengths(lengths_B: Tensor | None, batch_size: int, num_steps: int) -> list[int]:
    if lengths_B is None:
        return [num_steps] * batch_size
    require_shape("lengths_B", lengths_B, (batch_size,))
    lengths: list[int] = lengths_B.tolist()
    if any(length < 0 or length > num_steps for length in lengths):
        raise ShapeError(
            "lengths_B must be within the time axis of the input",
            got=str(lengths),
            allowed=f"0 to {num_steps}",
        )
    return lengths
