"""The derivative of a state by an earlier one: a product of Jacobians, its bound, its traps.

    J_t = dh_t/dh_{t−1} = diag(1 − h_t²) W_h,   dh_T/dh_k = J_T J_{T−1} … J_{k+1}
    ‖dh_T/dh_k‖ ≤ Π ‖J_t‖ ≤ ρ^{T−k}  where ‖J_t‖ ≤ ρ at every step

Norms are the greatest singular values. Neither an eigenvalue of W_h nor the size of its entries
says what the product does: [[0.9, 1], [0, 0.9]] has the eigenvalue of [[0.9, 0], [0, 0.9]], and a
state near ±1 has a small slope under any weight.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elman.cells.elman import ElmanCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import TEN_SEEDS
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_UNITS, _STEPS = 4, 20
_RHO = 0.9
_DIAGONAL = ((0.9, 0.0), (0.0, 0.9))
_SHEAR = ((0.9, 1.0), (0.0, 0.9))


class _Path(NamedTuple):
    """The Jacobian of each step by autograd, their product, and that of the whole run."""

    steps: list[Tensor]
    formula: list[Tensor]
    whole: Tensor


def _run() -> Iterator[Measured]:
    """Yield how far the rules are from the derivatives, the bound, and two traps."""
    path = _random_path(1)
    local = max(_apart(*pair) for pair in zip(path.steps, path.formula, strict=True))
    yield Measured(
        "000-08",
        [local, _apart(_product(path.steps)[-1], path.whole) / _norm(path.whole)],
        f"tanh cell of {_UNITS} units: greatest difference of a step's derivative from "
        f"diag(1 − h²) W_h; of the derivative over {_STEPS} steps from their product, as a share",
    )
    shares = [_share_of_bound(seed) for seed in TEN_SEEDS]
    yield Measured(
        "000-09",
        max(shares),
        f"ten random cells with ‖W_h‖ = {_RHO}, 2 to {_STEPS} steps: the greatest of the norm of "
        "the product over the product of norms, and of this over ρ to the number of steps",
        tuple(shares),
    )
    yield Measured(
        "000-33",
        _slope(weight=5.0, state=0.9999),
        "tanh cell of one unit with a weight of 5, driven to 0.9999: dh_t/dh_{t−1}",
    )
    norms = [_norm_over(matrix, steps=10) for matrix in (_DIAGONAL, _SHEAR)]
    saturated = _slope(weight=5.0, state=0.9999) ** 10
    yield Measured(
        "000-34",
        [*norms, math.log10(saturated)],
        "norm over ten steps from the zero state: both eigenvalues 0.9 without and with an entry "
        "beside them; decimal logarithm of it for eigenvalue 5 at 0.9999",
    )


def _random_path(seed: int) -> _Path:
    """Run a random tanh cell with ‖W_h‖ = ρ on random inputs, and take every derivative."""
    draw = generator(seed, "sampling")
    cell = ElmanCell(_UNITS, _UNITS).double()
    cell.initialise(generator(seed, "initialisation"))
    with torch.no_grad():
        cell.weight_hh.mul_(_RHO / torch.linalg.matrix_norm(cell.weight_hh, 2))
    x_BTE = torch.randn(1, _STEPS, _UNITS, generator=draw, dtype=torch.float64)
    h_BH = torch.randn(1, _UNITS, generator=draw, dtype=torch.float64).tanh()

    def final(h_BH: Tensor) -> Tensor:
        _, state = recur(cell, x_BTE, cell.pack_state([h_BH]), None, plan=KernelPlan("reference"))
        return state[0]

    whole = _jacobian(final, h_BH)
    steps, formula = [], []
    for x_BE in x_BTE.unbind(1):
        steps.append(_step_jacobian(cell, x_BE, h_BH))
        with torch.no_grad():
            h_BH = cell.step(x_BE, cell.pack_state([h_BH]))[0]
            formula.append(torch.diag(1.0 - h_BH[0] ** 2) @ cell.weight_hh)
    return _Path(steps, formula, whole)


def _share_of_bound(seed: int) -> float:
    """Return by how much of them, at most, the two bounds are used."""
    steps = _random_path(seed).steps
    used = []
    for length, product in enumerate(_product(steps), 1):
        norms = math.prod(_norm(step) for step in steps[:length])
        used += [_norm(product) / norms, norms / _RHO**length]
    return max(used[2:])


def _slope(*, weight: float, state: float) -> float:
    """Return dh_t/dh_{t−1} of one unit whose input holds it at `state`."""
    cell = _cell_of(((weight,),))
    with torch.no_grad():
        cell.weight_ih.fill_(1.0)
    h_BH = torch.tensor([[state]], dtype=torch.float64)
    return _step_jacobian(cell, torch.atanh(h_BH) - weight * h_BH, h_BH).item()


def _norm_over(matrix: Sequence[Sequence[float]], *, steps: int) -> float:
    """Return the norm of the derivative over `steps` without input, from the zero state."""
    cell = _cell_of(matrix)
    empty_BTE = torch.zeros(1, steps, 1, dtype=torch.float64)

    def final(h_BH: Tensor) -> Tensor:
        state = cell.pack_state([h_BH])
        return recur(cell, empty_BTE, state, None, plan=KernelPlan("reference"))[1][0]

    return _norm(_jacobian(final, torch.zeros(1, len(matrix), dtype=torch.float64)))


def _cell_of(matrix: Sequence[Sequence[float]]) -> ElmanCell:
    cell = ElmanCell(1, len(matrix), bias="none").double()
    with torch.no_grad():
        cell.weight_hh.copy_(torch.tensor(matrix, dtype=torch.float64))
    return cell


def _step_jacobian(cell: ElmanCell, x_BE: Tensor, h_BH: Tensor) -> Tensor:
    return _jacobian(lambda h_BH: cell.step(x_BE, cell.pack_state([h_BH]))[0], h_BH)


def _jacobian(function: Any, h_BH: Tensor) -> Tensor:
    """Return dfunction/dh as [H, H], rows of one batch row."""
    found: Tensor = torch.autograd.functional.jacobian(function, h_BH)  # type: ignore[no-untyped-call]
    return found[0, :, 0]


def _product(steps: Sequence[Tensor]) -> list[Tensor]:
    """Return J_1, J_2 J_1, J_3 J_2 J_1, …"""
    products = [steps[0]]
    for step in steps[1:]:
        products.append(step @ products[-1])
    return products


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, 2))


def _apart(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()


def _draw(path: Path) -> None:
    """Draw the bound beside what it bounds, and two cells of one eigenvalue."""
    draw_panels(path, [_bounds, _traps])


def _bounds(axes: Any) -> None:
    steps = _random_path(1).steps
    lengths = range(1, _STEPS + 1)
    norms = [math.prod(_norm(step) for step in steps[:length]) for length in lengths]
    axes.plot(lengths, [_RHO**length for length in lengths], label="ρ to the steps, ρ = 0.9")
    axes.plot(lengths, norms, label="product of the norms")
    axes.plot(lengths, [_norm(product) for product in _product(steps)], label="norm of the product")
    axes.set(yscale="log", xlabel="steps", ylabel="‖dh / dh before‖")


def _traps(axes: Any) -> None:
    lengths = range(1, 101, 3)
    for matrix, name in ((_SHEAR, "[[0.9, 1], [0, 0.9]]"), (_DIAGONAL, "[[0.9, 0], [0, 0.9]]")):
        axes.plot(lengths, [_norm_over(matrix, steps=length) for length in lengths], label=name)
    axes.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    axes.set(yscale="log", xlabel="steps", ylabel="norm", title="one eigenvalue, two products")


JACOBIANS = Experiment(
    "jacobians",
    "a long dependency is a product of Jacobians: its bound, and what does not decide it",
    "document 000, A long dependency is a product of Jacobians",
    _run,
    _draw,
)
