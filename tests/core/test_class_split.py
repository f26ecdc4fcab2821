"""A readout split into classes: torch's twin, its distribution, its order of words."""

import pytest
import torch
from torch import nn

from elman.config.model_settings import ModelSettings
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.class_split import ClassSplitReadout
from elman.losses import token_loss, token_nats, training_loss
from elman.models.recurrent import RecurrentLanguageModel

seed = 21
H, V, CUTOFFS = 12, 40, (9, 15, 31)


def twins(dtype: torch.dtype = torch.float64):
    """A readout and torch's with the same random weights; biases of tails are 0, as it has none."""
    generator = torch.Generator().manual_seed(seed)
    ours = ClassSplitReadout(H, V, cutoffs=CUTOFFS, divisor=2.0).to(dtype)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(
        H, V, cutoffs=list(CUTOFFS), div_value=2.0, head_bias=True, dtype=dtype
    )
    pairs = [(ours.weight, theirs.head.weight), (ours.bias, theirs.head.bias)]
    for mine, his in zip(ours.tails, theirs.tail, strict=True):
        pairs += [(mine.projection, his[0].weight), (mine.weight, his[1].weight)]
    with torch.no_grad():
        for left, right in pairs:
            assert left.shape == right.shape
            left.copy_(torch.randn(left.shape, generator=generator, dtype=torch.float64))
            right.copy_(left)
    states_BTH = torch.randn(5, 8, H, generator=generator, dtype=torch.float64).to(dtype)
    targets_BT = torch.randint(0, V, (5, 8), generator=generator)
    return ours, theirs, pairs, states_BTH, targets_BT


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
def test_values_and_gradients_are_those_of_torch(dtype: torch.dtype, atol: float) -> None:
    ours, theirs, pairs, states_BTH, targets_BT = twins(dtype)
    mine_BTH = states_BTH.clone().requires_grad_()
    his_BTH = states_BTH.clone().requires_grad_()
    loss = token_loss(mine_BTH, ours, targets_BT)
    loss.mean().backward()
    answer = theirs(his_BTH.flatten(0, 1), targets_BT.flatten())
    answer.loss.backward()
    close = {"rtol": 1e-5, "atol": atol}  # sums of some dozen terms of order 1
    torch.testing.assert_close(loss.mean().to(dtype), answer.loss, **close)
    nats_BT = token_nats(states_BTH, ours, targets_BT)
    torch.testing.assert_close(-nats_BT.flatten(), answer.output, **close)
    torch.testing.assert_close(mine_BTH.grad, his_BTH.grad, **close)
    for left, right in pairs:
        torch.testing.assert_close(left.grad, right.grad, **close)
    with torch.no_grad():
        log_probs_NV = theirs.log_prob(states_BTH.flatten(0, 1))
        torch.testing.assert_close(ours.logits(states_BTH).flatten(0, 1), log_probs_NV, **close)


@pytest.mark.parametrize("cutoffs", [(1,), (39,), (1, 2, 3), (10, 20, 30, 35), CUTOFFS])
@pytest.mark.parametrize("divisor", [1.0, 2.5, 4.0, 100.0])
def test_probabilities_sum_to_one_whatever_the_split(cutoffs, divisor: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    readout = ClassSplitReadout(H, V, cutoffs=cutoffs, divisor=divisor).double()
    readout.initialise(generator)
    readout.order_by(torch.randint(0, 9, (V,), generator=generator))
    states_NH = 3 * torch.randn(50, H, generator=generator, dtype=torch.float64)
    total_N = readout.logits(states_NH).exp().sum(dim=1)
    torch.testing.assert_close(total_N, torch.ones_like(total_N), rtol=0, atol=1e-12)
    assert [tail.weight.shape[1] for tail in readout.tails] == [
        max(1, int(H / divisor**place)) for place in range(1, len(cutoffs) + 1)
    ]


def test_a_new_readout_is_near_the_uniform_distribution() -> None:
    readout = ClassSplitReadout(200, 33_278, cutoffs=(2_878, 6_167), divisor=4.0)
    uniform = torch.full((1, 33_278), -torch.tensor(33_278.0).log())
    torch.testing.assert_close(readout.logits(torch.ones(1, 200)), uniform, rtol=1e-5, atol=0)
    readout.initialise(torch.Generator().manual_seed(seed))
    states_NH = torch.tanh(torch.randn(64, 200, generator=torch.Generator().manual_seed(seed)))
    targets_N = torch.arange(64) * 519
    loss = token_loss(states_NH.unsqueeze(0), readout, targets_N.unsqueeze(0))
    assert abs(loss.mean().item() - 10.4126) < 0.2  # ln 33,278


def test_ids_get_their_places_by_falling_counts_and_equal_ones_in_their_order() -> None:
    readout = ClassSplitReadout(2, 6, cutoffs=(2,), divisor=1.0)
    readout.order_by(torch.tensor([0, 5, 7, 5, 0, 9]))
    assert readout.place_of_id_V.tolist() == [4, 2, 1, 3, 5, 0]
    assert "place_of_id_V" in readout.state_dict()


def test_another_order_of_ids_is_the_same_model_with_other_names() -> None:
    ours, _, _, states_BTH, targets_BT = twins()
    want = token_nats(states_BTH, ours, targets_BT)
    order_V = torch.randperm(V, generator=torch.Generator().manual_seed(seed))
    named_V = torch.empty_like(order_V)
    named_V[order_V] = torch.arange(V)  # the id that has the place
    ours.place_of_id_V.copy_(order_V)
    assert torch.equal(token_nats(states_BTH, ours, named_V[targets_BT]), want)


@pytest.mark.parametrize("cutoffs", [(), (0,), (40,), (5, 5), (7, 3), (-1,), (3, 41)])
def test_cutoffs_that_do_not_rise_within_the_vocabulary_are_refused(cutoffs) -> None:
    with pytest.raises(SettingError, match="rise strictly within the vocabulary"):
        ClassSplitReadout(H, V, cutoffs=cutoffs, divisor=4.0)


@pytest.mark.parametrize("divisor", [0.5, 0.0, -1.0, float("nan")])
def test_a_divisor_below_one_is_refused(divisor: float) -> None:
    with pytest.raises(SettingError, match="tail_divisor must be at least 1"):
        ClassSplitReadout(H, V, cutoffs=CUTOFFS, divisor=divisor)


def test_an_id_outside_of_the_vocabulary_is_an_error() -> None:
    ours, _, _, states_BTH, targets_BT = twins()
    for odd in (-1, V):
        targets_BT[0, 0] = odd
        with pytest.raises(IndexError):
            token_loss(states_BTH, ours, targets_BT)


def test_smoothed_targets_are_refused() -> None:
    ours, _, _, states_BTH, targets_BT = twins()
    with pytest.raises(SettingError, match="smoothed targets need every word of every row"):
        training_loss(states_BTH, ours, targets_BT, label_smoothing=0.1)


def test_a_model_counts_and_describes_what_it_has() -> None:
    settings = ModelSettings(
        embedding_size=6, hidden_size=8, softmax="adaptive", cutoffs=(10, 20), tail_divisor=2.0
    )
    model = RecurrentLanguageModel(settings, V, torch.Generator().manual_seed(seed))
    head = (10 + 2) * (8 + 1)
    tails = (4 * 8 + 10 * (4 + 1)) + (2 * 8 + 20 * (2 + 1))
    rest = sum(p.numel() for p in (*model.stack.parameters(), model.embedding.weight))
    assert model.parameter_count() == rest + head + tails
    described = model.describe()["output"]
    assert (
        described == "split by frequency: 10 words, then classes of 10 through 4 and 20 through 2"
    )
    ids_BT = torch.arange(V).view(2, -1)
    output = model(ids_BT, plan=KernelPlan())
    assert output.readout.logits(output.states_BTH).shape == (2, V // 2, V)
