"""What is recorded is what runs: the same states as every kernel gives, and nothing is changed."""

from itertools import pairwise

import pytest
import torch
from chance_cells import INPUTS, UNITS, random_cell, random_state

from elman.cells.cell import Cell
from elman.cells.registry import CELLS
from elman.inspection.recording import record, record_step
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack, StackOptions


def inputs(batch_size: int = 2, num_steps: int = 7) -> torch.Tensor:
    drawn = torch.Generator().manual_seed(8)
    return torch.randn(batch_size, num_steps, INPUTS, generator=drawn).double()


def stack_of(name: str, *, layers: int = 2, directions: int = 1, options=None) -> RecurrentStack:
    cells, read = [], INPUTS
    for _ in range(layers):
        row = [CELLS[name](read, UNITS).double() for _ in range(directions)]
        cells += row
        read = sum(one.output_size for one in row)
    stack = RecurrentStack(cells, num_directions=directions, options=options).double()
    drawn = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn).double() * 0.6)
    return stack


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("options", [None, StackOptions(residual=True, layer_norm=True)])
@pytest.mark.parametrize("name", sorted(CELLS))
def test_a_recording_has_the_states_of_the_stack(name: str, options, directions: int) -> None:
    stack, x_BTE = stack_of(name, directions=directions, options=options), inputs()
    with torch.no_grad():
        states_BTH, state = stack(x_BTE, None, None, plan=KernelPlan())
        found = record(stack, x_BTE)
    torch.testing.assert_close(found.states_BTH, states_BTH, rtol=1e-10, atol=1e-12)
    for one, other in zip(found.state, state, strict=True):
        for part, wanted in zip(one, other, strict=True):
            torch.testing.assert_close(part, wanted, rtol=1e-10, atol=1e-12)


def test_each_step_begins_where_the_one_before_ended_in_its_own_direction() -> None:
    found = record(stack_of("lstm", directions=2), inputs())
    for place, steps in enumerate(found.steps):
        ordered = steps if place % 2 == 0 else steps[::-1]
        for one, after in pairwise(ordered):
            for part, wanted in zip(after.before, one.after, strict=True):
                assert torch.equal(part, wanted)


def test_two_windows_with_the_state_handed_on_are_one() -> None:
    stack, x_BTE = stack_of("gru/after/keep"), inputs()
    whole = record(stack, x_BTE)
    first = record(stack, x_BTE[:, :3])
    second = record(stack, x_BTE[:, 3:], first.state)
    joined = torch.cat((first.states_BTH, second.states_BTH), dim=1)
    torch.testing.assert_close(joined, whole.states_BTH, rtol=1e-12, atol=0)


def test_recorded_gates_are_combined_to_the_state_after(cell: Cell) -> None:
    step = record_step(cell, inputs()[:, 0], random_state(cell, 2))
    assert tuple(step.gates) == cell.gate_names
    for part, wanted in zip(cell.step(step.x_BE, step.before), step.after, strict=True):
        assert torch.equal(part, wanted)


def test_recording_draws_nothing_and_changes_no_parameter() -> None:
    stack = stack_of("lstm")
    before = {name: value.clone() for name, value in stack.state_dict().items()}
    torch.manual_seed(4)
    stream = torch.random.get_rng_state()
    record(stack, inputs())
    assert torch.equal(stream, torch.random.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in stack.state_dict().items())
    assert all(parameter.grad is None for parameter in stack.parameters())


def test_a_cell_reads_what_it_is_given() -> None:
    cell = random_cell("elman/tanh")
    step = record_step(cell, inputs()[:, 0], random_state(cell, 2))
    want = torch.tanh(
        step.x_BE @ cell.weight_ih.T
        + cell.bias_ih
        + step.before[0] @ cell.weight_hh.T
        + cell.bias_hh
    )
    torch.testing.assert_close(step.after[0], want, rtol=1e-12, atol=0)
