"""Pooling: values of a plain loop over valid steps, whatever the padding, for every kind."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elman.cells.lstm import LSTMCell
from elman.errors import SettingError, ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.pooling import Pooling, final_states
from elman.layers.stack import RecurrentStack

KINDS = ("final", "mean", "max", "attention")


def make(kind, size, *, num_directions=1, dtype=torch.float64, seed=4):
    pooling = Pooling(kind, size, num_directions=num_directions)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in pooling.parameters():
            parameter.normal_(generator=generator)
    return pooling.to(dtype)


def expected_row(pooling, kind, states_TH, num_directions):
    """The definition, in NumPy, on the valid steps of one row alone."""
    if len(states_TH) == 0:
        return np.zeros(states_TH.shape[1])
    if kind == "final" and num_directions == 2:
        half = states_TH.shape[1] // 2
        return np.concatenate([states_TH[-1, :half], states_TH[0, half:]])
    if kind == "final":
        return states_TH[-1]
    if kind == "mean":
        return states_TH.sum(axis=0) / len(states_TH)
    if kind == "max":
        return states_TH.max(axis=0)
    p = {name: parameter.numpy(force=True) for name, parameter in pooling.named_parameters()}
    scores = [p["query"] @ np.tanh(p["weight"] @ h_H + p["bias"]) for h_H in states_TH]
    e = np.exp(np.array(scores) - max(scores))
    return (e / e.sum()) @ states_TH


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    kind=st.sampled_from(KINDS),
    num_directions=st.sampled_from([1, 2]),
    extra=st.integers(0, 3),
    fill=st.sampled_from([0.0, 1e9, math.nan, math.inf]),
    seed=st.integers(0, 1000),
)
def test_pooled_is_the_definition_on_valid_steps_whatever_stands_at_padding(
    lengths, kind, num_directions, extra, fill, seed
):
    num_steps, size = max(lengths) + extra, 4
    generator = torch.Generator().manual_seed(seed)
    states_BTH = torch.randn(len(lengths), num_steps, size, generator=generator).double() - 2.0
    for row, length in enumerate(lengths):
        states_BTH[row, length:] = fill
    states_BTH.requires_grad_()
    pooling = make(kind, size, num_directions=num_directions, seed=seed)
    pooled_BH = pooling(states_BTH, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        valid_TH = states_BTH[row, :length].numpy(force=True)
        np.testing.assert_allclose(
            pooled_BH[row].numpy(force=True),
            expected_row(pooling, kind, valid_TH, num_directions),
            atol=1e-12,
        )
    pooled_BH.square().sum().backward()
    assert torch.isfinite(states_BTH.grad).all()
    for row, length in enumerate(lengths):
        assert (states_BTH.grad[row, length:] == 0).all()


def test_padding_never_wins_a_maximum_of_negative_states():
    states_BTH = torch.tensor([[[-3.0], [-5.0], [0.0], [0.0]]])
    assert Pooling("max", 1)(states_BTH, torch.tensor([2])).item() == -3.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_row_in_any_batch_in_float32(kind):
    """Within 1e-6: sums over more padding may be grouped in another way."""
    generator = torch.Generator().manual_seed(8)
    pooling = make(kind, 6, dtype=torch.float32)
    row_1TH = torch.randn(1, 5, 6, generator=generator)
    alone_BH = pooling(row_1TH, torch.tensor([5]))
    for num_steps, neighbours in ((40, 1), (6, 3), (200, 7)):
        batch_BTH = torch.randn(neighbours + 1, num_steps, 6, generator=generator)
        batch_BTH[1, :5] = row_1TH[0]
        lengths_B = torch.full((neighbours + 1,), num_steps)
        lengths_B[1] = 5
        torch.testing.assert_close(
            pooling(batch_BTH, lengths_B)[1], alone_BH[0], atol=1e-6, rtol=1e-6
        )


def test_final_is_the_output_part_of_the_stacks_final_state():
    generator = torch.Generator().manual_seed(6)
    cells = [LSTMCell(size, 3) for size in (2, 2, 6, 6)]
    stack = RecurrentStack(cells, num_directions=2)
    stack.initialise(generator)
    x_BTE = torch.randn(3, 5, 2, generator=generator)
    lengths_B = torch.tensor([5, 1, 3])
    states_BTH, state = stack(x_BTE, None, lengths_B, plan=KernelPlan("reference"))
    ends_BH = torch.cat((state[2][0], state[3][0]), dim=1)
    assert torch.equal(final_states(states_BTH, lengths_B, num_directions=2), ends_BH)


def test_a_bidirectional_reader_of_padding_has_the_values_of_its_valid_steps():
    """All weights 0.5, inputs 1, 0.5: 0.4470910 forward and 0.5528380 backward, padded or not."""
    from elman.cells.elman import ElmanCell

    stack = RecurrentStack([ElmanCell(1, 1, bias="none") for _ in range(2)], num_directions=2)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.fill_(0.5)
    x_BTE = torch.tensor([[[1.0], [0.5], [0.0], [0.0]]], dtype=torch.float64)
    stack = stack.double()
    states_BTH, _ = stack(x_BTE, None, torch.tensor([2]), plan=KernelPlan("reference"))
    pooled_BH = Pooling("final", 2, num_directions=2)(states_BTH, torch.tensor([2]))
    assert [round(value, 7) for value in pooled_BH[0].tolist()] == [0.447091, 0.552838]


def test_weights_of_attention_pooling_sum_to_one_and_are_zero_at_padding():
    generator = torch.Generator().manual_seed(3)
    pooling = make("attention", 4)
    states_BTH = torch.randn(3, 5, 4, generator=generator).double()
    weights_BT = pooling.weights(states_BTH, torch.tensor([5, 2, 0]))
    torch.testing.assert_close(weights_BT.sum(dim=1), torch.tensor([1.0, 1.0, 0.0]).double())
    assert (weights_BT[1, 2:] == 0).all()
    with pytest.raises(SettingError, match="only attention"):
        Pooling("mean", 4).weights(states_BTH, torch.tensor([5, 2, 0]))


def test_attention_pooling_has_the_gradients_of_finite_differences():
    pooling = make("attention", 3)
    generator = torch.Generator().manual_seed(9)
    states_BTH = torch.randn(3, 4, 3, generator=generator).double().requires_grad_()
    lengths_B = torch.tensor([4, 2, 0])
    assert torch.autograd.gradcheck(lambda states: pooling(states, lengths_B), [states_BTH])


def test_what_does_not_fit_is_refused():
    with pytest.raises(SettingError, match="last"):
        Pooling("last", 3)
    with pytest.raises(ShapeError, match="states_BTH"):
        Pooling("mean", 3)(torch.zeros(2, 3, 4), torch.tensor([1, 2]))
    with pytest.raises(ShapeError, match="0 to 3"):
        Pooling("mean", 4)(torch.zeros(2, 3, 4), torch.tensor([1, 4]))


def test_averaging_is_blind_to_order_and_the_final_state_is_not():
    """Rise then fall against fall then rise: the same readings in another order."""
    generator = torch.Generator().manual_seed(2)
    stack = RecurrentStack([LSTMCell(1, 4)])
    stack.initialise(generator)
    x_BTE = torch.tensor([[[0.0], [1.0], [0.5]], [[0.5], [1.0], [0.0]]])
    lengths_B = torch.tensor([3, 3])
    blind_BE = Pooling("mean", 1)(x_BTE, lengths_B)
    assert torch.equal(blind_BE[0], blind_BE[1])
    states_BTH, _ = stack(x_BTE, None, lengths_B, plan=KernelPlan("reference"))
    seen_BH = Pooling("final", 4)(states_BTH, lengths_B)
    assert (seen_BH[0] - seen_BH[1]).abs().max() > 1e-3
