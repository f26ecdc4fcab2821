"""Gradients of any number of the states of a stack of two directions, against loops by hand."""

import pytest
import torch
from chance_cells import random_cell

from elman.cells.registry import CELLS
from elman.inspection.gradient_reach import stack_gradients
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack

STEPS, UNITS, LAYERS = 4, 5, 2
SMALL = 1e-6


def two_way_stack(kind: str) -> RecurrentStack:
    """Two layers in both directions, every weight by chance."""
    cells = []
    for place in range(2 * LAYERS):
        cell = CELLS[kind](3 if place < 2 else 2 * UNITS, UNITS).double()
        drawn = torch.Generator().manual_seed(place)
        with torch.no_grad():
            for parameter in cell.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=drawn).double() * 0.6)
        cells.append(cell)
    return RecurrentStack(cells, num_directions=2)


def value_of(states_BTH: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(-1.0, 1.0, states_BTH[0].numel()).double().view(states_BTH.shape[1:])
    return (states_BTH.tanh() * weights).sum(dim=(1, 2))


def unrolled(
    stack: RecurrentStack, x_BTE: torch.Tensor, moved: tuple[int, int, int, int], by: float
):
    """The value, one number of one state moved before one step: (place, step, part, unit)."""
    read_BTE = x_BTE
    for layer in range(LAYERS):
        halves = []
        for way in range(2):
            place = 2 * layer + way
            cell, outputs = stack.cell(place), {}
            state = cell.zero_state(1)
            for step in range(STEPS) if way == 0 else reversed(range(STEPS)):
                parts = [part.clone() for part in state]
                if moved[:2] == (place, step):
                    parts[moved[2]][0, moved[3]] += by
                state = cell.step(read_BTE[:, step], cell.pack_state(parts))
                outputs[step] = state[0]
            halves.append(torch.stack([outputs[step] for step in range(STEPS)], dim=1))
        read_BTE = torch.cat(halves, dim=2)
    return value_of(read_BTE).item()


@pytest.mark.parametrize("kind", ["elman/tanh", "gru/after/keep", "lstm"])
def test_states_of_both_directions_have_the_gradients_of_differences(kind: str) -> None:
    stack = two_way_stack(kind)
    x_BTE = torch.randn(1, STEPS, 3, generator=torch.Generator().manual_seed(7)).double()
    found = stack_gradients(stack, x_BTE, value_of)
    with torch.no_grad():
        for place in range(2 * LAYERS):
            for step in range(STEPS):
                slopes = []
                for part, size in enumerate(stack.cell(place).state_sizes):
                    for unit in range(size):
                        where = (place, step, part, unit)
                        ends = [unrolled(stack, x_BTE, where, by) for by in (SMALL, -SMALL)]
                        slopes.append((ends[0] - ends[1]) / (2 * SMALL))
                # A central difference of float64 is right to about the square of its step.
                want = torch.tensor(slopes).norm().item()
                assert found.states_PBT[place, 0, step].item() == pytest.approx(
                    want, rel=1e-5, abs=1e-8
                ), (place, step)


@pytest.mark.parametrize("kind", ["elman/tanh", "gru/after/keep", "lstm", "mingru"])
def test_inputs_have_the_gradients_of_a_run_by_the_kernels(kind: str) -> None:
    stack = two_way_stack(kind)
    x_BTE = torch.randn(2, STEPS, 3, generator=torch.Generator().manual_seed(8)).double()
    leaf = x_BTE.clone().requires_grad_(True)
    states_BTH, _ = stack(leaf, None, None, plan=KernelPlan())
    value_B = value_of(states_BTH)
    (grad,) = torch.autograd.grad(value_B.sum(), leaf)
    found = stack_gradients(stack, x_BTE, value_of)
    torch.testing.assert_close(found.scalar_B, value_B.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.inputs_BT, grad.norm(dim=2), rtol=1e-9, atol=1e-13)
    assert all(parameter.grad is None for parameter in stack.parameters())
    assert not x_BTE.requires_grad


def test_a_state_that_nothing_depends_on_has_no_gradient() -> None:
    stack = RecurrentStack([random_cell("gru/after/keep")])
    x_BTE = torch.randn(1, STEPS, 3, generator=torch.Generator().manual_seed(9)).double()
    found = stack_gradients(stack, x_BTE, lambda states_BTH: states_BTH[:, 1].sum(dim=1))
    assert (found.inputs_BT[0, :2] > 0).all()
    assert (found.inputs_BT[0, 2:] == 0).all()
    assert (found.states_PBT[0, 0, 2:] == 0).all()
