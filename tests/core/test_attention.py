"""Attention against float64 NumPy and torch, its masks, its coverage, and the seeds' example."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from elman.errors import DataError, SettingError, ShapeError
from elman.layers.attention import (
    AdditiveAttention,
    DotAttention,
    MultiHeadAttention,
    ProjectedAttention,
    build_attention,
    repeated_attention,
)
from elman.layers.masks import valid_positions

KINDS = ("dot", "scaled_dot", "projected", "additive", "multi_head", "covered")
WIDTH = 4


def make(kind, *, key_size=WIDTH, seed=3, dtype=torch.float64):
    """Attention of `kind` whose every parameter, biases too, is random and not zero."""
    if kind == "covered":
        attention = build_attention("additive", WIDTH, key_size, coverage="vector")
    else:
        heads = 2 if kind == "multi_head" else 1
        attention = build_attention(kind, WIDTH, key_size, attention_size=6, num_heads=heads)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_(0.0, 0.7, generator=generator)
    return attention.to(dtype)


def source(lengths, *, key_size=WIDTH, num_queries=3, seed=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    num_positions = max(lengths)
    keys_BSK = torch.randn(len(lengths), num_positions, key_size, generator=generator, dtype=dtype)
    query_BTH = torch.randn(len(lengths), num_queries, WIDTH, generator=generator, dtype=dtype)
    return keys_BSK, query_BTH, valid_positions(torch.tensor(lengths), num_positions)


def softmax(scores_S):
    e_S = np.exp(scores_S - scores_S.max())
    return e_S / e_S.sum()


def numpy_scores(attention, kind, q_H, keys_SK, covered_S):
    """The equation of each kind, spelled out for one query and the valid keys of one row."""
    p = {name: parameter.numpy(force=True) for name, parameter in attention.named_parameters()}
    if kind == "dot":
        return np.array([q_H @ k_K for k_K in keys_SK])
    if kind == "scaled_dot":
        return np.array([q_H @ k_K / math.sqrt(len(k_K)) for k_K in keys_SK])
    if kind == "projected":
        return np.array([(p["weight"] @ q_H) @ k_K for k_K in keys_SK])
    inner = [p["weight_query"] @ q_H + p["weight_key"] @ k_K + p["bias"] for k_K in keys_SK]
    if kind == "covered":
        inner = [x_A + c * p["weight_coverage"] for x_A, c in zip(inner, covered_S, strict=True)]
    return np.array([p["v"] @ np.tanh(x_A) for x_A in inner])


@pytest.mark.parametrize("kind", ["dot", "scaled_dot", "projected", "additive", "covered"])
def test_weights_and_contexts_are_those_of_the_equation(kind):
    lengths = [5, 1, 3]
    attention = make(kind)
    keys_BSK, query_BTH, valid_BS = source(lengths)
    attended = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS))
    for row, length in enumerate(lengths):
        keys_SK = keys_BSK[row, :length].numpy()
        covered_S = np.zeros(length)
        for step in range(query_BTH.shape[1]):
            scores_S = numpy_scores(
                attention, kind, query_BTH[row, step].numpy(), keys_SK, covered_S
            )
            weights_S = softmax(scores_S)
            got_S = attended.weights_BTS[row, step].numpy(force=True)
            np.testing.assert_allclose(got_S[:length], weights_S, atol=1e-12)
            assert (got_S[length:] == 0.0).all()
            np.testing.assert_allclose(
                attended.context_BTC[row, step].numpy(force=True), weights_S @ keys_SK, atol=1e-12
            )
            covered_S = covered_S + weights_S
        if kind == "covered":
            got_S = attended.coverage_BS[row].numpy(force=True)
            np.testing.assert_allclose(got_S[:length], covered_S, atol=1e-12)
            assert (got_S[length:] == 0.0).all()
    assert (attended.coverage_BS is None) == (kind != "covered")


def test_multi_head_attention_is_torchs():
    lengths, key_size = [5, 2, 3], 3
    attention = make("multi_head", key_size=key_size)
    twin = nn.MultiheadAttention(6, 2, kdim=key_size, vdim=key_size, batch_first=True).double()
    # torch wants queries and outputs of the heads' width: its own projections of both are set to
    # the identity, and ours are applied outside.
    keys_BSK, query_BTH, valid_BS = source(lengths, key_size=key_size)
    with torch.no_grad():
        twin.q_proj_weight.copy_(torch.eye(6))
        twin.k_proj_weight.copy_(attention.weight_key)
        twin.v_proj_weight.copy_(attention.weight_value)
        twin.in_proj_bias.copy_(
            torch.cat((attention.bias_query, attention.bias_key, attention.bias_value))
        )
        twin.out_proj.weight.copy_(torch.eye(6))
        twin.out_proj.bias.zero_()
        projected_BTA = query_BTH @ attention.weight_query.T
        heads_BTA, weights_BTS = twin(projected_BTA, keys_BSK, keys_BSK, key_padding_mask=~valid_BS)
        context_BTC = heads_BTA @ attention.weight_output.T + attention.bias_output
        attended = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS))
    torch.testing.assert_close(attended.context_BTC, context_BTC, atol=1e-12, rtol=0)
    torch.testing.assert_close(attended.weights_BTS, weights_BTS, atol=1e-12, rtol=0)


def test_the_two_dimensional_example_of_the_seeds():
    """Queries (2,0) and (0,2) on keys (1,0), (0,1), (1,1): same memory, other answers."""
    keys_BSK = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]], dtype=torch.float64)
    attention = DotAttention(2, 2)
    memory = attention.prepare(keys_BSK, torch.ones(1, 3, dtype=torch.bool))
    before = memory.keys_BSA.clone()
    queries_BTH = torch.tensor([[[2.0, 0.0], [0.0, 2.0]]], dtype=torch.float64)
    context_BTC, weights_BTS, _ = attention.attend(queries_BTH, memory)
    rounded = [[round(x, 4) for x in row] for row in weights_BTS[0].tolist()]
    assert rounded == [[0.4683, 0.0634, 0.4683], [0.0634, 0.4683, 0.4683]]
    assert [[round(x, 4) for x in row] for row in context_BTC[0].tolist()] == [
        [0.9366, 0.5317],
        [0.5317, 0.9366],
    ]
    assert torch.equal(memory.keys_BSA, before)


def test_the_axes_are_those_of_the_lecture_turned_to_targets_first():
    """There: scores B×S×U, a softmax over dim 1; here B×T×S, the last: the same weights."""
    lengths = [4, 4]
    keys_BSK, query_BTH, valid_BS = source(lengths, num_queries=3)
    lecture_BSU = torch.softmax(torch.bmm(keys_BSK, query_BTH.transpose(1, 2)), dim=1)
    contexts_BUD = torch.bmm(lecture_BSU.transpose(1, 2), keys_BSK)
    attention = DotAttention(WIDTH, WIDTH)
    attended = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS))
    assert lecture_BSU.shape == (2, 4, 3)
    assert attended.weights_BTS.shape == (2, 3, 4)
    torch.testing.assert_close(attended.weights_BTS, lecture_BSU.transpose(1, 2))
    torch.testing.assert_close(attended.context_BTC, contexts_BUD)
    joined_BT2D = torch.cat((query_BTH, attended.context_BTC), dim=2)
    assert joined_BT2D.shape == (2, 3, 2 * WIDTH)


def test_a_bias_of_the_query_is_added_before_the_product():
    keys_BSK, query_BTH, valid_BS = source([3, 2], key_size=5)
    attention = ProjectedAttention(WIDTH, 5, bias="query").double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_(generator=generator)
    projected_BTK = query_BTH @ attention.weight.T + attention.bias
    expected = (projected_BTK @ keys_BSK.transpose(1, 2)).masked_fill(
        ~valid_BS.unsqueeze(1), -math.inf
    )
    attended = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS))
    torch.testing.assert_close(attended.weights_BTS, expected.softmax(dim=2), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_has_weight_exactly_zero_and_no_influence_whatever_stands_there(kind, dtype):
    attention = make(kind, dtype=dtype)
    keys_BSK, query_BTH, valid_BS = source([2, 6, 1, 4], dtype=dtype)
    keys_BSK = keys_BSK.masked_fill(~valid_BS.unsqueeze(2), math.nan).requires_grad_()
    query_BTH.requires_grad_()
    attended = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS))
    assert (attended.weights_BTS[~valid_BS.unsqueeze(1).expand_as(attended.weights_BTS)] == 0).all()
    torch.testing.assert_close(
        attended.weights_BTS.sum(dim=2), torch.ones(4, 3, dtype=dtype), atol=1e-6, rtol=0
    )
    assert attended.context_BTC.dtype == attended.weights_BTS.dtype == dtype
    attended.context_BTC.square().sum().backward()
    gradients = [keys_BSK.grad, query_BTH.grad, *(p.grad for p in attention.parameters())]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert (keys_BSK.grad[~valid_BS] == 0).all()
    for row, length in enumerate([2, 6, 1, 4]):
        alone_1SK = keys_BSK[row : row + 1, :length]
        memory = attention.prepare(alone_1SK, torch.ones(1, length, dtype=torch.bool))
        alone = attention.attend(query_BTH[row : row + 1], memory)
        torch.testing.assert_close(
            alone.context_BTC[0], attended.context_BTC[row], atol=1e-6, rtol=1e-6
        )
        torch.testing.assert_close(
            alone.weights_BTS[0], attended.weights_BTS[row, :, :length], atol=1e-6, rtol=1e-6
        )


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_at_a_time_is_all_steps_at_once(kind):
    attention = make(kind)
    keys_BSK, query_BTH, valid_BS = source([5, 2, 3], num_queries=4)
    memory = attention.prepare(keys_BSK, valid_BS)
    whole = attention.attend(query_BTH, memory)
    coverage_BS = None
    for step in range(4):
        context_BC, weights_BS, coverage_BS = attention.attend(
            query_BTH[:, step], memory, coverage_BS
        )
        torch.testing.assert_close(context_BC, whole.context_BTC[:, step], atol=1e-12, rtol=0)
        torch.testing.assert_close(weights_BS, whole.weights_BTS[:, step], atol=1e-12, rtol=0)
    if kind == "covered":
        torch.testing.assert_close(coverage_BS, whole.coverage_BS, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_memory_are_the_memory_of_the_rows(kind):
    attention = make(kind)
    keys_BSK, query_BTH, valid_BS = source([5, 2, 3])
    rows_N = torch.tensor([2, 2, 0])
    picked = attention.attend(query_BTH[rows_N], attention.prepare(keys_BSK, valid_BS).rows(rows_N))
    direct = attention.attend(
        query_BTH[rows_N], attention.prepare(keys_BSK[rows_N], valid_BS[rows_N])
    )
    torch.testing.assert_close(picked.context_BTC, direct.context_BTC, atol=1e-12, rtol=0)
    torch.testing.assert_close(picked.weights_BTS, direct.weights_BTS, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences_under_a_mask(kind):
    attention = make(kind)
    keys_BSK, query_BTH, valid_BS = source([3, 1], num_queries=2)
    names = [name for name, _ in attention.named_parameters()]

    def run(query_BTH, keys_BSK, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        module = torch.nn.utils.stateless._reparametrize_module
        with module(attention, weights):
            context, alphas, _ = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS))
            return context, alphas

    inputs = [query_BTH, keys_BSK, *(p.data.clone() for p in attention.parameters())]
    assert torch.autograd.gradcheck(run, [tensor.requires_grad_() for tensor in inputs])


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_of_nothing_but_padding_is_refused_by_row(kind):
    attention = make(kind)
    keys_BSK, _, _ = source([3, 3, 3])
    valid_BS = valid_positions(torch.tensor([3, 0, 2]), 3)
    with pytest.raises(DataError, match="row 1"):
        attention.prepare(keys_BSK, valid_BS)
    with pytest.raises(DataError, match="row 0, 1, 2"):
        attention.prepare(keys_BSK[:, :0], valid_BS[:, :0])


def test_what_does_not_fit_is_refused():
    attention = make("dot")
    keys_BSK, query_BTH, valid_BS = source([3, 2])
    memory = attention.prepare(keys_BSK, valid_BS)
    with pytest.raises(ShapeError, match="valid_BS"):
        attention.prepare(keys_BSK, valid_BS[:, :2])
    with pytest.raises(ShapeError, match="query_BTH"):
        attention.attend(query_BTH[:1], memory)
    with pytest.raises(SettingError, match="no coverage"):
        attention.attend(query_BTH, memory, torch.zeros(2, 3))
    with pytest.raises(SettingError, match="3 and 4"):
        build_attention("dot", 3, 4)
    with pytest.raises(SettingError, match="additive"):
        build_attention("dot", 4, 4, coverage="vector")
    with pytest.raises(SettingError, match="heads"):
        MultiHeadAttention(4, 4, 6, 4)
    with pytest.raises(SettingError, match="unknown"):
        build_attention("luong", 4, 4)
    with pytest.raises(ShapeError, match="0 to 3"):
        valid_positions(torch.tensor([4]), 3)


def test_nothing_is_kept_between_two_calls():
    attention = make("covered")
    keys_BSK, query_BTH, valid_BS = source([3, 2])
    memory = attention.prepare(keys_BSK, valid_BS)
    first = attention.attend(query_BTH, memory)
    attention.attend(query_BTH * 2, memory, first.coverage_BS)
    again = attention.attend(query_BTH, memory)
    assert torch.equal(first.weights_BTS, again.weights_BTS)
    assert torch.equal(first.coverage_BS, again.coverage_BS)
    assert not dict(attention.named_buffers())


def test_coverage_moves_attention_to_what_was_not_read():
    """A negative w_c lowers the score of a position by what it was given before."""
    attention = AdditiveAttention(1, 1, 1, coverage="vector").double()
    with torch.no_grad():
        attention.v.fill_(1.0)
        attention.weight_coverage.fill_(-2.0)
    memory = attention.prepare(torch.zeros(1, 2, 1).double(), torch.ones(1, 2, dtype=torch.bool))
    read_BS = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    _, weights_BS, after_BS = attention.attend(torch.zeros(1, 1).double(), memory, read_BS)
    expected = softmax(np.array([math.tanh(-2.0), 0.0]))
    np.testing.assert_allclose(weights_BS[0].numpy(force=True), expected, atol=1e-12)
    np.testing.assert_allclose(
        after_BS[0].numpy(force=True), expected + np.array([1.0, 0.0]), atol=1e-12
    )


def test_repeated_attention_is_the_coverage_loss_over_valid_steps():
    weights_BTS = torch.tensor([[[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]], [[1.0, 0.0]] * 3])
    # Row 0: step 2 repeats min(1, .5); step 3: min(.25, 1.5) + min(.75, .5). Row 1: one step only.
    total = repeated_attention(weights_BTS, torch.tensor([3, 1]))
    assert total.dtype == torch.float64
    assert total.item() == pytest.approx(0.5 + 0.25 + 0.5)


def test_initialising_draws_from_the_generator_alone_within_the_bounds():
    first, second = (build_attention("multi_head", 4, 9, attention_size=16) for _ in range(2))
    before = torch.get_rng_state()
    for attention in (first, second):
        attention.initialise(torch.Generator().manual_seed(2))
    assert torch.equal(torch.get_rng_state(), before)
    for (name, one), other in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
        if name.startswith("bias"):
            assert (one == 0).all()
        else:
            assert 0 < one.abs().max() <= 1 / math.sqrt(one.shape[1])


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    kind=st.sampled_from(KINDS),
    extra=st.integers(0, 3),
    seed=st.integers(0, 1000),
)
def test_more_padding_changes_nothing(lengths, kind, extra, seed):
    attention = make(kind, seed=seed)
    keys_BSK, query_BTH, valid_BS = source(lengths, seed=seed)
    wide_BSK = torch.nn.functional.pad(keys_BSK, (0, 0, 0, extra), value=7.0)
    wide_BS = torch.nn.functional.pad(valid_BS, (0, extra), value=False)
    narrow = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS))
    wide = attention.attend(query_BTH, attention.prepare(wide_BSK, wide_BS))
    torch.testing.assert_close(narrow.context_BTC, wide.context_BTC, atol=1e-12, rtol=0)
    width = keys_BSK.shape[1]
    torch.testing.assert_close(
        narrow.weights_BTS, wide.weights_BTS[:, :, :width], atol=1e-12, rtol=0
    )
    assert (wide.weights_BTS[:, :, width:] == 0.0).all()
