"""The language model: tying, dropout, sizes, seeds, and the value of every logit."""

import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_loss, token_nats
from elman.models.recurrent import RecurrentLanguageModel

KINDS = ("elman", "gru", "lstm")
PATHS = ("auto", "torch", "reference")
SMALL = ModelSettings(embedding_size=6, hidden_size=8, num_layers=2)


def make_model(settings: ModelSettings, vocabulary_size: int = 11, seed: int = 1):
    return RecurrentLanguageModel(settings, vocabulary_size, torch.Generator().manual_seed(seed))


def some_ids(batch_size: int, num_steps: int, seed: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 11, (batch_size, num_steps), generator=generator)


def test_logits_are_those_of_torch_modules_with_the_same_weights() -> None:
    model = make_model(replace(SMALL, kind="lstm")).double()
    ids_BT = some_ids(3, 5)
    lstm = nn.LSTM(6, 8, 2, batch_first=True).double()
    with torch.no_grad():
        for ours, theirs in zip(model.stack.parameters(), lstm.parameters(), strict=True):
            theirs.copy_(ours)
    states_BTH, _ = lstm(nn.functional.embedding(ids_BT, model.embedding.weight))
    want_BTV = states_BTH @ model.readout.weight.t() + model.readout.bias
    for path in PATHS:
        output = model(ids_BT, plan=KernelPlan(path))
        got_BTV = output.readout.logits(output.states_BTH)
        torch.testing.assert_close(got_BTV, want_BTV, rtol=0, atol=1e-10)
        assert torch.equal(output.readout(output.states_BTH), got_BTV)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", PATHS)
def test_loss_of_lines_is_the_same_in_any_batch_and_order(kind: str, path: str) -> None:
    model, plan = make_model(replace(SMALL, kind=kind)), KernelPlan(path)
    ids_BT, lengths_B = some_ids(6, 9), torch.tensor([4, 9, 1, 4, 6, 0])
    inputs_BT, targets_BT = ids_BT[:, :-1], ids_BT[:, 1:]
    lengths_B = lengths_B.clamp(max=8)

    def nats(rows):
        output = model(inputs_BT[rows], None, lengths_B[rows], plan=plan)
        return token_nats(output.states_BTH, output.readout, targets_BT[rows], lengths_B[rows])

    whole_BT = nats(torch.arange(6))
    order = torch.tensor([4, 2, 5, 0, 3, 1])
    torch.testing.assert_close(nats(order), whole_BT[order], rtol=1e-6, atol=1e-6)
    for row in range(6):
        one = torch.tensor([row])
        torch.testing.assert_close(nats(one), whole_BT[one], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("kind", ["ordinary", "locked"])
def test_dropout_acts_when_asked_even_on_one_layer_and_without_any_warning(
    num_layers, kind
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make_model(replace(SMALL, num_layers=num_layers, dropout=0.5, dropout_kind=kind))
        ids_BT, plan = some_ids(2, 5), KernelPlan()
        generator = torch.Generator().manual_seed(3)
        first = model(ids_BT, plan=plan, generator=generator).states_BTH
        second = model(ids_BT, plan=plan, generator=generator).states_BTH
        same = model(ids_BT, plan=plan, generator=torch.Generator().manual_seed(3)).states_BTH
        calm = model.train()(ids_BT, plan=plan).states_BTH
        calm_again = model.eval()(ids_BT, plan=plan).states_BTH
    assert not torch.equal(first, second)
    assert torch.equal(first, same)
    assert torch.equal(calm, calm_again)
    assert not torch.equal(first, calm)
    places = ["0.5 on layer 1", "0.5 on layer 2"][:num_layers]
    assert model.describe()["dropout"] == f"{kind}: {', '.join(places)}"


def test_each_place_of_dropout_really_drops() -> None:
    settings = replace(SMALL, num_layers=1, dropout=0.5, embedding_dropout=0.25)
    model = make_model(settings)
    assert model.describe()["dropout"] == "ordinary: 0.25 on embedding, 0.5 on layer 1"
    generator = torch.Generator().manual_seed(4)
    states_BTH = model(some_ids(4, 6), plan=KernelPlan(), generator=generator).states_BTH
    zeros = (states_BTH == 0).float().mean().item()
    assert 0.3 < zeros < 0.7  # the last layer's output, 192 draws at one half
    plain = make_model(replace(SMALL, num_layers=1))(some_ids(4, 6), plan=KernelPlan()).states_BTH
    kept = states_BTH != 0
    assert not torch.allclose(states_BTH[kept], 2 * plain[kept])  # the embedding was dropped too


def test_tying_with_equal_sizes_shares_one_tensor_and_saves_exactly_its_numbers() -> None:
    settings = ModelSettings(embedding_size=32, hidden_size=32)
    free, tied = make_model(settings), make_model(replace(settings, tie_weights=True))
    assert tied.readout.weight is tied.embedding.weight
    assert tied.readout.projection is None
    assert free.parameter_count() - tied.parameter_count() == 11 * 32
    assert tied.describe()["tied weights"] == "readout uses the embedding"
    assert free.describe()["tied weights"] == "none"
    ids_BT, plan = some_ids(2, 4), KernelPlan()
    output = tied(ids_BT, plan=plan)
    token_loss(output.states_BTH, output.readout, some_ids(2, 4, seed=5)).nats.backward()
    used_twice = tied.embedding.weight.grad
    assert used_twice is tied.readout.weight.grad
    assert used_twice.ne(0).all()  # every row is a target's rival, whether or not it was an input


def test_tying_with_different_sizes_projects_and_not_tying_takes_the_hidden_size() -> None:
    settings = ModelSettings(embedding_size=32, hidden_size=48)
    free, tied = make_model(settings), make_model(replace(settings, tie_weights=True))
    assert free.readout.weight.shape == (11, 48)
    assert tied.readout.weight is tied.embedding.weight
    assert tied.readout.projection.shape == (32, 48)
    assert tied.describe()["tied weights"] == "readout uses the embedding through a projection"
    for model in (free, tied):
        output = model(some_ids(2, 4), plan=KernelPlan())
        token_loss(output.states_BTH, output.readout, some_ids(2, 4)).nats.backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tie_weights", [False, True])
def test_parameters_come_from_the_generator_alone(kind: str, tie_weights: bool) -> None:
    settings = replace(SMALL, kind=kind, tie_weights=tie_weights)
    torch.manual_seed(1)
    one = make_model(settings, seed=7)
    torch.manual_seed(2)
    two, other = make_model(settings, seed=7), make_model(settings, seed=8)
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, two.get_parameter(name)), name
        if name != "readout.bias":
            assert not torch.equal(parameter, other.get_parameter(name)), name


@pytest.mark.parametrize("tie_weights", [False, True])
@pytest.mark.parametrize("embedding_size", [64, 128])
@pytest.mark.parametrize("kind", KINDS)
def test_new_model_starts_near_the_uniform_distribution(kind, embedding_size, tie_weights) -> None:
    settings = ModelSettings(
        kind=kind, embedding_size=embedding_size, hidden_size=128, tie_weights=tie_weights
    )
    model = make_model(settings, vocabulary_size=200)
    ids_BT = torch.randint(0, 200, (8, 21), generator=torch.Generator().manual_seed(9))
    output = model(ids_BT[:, :-1], plan=KernelPlan())
    loss = token_loss(output.states_BTH, output.readout, ids_BT[:, 1:])
    assert abs(loss.mean().item() - math.log(200)) < 0.2


def test_none_state_is_the_zero_state_and_chunks_are_the_whole() -> None:
    model, plan = make_model(SMALL).double(), KernelPlan()
    ids_BT = some_ids(3, 8)
    whole = model(ids_BT, plan=plan)
    zero = model(ids_BT, model.zero_state(3), plan=plan)
    assert torch.equal(whole.states_BTH, zero.states_BTH)
    state, pieces = None, []
    for step in range(8):
        output = model(ids_BT[:, step : step + 1], state, plan=plan)
        state = output.state
        pieces.append(output.states_BTH)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole.states_BTH, rtol=0, atol=1e-12)


def test_gradient_of_a_shared_parameter_is_the_sum_over_its_uses() -> None:
    model, plan = make_model(replace(SMALL, kind="elman", num_layers=1)).double(), KernelPlan()
    ids_BT = some_ids(3, 6)
    lengths_B = torch.tensor([6, 2, 4])

    def gradient(rows):
        output = model(ids_BT[rows], None, lengths_B[rows], plan=plan)
        loss = token_loss(output.states_BTH, output.readout, ids_BT[rows], lengths_B[rows])
        return torch.autograd.grad(loss.nats, model.stack.cell(0).weight_hh)[0]

    whole = gradient(torch.arange(3))
    parts = sum(gradient(torch.tensor([row])) for row in range(3))
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-12)


def test_model_of_zeros_is_uniform_whatever_the_batch_and_window() -> None:
    model = make_model(SMALL, vocabulary_size=8)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    for batch_size, num_steps in ((1, 10), (2, 11), (10, 99)):
        ids_BT = torch.zeros(batch_size, num_steps, dtype=torch.int64)
        output = model(ids_BT, plan=KernelPlan())
        loss = token_loss(output.states_BTH, output.readout, ids_BT)
        assert loss.count == batch_size * num_steps
        assert abs(loss.mean().item() - 2.0794415) < 5.1e-8
