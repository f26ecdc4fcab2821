"""The direct path through a gated unit, and the whole derivative of which it is one term.

    h_t = (1 − z_t) ∘ h_{t−1} + z_t ∘ h̃_t
    dh_t/dh_{t−1} = diag(1 − z_t) + diag(h̃_t − h_{t−1}) dz_t/dh_{t−1} + diag(z_t) dh̃_t/dh_{t−1}

The first term alone is what stays when gate and candidate are held fixed: `combine` on values of
`gates` that carry no gradient. The other two hold the state fixed, and let one of them vary.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import TEN_SEEDS
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_STEPS, _UNITS = 50, 4
_GATE = 0.01


def _run() -> Iterator[Measured]:
    """Yield the carried share, the three curves, and the three terms beside the whole."""
    carried = _carried(_gated(_GATE), _STEPS)
    yield Measured(
        "000-12",
        carried[-1],
        f"a GRU of one unit that replaces, its update gate at {_GATE} and held fixed, {_STEPS} "
        "steps: dh_T/dh_0",
    )
    curves = [_carried(_factor(0.9), _STEPS), carried, _carried(_factor(1.1), _STEPS)]
    yield Measured(
        "000-13",
        [[curve[0], _slope_of_log(curve), curve[-1]] for curve in curves],
        "derivatives over 0 to 50 steps at 0.9, at 0.99 (a gate at 0.01), at 1.1: the first, the "
        "factor of one step by the straight line through the logarithms, the last",
    )
    terms = [_terms(seed) for seed in TEN_SEEDS]
    differences = tuple(_most(sum(three) - whole) for *three, whole in terms)
    alone = tuple(_most(carry - whole) for carry, _, _, whole in terms)
    identity = torch.eye(_UNITS, dtype=torch.float64)
    least = min(_most(whole - identity) for *_, whole in terms)
    yield Measured(
        "000-14",
        [max(differences), min(alone) > 1e-3, least > 1e-3],
        f"ten random GRUs of {_UNITS} units: the three terms less the whole, at most; whether the "
        f"carried term alone is another matrix (by {min(alone):.3g} at least), and whether the "
        f"whole is not the identity (by {least:.3g} at least)",
        alone,
    )


def _gated(gate: float) -> GRUCell:
    """Return a GRU of one unit whose update gate has this value, whatever it reads."""
    cell = GRUCell(1, 1, reset="before", update="replace").double()
    assert cell.bias_ih is not None
    with torch.no_grad():
        cell.bias_ih[1] = math.log(gate / (1.0 - gate))
    return cell


def _factor(weight: float) -> ElmanCell:
    """Return the cell h_t = w h_{t−1}."""
    cell = ElmanCell(1, 1, activation="identity", bias="none").double()
    with torch.no_grad():
        cell.weight_hh.fill_(weight)
    return cell


def _carried(cell: Cell, steps: int) -> list[float]:
    """Return dh_t/dh_0 for t from 0 to `steps`; the gates of a GRU are held fixed."""
    x_BE = torch.zeros(1, 1, dtype=torch.float64)
    first_BH = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    state, slopes = cell.pack_state([first_BH]), [1.0]
    for _ in range(steps):
        with torch.set_grad_enabled(not isinstance(cell, GRUCell)):
            gates = cell.gates(x_BE, state)
        state = cell.combine(gates, state)
        (slope,) = torch.autograd.grad(state[0].sum(), first_BH, retain_graph=True)
        slopes.append(slope.item())
    return slopes


def _slope_of_log(curve: list[float]) -> float:
    """Return the factor of one step that fits the logarithms best; 0 where they are no line."""
    logs_T = torch.tensor(curve, dtype=torch.float64).log()
    steps_T = torch.arange(len(curve), dtype=torch.float64)
    rise = ((steps_T - steps_T.mean()) * (logs_T - logs_T.mean())).sum()
    factor = rise / ((steps_T - steps_T.mean()) ** 2).sum()
    is_line = torch.allclose(logs_T, factor * steps_T, rtol=0.0, atol=1e-9)
    return factor.exp().item() if is_line else 0.0


def _terms(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the carried term, that of the gate, that of the candidate, and the whole: [H, H]."""
    cell = GRUCell(3, _UNITS, reset="before", update="replace").double()
    cell.initialise(generator(seed, "initialisation"))
    draw = generator(seed, "sampling")
    x_BE = torch.randn(1, 3, generator=draw, dtype=torch.float64)
    h_BH = torch.rand(1, _UNITS, generator=draw, dtype=torch.float64) * 2.0 - 1.0
    with torch.no_grad():
        fixed = cell.gates(x_BE, cell.pack_state([h_BH]))

    def through(name: str) -> Callable[[Tensor], Tensor]:
        def after(varied_BH: Tensor) -> Tensor:
            gate_BH = cell.gates(x_BE, cell.pack_state([varied_BH]))[name]
            return cell.combine({**fixed, name: gate_BH}, cell.pack_state([h_BH]))[0]

        return after

    def carried(varied_BH: Tensor) -> Tensor:
        return cell.combine(fixed, cell.pack_state([varied_BH]))[0]

    def whole(varied_BH: Tensor) -> Tensor:
        return cell.step(x_BE, cell.pack_state([varied_BH]))[0]

    functions = (carried, through("update"), through("candidate"), whole)
    found = [
        torch.autograd.functional.jacobian(one, h_BH)[0, :, 0]  # type: ignore[no-untyped-call]
        for one in functions
    ]
    carry, gate, candidate, full = found
    return carry, gate, candidate, full


def _most(matrix: Tensor) -> float:
    return matrix.abs().max().item()


def _draw(path: Path) -> None:
    """Draw the three curves, and the size of the three terms for ten random units."""
    draw_panels(path, [_curves, _sizes])


def _curves(axes: Any) -> None:
    steps = range(_STEPS + 1)
    cells = ((_factor(1.1), "factor 1.1"), (_gated(_GATE), "carried under z = 0.01: 0.99"))
    for cell, name in (*cells, (_factor(0.9), "factor 0.9")):
        curve = _carried(cell, _STEPS)
        (line,) = axes.plot(steps, curve, label=name)
        axes.annotate(f" {curve[-1]:.3g}", (_STEPS, curve[-1]), color=line.get_color(), va="center")
    axes.set(yscale="log", xlabel="steps", ylabel="dh_T / dh_0", xlim=(0, _STEPS + 7))


def _sizes(axes: Any) -> None:
    names = ("carried", "by the gate", "by the candidate", "whole")
    rows = [_terms(seed) for seed in TEN_SEEDS]
    for place in range(len(names)):
        norms = [torch.linalg.matrix_norm(row[place], 2).item() for row in rows]
        axes.plot([place] * len(norms), norms, "o", alpha=0.6)
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="norm", title="terms of one step, ten random GRUs", ylim=(0, None))
    axes.margins(x=0.15)


CARRY_PATH = Experiment(
    "carry-path",
    "what a gate carries directly, and the two terms that the whole derivative has beside it",
    "document 000, Gates create a controllable carry path, figure 2",
    _run,
    _draw,
)
