"""How a product of Jacobians grows: the singular value bounds it, and no more.

    ‖W^T‖ ≤ σ(W)^T,   ‖W^T‖^{1/T} → ρ(W) ≤ σ(W),   ∂h_t/∂h_{t−1} = diag(tanh′(a_t)) W,  tanh′ ≤ 1

with σ the largest singular value and ρ the largest modulus of an eigenvalue. A matrix with σ above
1 may well forget: what decides in the long run is ρ. And a large weight may pass little on where it
drives its unit to the flat ends of tanh.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.elman import ElmanCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_SHEAR = ((0.9, 1.0), (0.0, 0.9))
"""Both eigenvalues are 0.9, and the largest singular value is above 1.5."""
_SEEDS = range(1, 11)


def _run() -> Iterator[Measured]:
    """Yield norms of powers against σ^T, and slopes of tanh."""
    norms = _norms(torch.tensor(_SHEAR, dtype=torch.float64), 100)
    shares = []
    for seed in _SEEDS:
        drawn = _norms(_drawn(seed), 50)
        shares.append(drawn[-1] / drawn[0] ** 50)
    yield Measured(
        "004-08",
        [norms[0], norms[-1], max(shares) <= 1.0],
        f"{_SHEAR} as recurrent matrix: its norm, that of 100 steps; whether of ten drawn matrices "
        "the norm of 50 steps is at most σ^50 (by seed: their ratio)",
        by_seed=tuple(shares),
    )
    inputs = torch.linspace(-5.0, 5.0, 1001, dtype=torch.float64)
    slopes = _slopes(inputs, weight=1.0)
    most = int(slopes.argmax())
    yield Measured(
        "004-14",
        [slopes[most].item(), inputs[most].item(), int((slopes >= 1.0).sum()), _saturated(5.0)],
        "largest slope of tanh over 1,001 inputs, where it is, how often it is reached; "
        "derivative of the next state by a state of 0.9 under a weight of 5",
    )


def _norms(matrix_HH: Tensor, steps: int) -> list[float]:
    """Return ‖W^t‖ for t = 1 … steps, of an identity cell that starts from each unit vector."""
    size = matrix_HH.shape[0]
    cell = ElmanCell(1, size, activation="identity", bias="none").double()
    with torch.no_grad():
        cell.weight_hh.copy_(matrix_HH)
        begun = cell.pack_state([torch.eye(size, dtype=torch.float64)])
        empty_BTE = torch.zeros(size, steps, 1, dtype=torch.float64)
        states_BTH, _ = recur(cell, empty_BTE, begun, None, plan=KernelPlan("reference"))
        norms_T = torch.linalg.matrix_norm(states_BTH.transpose(0, 1), ord=2)
    found: list[float] = norms_T.tolist()
    return found


def _drawn(seed: int) -> Tensor:
    """Return the recurrent matrix of a new cell of 16 units."""
    cell = ElmanCell(1, 16)
    cell.initialise(generator(seed, "initialisation"))
    return cell.weight_hh


def _slopes(inputs_B: Tensor, weight: float) -> Tensor:
    """Return dh/dx at each input of a cell of one unit that starts from zero, by autograd."""
    cell = ElmanCell(1, 1, bias="none").double()
    with torch.no_grad():
        cell.weight_ih.fill_(weight)
        x_B1 = inputs_B.unsqueeze(1).clone()
    x_B1.requires_grad_()
    (slopes_B1,) = torch.autograd.grad(cell.step(x_B1, cell.zero_state(len(x_B1)))[0].sum(), x_B1)
    return slopes_B1[:, 0]


def _saturated(weight: float, states: Sequence[float] = (0.9,)) -> float:
    """Return the derivative of the next state by the first of `states`, under the weight."""
    return _recurrent_slopes(torch.tensor(states, dtype=torch.float64), weight)[0].item()


def _recurrent_slopes(states_B: Tensor, weight: float) -> Tensor:
    """Return dh_t/dh_{t−1} at each state of a cell of one unit without input."""
    cell = ElmanCell(1, 1, bias="none").double()
    with torch.no_grad():
        cell.weight_hh.fill_(weight)
        h_B1 = states_B.unsqueeze(1).clone()
    h_B1.requires_grad_()
    after = cell.step(torch.zeros_like(h_B1), cell.pack_state([h_B1]))
    (slopes_B1,) = torch.autograd.grad(after[0].sum(), h_B1)
    return slopes_B1[:, 0]


def _draw(path: Path) -> None:
    """Draw the norm of powers under its bound, and the slope of a step under three weights."""
    draw_panels(path, [_norm_panel, _slope_panel])


def _norm_panel(axes: Any) -> None:
    steps = range(1, 101)
    norms = _norms(torch.tensor(_SHEAR, dtype=torch.float64), len(steps))
    radius = torch.linalg.eigvals(torch.tensor(_SHEAR, dtype=torch.float64)).abs().max().item()
    axes.plot(steps, [norms[0] ** t for t in steps], "--", label="σ^T, the bound")
    axes.plot(steps, norms, linewidth=2.5, label="‖W^T‖")
    axes.plot(steps, [radius**t for t in steps], ":", label="ρ^T")
    axes.set(yscale="log", xlabel="steps, T", ylabel="norm", ylim=(1e-6, 1e20))
    axes.set_title("σ = 1.53, and yet it vanishes")


def _slope_panel(axes: Any) -> None:
    states = torch.linspace(-1.0, 1.0, 401, dtype=torch.float64)
    for weight in (1.0, 2.0, 5.0):
        axes.plot(states, _recurrent_slopes(states, weight), label=f"weight {weight:g}")
    axes.axhline(1.0, color="0.6", linewidth=0.8)
    axes.set(yscale="log", xlabel="state h", ylabel="d next state / dh", ylim=(1e-3, 10))
    axes.set_title("a large weight, a flat tanh")


NORM_OF_PRODUCTS = Experiment(
    "norm-of-products",
    "the largest singular value bounds a product of Jacobians, and no more",
    "document 004, 3.1",
    _run,
    _draw,
)
