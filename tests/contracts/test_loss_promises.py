"""Every promise of a loss, for every readout and every way to get one: in few blocks or many."""

import pytest
import torch
from loss_promises import LENGTHS, LOSS_PROMISES, READOUTS, example
from subjects import EXACT_32, EXACT_64, assert_close

from elman import losses
from elman.kernels import native_loss
from elman.kernels.products import ProductPlan
from elman.layers.readout import Readout
from elman.losses import LossSum, token_loss, token_nats


def _from_token_nats(states_BTH, readout, targets_BT, lengths_B) -> LossSum:
    nats_BT = token_nats(states_BTH, readout, targets_BT, lengths_B)
    count = targets_BT.numel() if lengths_B is None else int(lengths_B.sum())
    return LossSum(nats_BT.double().sum(), count)


LOSSES = {"token_loss": token_loss, "token_nats": _from_token_nats}


@pytest.mark.parametrize("promise", LOSS_PROMISES)
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("most", [1, 40, losses.LOGITS_AT_ONCE])
@pytest.mark.parametrize("kernels", ["", "reference"])
def test_loss_keeps_its_promise(loss, readout, promise, most, kernels, monkeypatch) -> None:
    monkeypatch.setattr(losses, "LOGITS_AT_ONCE", most)
    monkeypatch.setattr(native_loss, "NATIVE_LOGITS_AT_ONCE", most)
    monkeypatch.setenv("ELMAN_KERNELS", kernels)
    LOSS_PROMISES[promise](LOSSES[loss], READOUTS[readout])


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, EXACT_64), (torch.float32, EXACT_32)]
)
def test_size_of_blocks_changes_no_value_and_no_gradient(
    readout, dtype, tolerance, monkeypatch
) -> None:
    states_BTH, made, targets_BT = example(dtype, subject=READOUTS[readout])
    inputs = [states_BTH.requires_grad_(), *made.parameters()]

    def both(most):
        monkeypatch.setattr(losses, "LOGITS_AT_ONCE", most)
        monkeypatch.setattr(native_loss, "NATIVE_LOGITS_AT_ONCE", most)
        loss = token_loss(states_BTH, made, targets_BT, LENGTHS)
        return [loss.nats, *torch.autograd.grad(loss.mean(), inputs)]

    want = both(1 << 22)
    for most in (1, 11, 35, 300):
        for got, expected in zip(both(most), want, strict=True):
            assert_close(got, expected, tolerance, f"with {most} logits at once")


@pytest.mark.parametrize("readout", READOUTS)
def test_more_logits_than_allowed_never_exist(readout, monkeypatch) -> None:
    seen = []
    real = ProductPlan.project

    def watched(*arrays):
        logits_NV = real(*arrays)
        seen.append(logits_NV.numel())
        return logits_NV

    monkeypatch.setattr(losses, "LOGITS_AT_ONCE", 40)
    monkeypatch.setattr(ProductPlan, "project", watched)
    states_BTH, made, targets_BT = example(subject=READOUTS[readout])
    token_loss(states_BTH.requires_grad_(), made, targets_BT, None).nats.backward()
    assert 0 < max(seen) <= 40
    softmaxes = made.softmaxes(states_BTH.flatten(0, 1), targets_BT.flatten())
    logits = [len(part.targets_N) * part.weight_VF.shape[0] for part in softmaxes]
    assert sum(seen) == sum(logits)
    assert sum(logits) == 28 * 11 or len(softmaxes) > 1


def test_nats_of_every_token_are_zero_at_padding_and_differentiable() -> None:
    states_BTH, readout, targets_BT = example()
    nats_BT = token_nats(states_BTH.requires_grad_(), readout, targets_BT, LENGTHS)
    assert nats_BT[torch.arange(7) >= LENGTHS.unsqueeze(1)].eq(0).all()
    got = torch.autograd.grad(nats_BT.sum(), [states_BTH, readout.weight, readout.bias])
    loss = token_loss(states_BTH, readout, targets_BT, LENGTHS)
    want = torch.autograd.grad(loss.nats, [states_BTH, readout.weight, readout.bias])
    for left, right in zip(got, want, strict=True):
        assert_close(left, right, EXACT_64, "gradient")


def test_mean_loss_weighs_tokens_not_batches() -> None:
    batches = [LossSum(torch.tensor(n * mean).double(), n) for n, mean in ((4, 1), (4, 1), (1, 4))]
    total = sum(batches, LossSum.zero())
    assert total.count == 9
    assert total.mean().item() == 12 / 9
    assert abs(total.mean().exp().item() - 3.793668) < 1e-6  # exp(12/9) to six places


def test_extreme_logits_keep_exact_nats() -> None:
    readout = Readout(1, 3)
    with torch.no_grad():
        readout.weight.copy_(torch.tensor([[1000.0], [0.0], [-1000.0]]))
    got = token_loss(torch.ones(1, 3, 1), readout, torch.tensor([[0, 1, 2]]), None)
    assert got.nats.item() == 3000.0  # 0 + 1000 + 2000, with no overflow on the way
