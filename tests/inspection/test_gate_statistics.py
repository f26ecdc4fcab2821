"""Figures of gates over a text against the whole arrays of their values."""

import math

import pytest
import torch
from chance_cells import INPUTS, random_cell, random_model, random_state

from elman.cells.cell import Cell
from elman.inspection.gate_statistics import CLOSED, OPEN, GateStatistics, is_share
from elman.inspection.recording import record, record_step


def steps_of(cell: Cell, count: int = 40):
    drawn = torch.Generator().manual_seed(21)
    state, steps = random_state(cell, 3), []
    for _ in range(count):
        x_BE = torch.randn(3, INPUTS, generator=drawn).double()
        steps.append(record_step(cell, x_BE, state))
        state = steps[-1].after
    return steps


def test_moments_are_those_of_all_values_together(cell: Cell) -> None:
    steps = steps_of(cell)
    found = GateStatistics(cell)
    found.add(steps[:13])
    found.add(steps[13:])
    assert found.num_steps == 120
    for name in cell.gate_names:
        values = torch.cat([step.gates[name] for step in steps])
        low = CLOSED if is_share(name) else -OPEN
        moments = found.gates[name]
        torch.testing.assert_close(moments.mean_H, values.mean(dim=0), rtol=1e-10, atol=1e-12)
        deviation = values.std(dim=0, correction=0)
        torch.testing.assert_close(moments.deviation_H, deviation, rtol=1e-6, atol=1e-7)
        assert torch.equal(moments.below_H, (values < low).double().mean(dim=0))
        assert torch.equal(moments.above_H, (values > OPEN).double().mean(dim=0))
    for name, part in zip(
        cell.state_names, zip(*(s.after for s in steps), strict=True), strict=True
    ):
        want = torch.cat(part).mean(dim=0)
        torch.testing.assert_close(found.state[name].mean_H, want, rtol=1e-10, atol=1e-12)


def test_shares_are_within_0_and_1_and_the_others_are_not_called_so(cell: Cell) -> None:
    for step in steps_of(cell, 5):
        for name, value in step.gates.items():
            if is_share(name):
                assert ((value > 0) & (value < 1)).all()


@pytest.mark.parametrize(("bias", "tokens"), [(0.0, 1 / math.log(2)), (3.0, 20.58)])
def test_a_constant_forget_gate_has_the_time_constant_of_its_bias(
    bias: float, tokens: float
) -> None:
    cell = random_cell("lstm")
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        cell.bias_ih[cell.hidden_size : 2 * cell.hidden_size] = bias
    found = GateStatistics(cell)
    found.add(steps_of(cell, 10))
    want = torch.full((cell.hidden_size,), tokens).double()
    torch.testing.assert_close(found.time_constants(), want, rtol=1e-3, atol=0)
    assert found.gates["forget"].stuck().all()


def test_a_plain_recurrence_carries_nothing_past_its_product() -> None:
    cell = random_cell("elman/tanh")
    found = GateStatistics(cell)
    found.add(steps_of(cell, 4))
    assert (found.time_constants() == 0).all()


def test_a_dead_unit_is_told_from_a_living_one() -> None:
    model = random_model("gru", num_layers=1)
    cell = model.stack.cell(0)
    with torch.no_grad():  # unit 2 keeps what it has, which is 0
        cell.bias_ih[cell.hidden_size + 2] = 50.0
    found = GateStatistics(cell)
    found.add(record(model.stack, model.inputs(torch.arange(10)[None])).steps[0])
    assert found.state["h"].stuck().tolist() == [False, False, True, False, False, False]
    assert found.time_constants()[2] == torch.inf
