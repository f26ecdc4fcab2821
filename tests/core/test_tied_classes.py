"""Classes scored by the embedding: their distribution, their order of words, what they share."""

import pytest
import torch
from torch import Tensor, nn

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.tied_classes import FEW_STRAYS, TiedClassSplitReadout
from elman.losses import token_loss, token_nats
from elman.models.language_models import new_language_model

seed = 22
H, E, V, CUTOFFS = 12, 8, 60, (20, 35)


def random_readout(width: int, *, shuffled: bool) -> TiedClassSplitReadout:
    generator = torch.Generator().manual_seed(seed)
    tied = nn.Parameter(torch.randn(V, width, generator=generator))
    readout = TiedClassSplitReadout(H, tied, cutoffs=CUTOFFS).double()
    with torch.no_grad():
        for parameter in readout.parameters():
            parameter.normal_(generator=generator)
    if shuffled:
        readout.order_by(torch.randperm(V, generator=generator))
    return readout


def states() -> Tensor:
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randn(6, 10, H, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("width", [H, E])
@pytest.mark.parametrize("shuffled", [False, True])
def test_its_loss_and_gradients_are_those_of_its_log_probabilities(
    width: int, shuffled: bool
) -> None:
    readout, states_BTH = random_readout(width, shuffled=shuffled), states().requires_grad_()
    targets_BT = torch.arange(60).view(6, 10) * 7 % V
    total_BT = readout.logits(states_BTH).exp().sum(dim=2)
    torch.testing.assert_close(total_BT, torch.ones_like(total_BT), rtol=0, atol=1e-12)
    want = -readout.logits(states_BTH).gather(2, targets_BT.unsqueeze(2)).sum()
    everything = (states_BTH, *readout.parameters())
    expected = torch.autograd.grad(want, everything)
    loss = token_loss(states_BTH, readout, targets_BT)
    torch.testing.assert_close(loss.nats, want, rtol=1e-12, atol=0)
    for left, right in zip(torch.autograd.grad(loss.nats, everything), expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-11)


def test_an_order_that_is_almost_that_of_the_counts_stays_and_another_one_does_not() -> None:
    readout = random_readout(H, shuffled=False)
    falling_V = torch.arange(V, 0, -1)
    falling_V[0] = 0  # a special token that never occurs
    readout.order_by(falling_V)
    assert torch.equal(readout.place_of_id_V, torch.arange(V))
    readout.order_by(falling_V.flip(0))
    assert 2 * CUTOFFS[0] > FEW_STRAYS
    # The last id has count 0 now; the one before it has 1, and so on up to the first.
    assert readout.place_of_id_V.tolist() == [*range(V - 2, -1, -1), V - 1]


def test_another_order_of_ids_is_the_same_model_with_other_names() -> None:
    readout, states_BTH = random_readout(H, shuffled=False), states()
    targets_BT = torch.arange(60).view(6, 10)
    want_BT = token_nats(states_BTH, readout, targets_BT)
    place_of_id_V = torch.randperm(V, generator=torch.Generator().manual_seed(seed))
    named = TiedClassSplitReadout(
        H, nn.Parameter(readout.weight.detach()[place_of_id_V]), cutoffs=CUTOFFS
    ).double()
    own = {
        **readout.state_dict(),
        "weight": readout.weight.detach()[place_of_id_V],
        "bias": readout.bias.detach()[place_of_id_V],
        "place_of_id_V": place_of_id_V,
    }
    named.load_state_dict(own)
    id_at_place_V = place_of_id_V.argsort()
    torch.testing.assert_close(
        token_nats(states_BTH, named, id_at_place_V[targets_BT]), want_BT, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["lstm", "window", "transformer"])
def test_every_learnt_model_can_have_it_and_starts_near_the_uniform_distribution(kind) -> None:
    settings = ModelSettings(
        kind=kind,
        embedding_size=64,
        hidden_size=64,
        softmax="adaptive",
        cutoffs=(100, 300),
        tie_weights=True,
        context_length=8,
    )
    model = new_language_model(settings, 1000, torch.Generator().manual_seed(seed))
    assert model.readout.weight is model.embedding.weight
    ids_BT = torch.randint(0, 1000, (4, 30), generator=torch.Generator().manual_seed(seed))
    output = model(ids_BT, plan=KernelPlan())
    loss = token_loss(output.states_BTH, output.readout, ids_BT.roll(-1, 1))
    assert abs(loss.mean().item() - 6.9078) < 0.3  # ln 1,000
    # In the float32 of the model the loss is that of the log-probabilities of its output.
    log_probs_BTV = output.readout.logits(output.states_BTH)
    want_BT = -log_probs_BTV.gather(2, ids_BT.roll(-1, 1).unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(
        token_nats(output.states_BTH, output.readout, ids_BT.roll(-1, 1)),
        want_BT,
        rtol=1e-4,
        atol=1e-4,
    )
