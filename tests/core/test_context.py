"""Bridges from an encoder's final state to a decoder's first one."""

import itertools

import pytest
import torch
from torch.nn.functional import linear

from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions, LSTMState
from elman.errors import SettingError, ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.context import StateBridge, select_rows
from elman.layers.stack import RecurrentStack


def stack_of(cell_class, size, *, num_layers=1, num_directions=1, seed=1):
    widths = [3] + [size * num_directions] * (num_layers - 1)
    cells = [cell_class(width, size) for width in widths for _ in range(num_directions)]
    stack = RecurrentStack(cells, num_directions=num_directions).double()
    stack.initialise(torch.Generator().manual_seed(seed))
    return stack


def final_state(stack, lengths, *, extra=0, seed=2):
    generator = torch.Generator().manual_seed(seed)
    x_BTE = torch.randn(len(lengths), max(lengths), 3, generator=generator).double()
    x_BTE = torch.nn.functional.pad(x_BTE, (0, 0, 0, extra), value=5.0)
    return stack(x_BTE, None, torch.tensor(lengths), plan=KernelPlan("reference"))[1]


@pytest.mark.parametrize("kind", ["projection", "tanh"])
@pytest.mark.parametrize(
    ("encoder_cell", "decoder_cell"), list(itertools.product([GRUCell, LSTMCell], repeat=2))
)
def test_every_part_is_its_projection_of_both_directions(kind, encoder_cell, decoder_cell):
    encoder = stack_of(encoder_cell, 4, num_layers=2, num_directions=2)
    decoder = stack_of(decoder_cell, 5, num_layers=3)
    bridge = StateBridge(encoder, decoder, kind).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in bridge.parameters():
            parameter.normal_(generator=generator)
    state = final_state(encoder, [4, 1, 3])
    first = bridge(state, decoder)
    assert [type(part) for part in first] == [type(part) for part in decoder.zero_state(1)]
    place = 0
    for layer, cell_state in enumerate(first):
        read = max(0, layer - 1)  # three layers above two: the lowest one is read twice
        for part, made_BH in enumerate(cell_state):
            source = part if part < len(state[0]) else 0
            both_BR = torch.cat((state[2 * read][source], state[2 * read + 1][source]), dim=1)
            expected_BH = linear(both_BR, bridge.weight[place], bridge.bias[place])
            if kind == "tanh" and part == 0:
                expected_BH = expected_BH.tanh()
            torch.testing.assert_close(made_BH, expected_BH, atol=1e-12, rtol=0)
            place += 1
    assert place == len(bridge.weight)


def test_a_state_of_the_right_width_is_copied_h_and_c():
    encoder, decoder = stack_of(LSTMCell, 4, num_layers=2), stack_of(LSTMCell, 4, num_layers=2)
    state = final_state(encoder, [3, 2])
    bridge = StateBridge(encoder, decoder, "copy")
    assert not list(bridge.parameters())
    for made, given in zip(bridge(state, decoder), state, strict=True):
        assert isinstance(made, LSTMState)
        assert torch.equal(made.h_BH, given[0])
        assert torch.equal(made.c_BH, given[1])


def test_bahdanaus_first_state_reads_the_backward_reader_alone():
    encoder, decoder = stack_of(GRUCell, 4, num_directions=2), stack_of(GRUCell, 6)
    bridge = StateBridge(encoder, decoder, "tanh", source="backward").double()
    bridge.initialise(torch.Generator().manual_seed(1))
    state = final_state(encoder, [3, 2])
    ((made_BH,),) = bridge(state, decoder)
    torch.testing.assert_close(made_BH, torch.tanh(state[1][0] @ bridge.weight[0].T))


def test_padding_does_not_reach_the_decoder():
    encoder, decoder = stack_of(LSTMCell, 4, num_directions=2), stack_of(LSTMCell, 5)
    bridge = StateBridge(encoder, decoder).double()
    bridge.initialise(torch.Generator().manual_seed(1))
    short = bridge(final_state(encoder, [2, 4]), decoder)
    long = bridge(final_state(encoder, [2, 4], extra=9), decoder)
    for one, other in zip(short, long, strict=True):
        for part, twin in zip(one, other, strict=True):
            torch.testing.assert_close(part, twin, atol=1e-12, rtol=0)


def test_parts_of_different_widths_are_joined():
    """An LSTM with a projection hands on an h narrower than its c."""
    cell = LSTMCell(3, 6, options=LSTMOptions(projection_size=2))
    encoder = RecurrentStack([cell]).double()
    encoder.initialise(torch.Generator().manual_seed(4))
    decoder = stack_of(LSTMCell, 5)
    bridge = StateBridge(encoder, decoder).double()
    assert [tuple(weight.shape) for weight in bridge.weight] == [(5, 2), (5, 6)]
    state = bridge(final_state(encoder, [3, 1]), decoder)
    assert [tuple(part.shape) for part in state[0]] == [(2, 5), (2, 5)]


def test_a_bridge_holds_no_stack():
    encoder, decoder = stack_of(GRUCell, 4), stack_of(GRUCell, 5)
    assert set(StateBridge(encoder, decoder).state_dict()) == {"weight.0", "bias.0"}


def test_rows_of_a_state_may_repeat():
    stack = stack_of(LSTMCell, 4, num_layers=2)
    state = final_state(stack, [3, 2, 1])
    rows = select_rows(state, torch.tensor([2, 2, 0]))
    for made, given in zip(rows, state, strict=True):
        assert type(made) is type(given)
        for part, whole in zip(made, given, strict=True):
            assert torch.equal(part, whole[[2, 2, 0]])


def test_what_cannot_be_joined_is_refused():
    one, two = stack_of(GRUCell, 4), stack_of(GRUCell, 4, num_directions=2)
    with pytest.raises(SettingError, match="8 for 4"):
        StateBridge(two, one, "copy")
    with pytest.raises(SettingError, match="one direction"):
        StateBridge(one, two)
    with pytest.raises(SettingError, match="bidirectional encoder"):
        StateBridge(one, one, source="backward")
    with pytest.raises(SettingError, match="kind"):
        StateBridge(one, one, "linear")
    with pytest.raises(ShapeError, match="2 parts"):
        StateBridge(one, one)(two.zero_state(1), one)
