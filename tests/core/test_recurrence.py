"""Ragged rows run in plateaus: work proportional to valid steps, finals checked by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from elman.cells.elman import ElmanCell
from elman.cells.lstm import LSTMCell
from elman.errors import ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import Plateau, plateaus, recur


def test_two_directions_over_a_padded_row_checked_by_hand() -> None:
    cell = ElmanCell(1, 1).double()
    with torch.no_grad():
        cell.weight_ih.fill_(0.5)
        cell.weight_hh.fill_(0.5)
    x_BTE = torch.tensor([[[1.0], [0.5], [0.0], [0.0]]], dtype=torch.float64)
    two = torch.tensor([2])
    for path in ("reference", "torch"):
        plan = KernelPlan(path)
        _, (forward_BH,) = recur(cell, x_BTE, None, two, plan=plan)
        _, (backward_BH,) = recur(cell, x_BTE, None, two, plan=plan, direction="backward")
        assert abs(forward_BH.item() - 0.4470910) < 5.1e-8
        assert abs(backward_BH.item() - 0.5528380) < 5.1e-8
        _, (wrong_BH,) = recur(cell, x_BTE, None, None, plan=plan)
        assert abs(wrong_BH.item() - 0.1095065) < 5.1e-8  # what reading the padding would give


@given(st.lists(st.integers(0, 9), max_size=9))
def test_plateaus_cover_every_valid_step_once_and_nothing_else(lengths: list[int]) -> None:
    lengths.sort(reverse=True)
    covered = [0] * len(lengths)
    last_stop = 0
    for start, stop, alive in plateaus(lengths):
        assert start == last_stop < stop
        assert alive > 0
        last_stop = stop
        for row in range(alive):
            covered[row] += stop - start
    assert covered == lengths


def test_plateaus_of_three_rows() -> None:
    assert plateaus([3, 3, 1]) == [Plateau(0, 1, 3), Plateau(1, 3, 2)]
    assert plateaus([2, 0]) == [Plateau(0, 2, 1)]
    assert plateaus([0, 0]) == []


class CountingPlan(KernelPlan):
    """Counts the steps of rows that are asked for."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.row_steps = 0

    def find(self, key, x_BTE, *, needs_loop=""):
        self.row_steps += x_BTE.shape[0] * x_BTE.shape[1]
        return super().find(key, x_BTE)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_work_is_proportional_to_valid_steps(direction) -> None:
    plan, lengths_B = CountingPlan(), torch.tensor([1, 40, 3, 0, 3])
    x_BTE = torch.zeros(5, 50, 2)
    states_BTH, _ = recur(LSTMCell(2, 3), x_BTE, None, lengths_B, plan=plan, direction=direction)
    assert states_BTH.shape == (5, 50, 3)
    assert plan.row_steps == 1 + 40 + 3 + 0 + 3


def test_no_rows_and_no_steps_are_allowed() -> None:
    cell, plan = LSTMCell(2, 3), KernelPlan()
    for batch_size, num_steps in ((0, 4), (3, 0)):
        states_BTH, state = recur(cell, torch.ones(batch_size, num_steps, 2), None, None, plan=plan)
        assert states_BTH.shape == (batch_size, num_steps, 3)
        assert state.h_BH.shape == (batch_size, 3)
    one = cell.pack_state([torch.ones(2, 3), 2 * torch.ones(2, 3)])
    states_BTH, state = recur(cell, torch.ones(2, 4, 2), one, torch.tensor([0, 0]), plan=plan)
    assert states_BTH.eq(0).all()
    assert torch.equal(state.h_BH, one.h_BH)
    assert torch.equal(state.c_BH, one.c_BH)


def test_ragged_rows_equal_packed_sequences_of_torch() -> None:
    torch_lstm = nn.LSTM(3, 4, batch_first=True).double()
    cell = LSTMCell(3, 4).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for ours, theirs in zip(cell.weights, torch_lstm.parameters(), strict=True):
            ours.normal_(generator=generator)
            theirs.copy_(ours)
    x_BTE = torch.randn(5, 6, 3, generator=generator, dtype=torch.float64)
    lengths_B = torch.tensor([2, 6, 1, 6, 3])
    packed = nn.utils.rnn.pack_padded_sequence(x_BTE, lengths_B, True, enforce_sorted=False)
    want, (h, c) = torch_lstm(packed)
    want_BTH, _ = nn.utils.rnn.pad_packed_sequence(want, batch_first=True)
    for path in ("auto", "torch", "reference"):
        states_BTH, state = recur(cell, x_BTE, None, lengths_B, plan=KernelPlan(path))
        torch.testing.assert_close(states_BTH, want_BTH, rtol=0, atol=1e-10)
        torch.testing.assert_close(state.h_BH, h[0], rtol=0, atol=1e-10)
        torch.testing.assert_close(state.c_BH, c[0], rtol=0, atol=1e-10)


def test_state_carried_into_a_second_backward_without_detaching_is_an_error() -> None:
    cell, plan = ElmanCell(2, 3), KernelPlan()
    cell.initialise(torch.Generator().manual_seed(2))
    states_BTH, state = recur(cell, torch.ones(1, 4, 2), None, None, plan=plan)
    states_BTH.sum().backward()
    detached = cell.pack_state([part.detach() for part in state])
    again_BTH, _ = recur(cell, torch.ones(1, 4, 2), state, None, plan=plan)
    cut_BTH, _ = recur(cell, torch.ones(1, 4, 2), detached, None, plan=plan)
    assert torch.equal(again_BTH, cut_BTH)  # the values are the same, the graph is not
    cut_BTH.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        again_BTH.sum().backward()


@pytest.mark.parametrize(
    ("x_shape", "state_parts", "lengths", "message"),
    [
        ((2, 4, 3), None, None, r"x_BTE must have the axes \[batch, time, embedding"),
        ((2, 4, 2), None, [1, 2, 3], r"lengths_B must have the axes \[batch\]"),
        ((2, 4, 2), None, [1, 5], "allowed: 0 to 4"),
        ((2, 4, 2), None, [-1, 4], "allowed: 0 to 4"),
        ((2, 4, 2), [(3, 3), (3, 3)], None, r"h_BH must have the axes \[batch, hidden units\]"),
        ((2, 4, 2), [(2, 3)], None, "must have the parts h, c"),
    ],
)
def test_shapes_that_do_not_fit_are_named(x_shape, state_parts, lengths, message) -> None:
    state = None if state_parts is None else tuple(torch.zeros(shape) for shape in state_parts)
    lengths_B = None if lengths is None else torch.tensor(lengths)
    with pytest.raises(ShapeError, match=message):
        recur(LSTMCell(2, 3), torch.zeros(x_shape), state, lengths_B, plan=KernelPlan())
