"""A recurrence step by step is what the layer computes, and what `torch.nn.RNN` computes.

    h_0 = 0,   h_t = tanh(W_ih x_t + b_ih + W_hh h_{t−1} + b_hh),   t = 1 … 3

for three words of four numbers each and a state of three numbers. The weights of the document are
not given, so that its states are checked by what each of them may depend on.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elman.cells.elman import ElmanCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.layers.stack import RecurrentStack, flat_state
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_WORDS = ("dog", "bites", "man")
_INPUTS, _UNITS = 4, 3
_SEEDS = tuple(range(1, 11))
_ROWS, _STEPS = 5, 2


def _run() -> Iterator[Measured]:
    """Yield shapes, ranges, dependences and the distance between the three ways to compute."""
    cell, x_1TE = _cell(1), _inputs(1)
    states = _by_hand(cell, x_1TE)
    sizes = [len(states), x_1TE.shape[2], states[0].shape[1]]
    yield Measured("002-02", sizes, "steps made, numbers read at each, numbers kept")
    for claim, word in (("002-03", 0), ("002-04", 1), ("002-05", 2)):
        told = f"which of the inputs the state after {_WORDS[word]} depends on, and whether on W_hh"
        yield Measured(claim, _dependences(cell, x_1TE, word), told)
    largest: list[float] = [
        max(state.abs().max().item() for state in _by_hand(_cell(seed), _inputs(seed)))
        for seed in _SEEDS
    ]
    yield Measured("002-06", max(largest) < 1.0, "|h| of 10 seeds", tuple(largest))
    distances = [_distance_from_torch(seed) for seed in _SEEDS]
    yield Measured("002-07", max(distances), "loop, layer and nn.RNN, float64", tuple(distances))
    stack = RecurrentStack([cell])
    out_1TH, after = stack(x_1TE, None, None, plan=KernelPlan("reference"))
    shapes = [list(out_1TH.shape), list(flat_state(after)[0].shape)]
    yield Measured("002-08", shapes, "every step's state, and the last one as torch has it")
    yield Measured("002-09", _time_first(), "shapes of h with batch_first and without, same input")


def _cell(seed: int) -> ElmanCell:
    cell = ElmanCell(_INPUTS, _UNITS).double()
    cell.initialise(generator(seed, "initialisation"))
    return cell


def _inputs(seed: int) -> Tensor:
    shape = (1, len(_WORDS), _INPUTS)
    return torch.randn(shape, generator=generator(seed, "sampling"), dtype=torch.float64)


def _by_hand(cell: ElmanCell, x_1TE: Tensor) -> list[Tensor]:
    """Return the state after each word, one step of the cell at a time."""
    state, states = cell.zero_state(1), list[Tensor]()
    for x_1E in x_1TE.unbind(1):
        state = cell.step(x_1E, state)
        states.append(state[0])
    return states


def _dependences(cell: ElmanCell, x_1TE: Tensor, word: int) -> list[bool]:
    """Return for each input, and for W_hh, whether the state after `word` moves with it."""
    x_1TE = x_1TE.clone().requires_grad_()
    state_1H = _by_hand(cell, x_1TE)[word]
    slope_1TE, slope_HH = torch.autograd.grad(state_1H.sum(), (x_1TE, cell.weight_hh))
    return [*(slope_1TE[0] != 0.0).any(dim=1).tolist(), bool((slope_HH != 0.0).any())]


def _distance_from_torch(seed: int) -> float:
    """Return the largest distance of the loop and the layer from torch's on the same weights."""
    cell, x_1TE = _cell(seed), _inputs(seed)
    with torch.random.fork_rng(devices=[]):
        layer = nn.RNN(_INPUTS, _UNITS, batch_first=True).double()
    layer.load_state_dict({f"{name}_l0": weight for name, weight in cell.named_parameters()})
    with torch.no_grad():
        expected_1TH, _ = layer(x_1TE)
        found_1TH, _ = recur(cell, x_1TE, None, None, plan=KernelPlan("reference"))
        by_hand_1TH = torch.stack(_by_hand(cell, x_1TE), dim=1)
    distance: float = max(
        (found - expected_1TH).abs().max().item() for found in (found_1TH, by_hand_1TH)
    )
    return distance


def _time_first() -> list[list[int]]:
    """Return the shape of torch's last state for [5, 2, 4], batch first and time first."""
    rows_BTE = torch.zeros(_ROWS, _STEPS, _INPUTS)
    shapes = []
    for batch_first in (True, False):
        with torch.random.fork_rng(devices=[]):
            layer = nn.RNN(_INPUTS, _UNITS, batch_first=batch_first)
        _, last_1BH = layer(rows_BTE)
        shapes.append(list(last_1BH.shape))
    return shapes


def _draw(path: Path) -> None:
    """Draw the state after each word, unit by unit."""
    draw_panels(path, [_states])


def _states(axes: Any) -> None:
    with torch.no_grad():
        states_TH = torch.cat(_by_hand(_cell(1), _inputs(1)))
    image = axes.imshow(states_TH.T, vmin=-1.0, vmax=1.0, cmap="coolwarm")
    axes.set_xticks(range(len(_WORDS)), _WORDS)
    axes.set_yticks(range(_UNITS), [f"unit {unit + 1}" for unit in range(_UNITS)])
    for unit in range(_UNITS):
        for word in range(len(_WORDS)):
            value = states_TH[word, unit].item()
            axes.text(word, unit, f"{value:.3f}", ha="center", va="center")
    axes.set_title("The state after each word")
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


LOOP_BY_HAND = Experiment(
    "loop-by-hand",
    "a recurrence step by step, as a layer, and as torch.nn.RNN",
    "document 002, recurrent networks; J. L. Elman (1990)",
    _run,
    _draw,
)
