"""Stacked and bidirectional layers: torch's values and names, padding invisible in every layer."""

import pytest
import torch
from torch import nn

from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.errors import ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack, StackOptions, flat_state

TWINS = {
    "elman": (ElmanCell, nn.RNN),
    "gru": (GRUCell, nn.GRU),
    "lstm": (LSTMCell, nn.LSTM),
}
PATHS = ("auto", "torch", "reference")


def make_stack(cell_class, input_size, hidden_size, *, num_layers, num_directions, dropout=0.0):
    widths = [input_size] + [hidden_size * num_directions] * (num_layers - 1)
    cells = [cell_class(width, hidden_size) for width in widths for _ in range(num_directions)]
    return RecurrentStack(
        cells, num_directions=num_directions, options=StackOptions(dropout=dropout)
    )


def renamed(state_dict, num_directions):
    """torch's names become Elman's: nothing but the keys is touched."""
    names = {}
    for key, value in state_dict.items():
        name, _, layer = key.removesuffix("_reverse").rpartition("_l")
        place = int(layer) * num_directions + key.endswith("_reverse")
        names[f"cells.{place}.{name}"] = value
    return names


def pair(kind, *, num_layers=2, num_directions=2, input_size=3, hidden_size=4, seed=1):
    """A torch module with random non-zero parameters and the stack that loads them."""
    cell_class, torch_class = TWINS[kind]
    twin = torch_class(
        input_size, hidden_size, num_layers, batch_first=True, bidirectional=num_directions == 2
    ).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    stack = make_stack(
        cell_class, input_size, hidden_size, num_layers=num_layers, num_directions=num_directions
    ).double()
    stack.load_state_dict(renamed(twin.state_dict(), num_directions), strict=True)
    return stack, twin


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize("path", PATHS)
def test_torch_state_dict_loads_by_renaming_and_gives_torch_values(
    kind, num_directions, path
) -> None:
    stack, twin = pair(kind, num_directions=num_directions)
    generator = torch.Generator().manual_seed(2)
    x_BTE = torch.randn(5, 6, 3, generator=generator, dtype=torch.float64)
    lengths_B = torch.tensor([2, 6, 1, 6, 3])
    packed = nn.utils.rnn.pack_padded_sequence(x_BTE, lengths_B, True, enforce_sorted=False)
    want, last = twin(packed)
    want_BTH, _ = nn.utils.rnn.pad_packed_sequence(want, batch_first=True)
    got_BTH, state = stack(x_BTE, None, lengths_B, plan=KernelPlan(path))
    torch.testing.assert_close(got_BTH, want_BTH, rtol=0, atol=1e-10)
    parts = last if isinstance(last, tuple) else (last,)
    for place, cell_state in enumerate(state):
        for got, want_part in zip(cell_state, parts, strict=True):
            torch.testing.assert_close(got, want_part[place], rtol=0, atol=1e-10)


def test_sizes_of_two_bidirectional_layers() -> None:
    stack = make_stack(LSTMCell, 3, 4, num_layers=2, num_directions=2)
    states_BTH, state = stack(torch.zeros(2, 5, 3), None, None, plan=KernelPlan())
    assert states_BTH.shape == (2, 5, 8)
    assert stack.output_size == 8
    assert len(state) == 4
    assert all(part.shape == (2, 4) for cell_state in state for part in cell_state)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_short_row_is_the_same_alone_and_beside_a_long_neighbour(kind, dtype) -> None:
    stack = make_stack(TWINS[kind][0], 3, 8, num_layers=2, num_directions=2)
    generator = torch.Generator().manual_seed(3)
    stack.initialise(generator)
    stack.to(dtype)
    x_BTE = torch.randn(7, 40, 3, generator=generator, dtype=dtype)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    for path in PATHS:
        plan = KernelPlan(path)
        alone_BTH, alone = stack(x_BTE[:1, :2], None, None, plan=plan)
        for batch_size in (2, 7):
            lengths_B = torch.tensor([2] + [40] * (batch_size - 1))
            states_BTH, state = stack(x_BTE[:batch_size], None, lengths_B, plan=plan)
            torch.testing.assert_close(states_BTH[:1, :2], alone_BTH, rtol=0, atol=tolerance)
            for got, want in zip(state, alone, strict=True):
                for got_BH, want_BH in zip(got, want, strict=True):
                    torch.testing.assert_close(got_BH[:1], want_BH, rtol=0, atol=tolerance)


def test_two_chunks_with_carried_state_are_the_whole() -> None:
    stack, _ = pair("lstm", num_directions=1)
    x_BTE = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    plan = KernelPlan()
    whole_BTH, whole = stack(x_BTE, None, None, plan=plan)
    first_BTH, state = stack(x_BTE[:, :3], None, None, plan=plan)
    second_BTH, last = stack(x_BTE[:, 3:], state, None, plan=plan)
    both_BTH = torch.cat([first_BTH, second_BTH], dim=1)
    torch.testing.assert_close(both_BTH, whole_BTH, rtol=0, atol=1e-12)
    for got, want in zip(last, whole, strict=True):
        for got_BH, want_BH in zip(got, want, strict=True):
            torch.testing.assert_close(got_BH, want_BH, rtol=0, atol=1e-12)


def test_dropout_acts_between_layers_only_and_only_with_a_generator() -> None:
    x_BTE = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(5))
    plan = KernelPlan()
    for num_layers, changes in ((1, False), (2, True)):
        stack = make_stack(GRUCell, 3, 4, num_layers=num_layers, num_directions=1, dropout=0.5)
        stack.initialise(torch.Generator().manual_seed(6))
        still_BTH, _ = stack(x_BTE, None, None, plan=plan)
        again_BTH, _ = stack.train()(x_BTE, None, None, plan=plan)
        dropped_BTH, _ = stack.eval()(
            x_BTE, None, None, plan=plan, generator=torch.Generator().manual_seed(7)
        )
        assert torch.equal(still_BTH, again_BTH)
        assert torch.equal(still_BTH, dropped_BTH) is not changes


def test_stacks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"layer 1 must read [a-z ]*; got input_size 4; allowed: 8"
    ):
        RecurrentStack(
            [GRUCell(3, 4), GRUCell(3, 4), GRUCell(4, 4), GRUCell(8, 4)], num_directions=2
        )
    with pytest.raises(ShapeError, match="got 3 cells in 2 directions"):
        RecurrentStack([GRUCell(3, 4), GRUCell(3, 4), GRUCell(8, 4)], num_directions=2)
    with pytest.raises(ShapeError, match="got 0 cells"):
        RecurrentStack([])
    stack = RecurrentStack([GRUCell(3, 4)])
    with pytest.raises(ShapeError, match="got 2 parts; allowed: 1"):
        stack(torch.zeros(1, 2, 3), stack.zero_state(1) * 2, None, plan=KernelPlan())


def test_two_layers_both_ways_have_torchs_shapes_and_flat_state() -> None:
    stack, twin = pair("lstm")
    x_BTE = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    states_BTH, state = stack(x_BTE, None, None, plan=KernelPlan())
    want_BTH, want = twin(x_BTE)
    assert states_BTH.shape == (2, 5, 8)
    for got, part in zip(flat_state(state), want, strict=True):
        assert got.shape == (4, 2, 4)
        torch.testing.assert_close(got, part, rtol=0, atol=1e-10)
    torch.testing.assert_close(states_BTH, want_BTH, rtol=0, atol=1e-10)


def test_every_layer_and_direction_can_be_asked_for_its_states() -> None:
    stack, _ = pair("gru", num_layers=3)
    x_BTE = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    lengths_B = torch.tensor([5, 3])
    layers, state = stack.all_layers(x_BTE, None, lengths_B, plan=KernelPlan())
    assert [tuple(layer.shape) for layer in layers] == [(2, 5, 8)] * 3
    for number, layer_BTH in enumerate(layers):
        forward, backward = state[2 * number], state[2 * number + 1]
        last_BH = layer_BTH[torch.arange(2), lengths_B - 1, :4]
        assert torch.equal(forward.h_BH, last_BH)
        assert torch.equal(backward.h_BH, layer_BTH[:, 0, 4:])
    assert torch.equal(layers[-1], stack(x_BTE, None, lengths_B, plan=KernelPlan())[0])


def test_layers_of_other_widths_have_no_flat_state() -> None:
    stack = RecurrentStack([GRUCell(3, 4), GRUCell(4, 5)])
    with pytest.raises(ShapeError, match="layers of one width; got 4, 5"):
        flat_state(stack.zero_state(2))


def test_residual_adds_only_where_widths_are_equal() -> None:
    generator = torch.Generator().manual_seed(3)
    cells = [ElmanCell(3, 4), ElmanCell(4, 4)]
    for cell in cells:
        cell.initialise(generator)
    x_BTE = torch.randn(2, 5, 3, generator=generator)
    plain = RecurrentStack(cells)
    added = RecurrentStack(cells, options=StackOptions(residual=True))
    lower, upper = plain.all_layers(x_BTE, None, None, plan=KernelPlan())[0]
    got = added.all_layers(x_BTE, None, None, plan=KernelPlan())[0]
    assert torch.equal(got[0], lower)
    assert torch.equal(got[1], upper + lower)
