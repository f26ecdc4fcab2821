"""Smoothed targets: torch's own definition, values and gradients, and the plain loss beside it."""

import pytest
import torch
from loss_promises import LENGTHS, VALID_BT, example
from subjects import EXACT_32, EXACT_64, PARITY_64, assert_close
from torch.nn.functional import cross_entropy

from elman import losses
from elman.errors import SettingError
from elman.layers.readout import Readout
from elman.losses import token_loss, training_loss

SHARES = [0.1, 0.5, 0.99]


@pytest.mark.parametrize("smoothing", SHARES)
@pytest.mark.parametrize("most", [1, 40, losses.LOGITS_AT_ONCE])
@pytest.mark.parametrize("kernels", ["", "reference"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, PARITY_64), (torch.float32, EXACT_32)]
)
def test_values_and_gradients_are_those_of_torch(
    smoothing, most, kernels, dtype, tolerance, monkeypatch
) -> None:
    monkeypatch.setattr(losses, "LOGITS_AT_ONCE", most)
    monkeypatch.setenv("ELMAN_KERNELS", kernels)
    states_BTH, readout, targets_BT = example(dtype)
    inputs = [states_BTH.requires_grad_(), readout.weight, readout.bias]
    want = cross_entropy(
        readout.logits(states_BTH)[VALID_BT],
        targets_BT[VALID_BT],
        reduction="sum",
        label_smoothing=smoothing,
    )
    got = training_loss(states_BTH, readout, targets_BT, LENGTHS, label_smoothing=smoothing)
    assert got.minimised.nats.dtype == torch.float64
    assert_close(got.minimised.nats.to(dtype), want, tolerance, "minimised")
    pairs = zip(
        torch.autograd.grad(got.minimised.nats * 0.3, inputs),
        torch.autograd.grad(want * 0.3, inputs),
        strict=True,
    )
    for place, (left, right) in enumerate(pairs):
        assert_close(left, right, tolerance, f"gradient {place}")
    with torch.no_grad():
        again = training_loss(states_BTH, readout, targets_BT, LENGTHS, label_smoothing=smoothing)
    assert torch.equal(again.minimised.nats, got.minimised.nats)


@pytest.mark.parametrize("smoothing", SHARES)
def test_the_plain_loss_comes_from_the_same_sweep_to_the_bit(smoothing) -> None:
    states_BTH, readout, targets_BT = example()
    plain = token_loss(states_BTH, readout, targets_BT, LENGTHS)
    got = training_loss(
        states_BTH.requires_grad_(), readout, targets_BT, LENGTHS, label_smoothing=smoothing
    )
    assert torch.equal(got.plain.nats, plain.nats)
    assert got.plain.count == got.minimised.count == plain.count
    assert not got.plain.nats.requires_grad
    assert abs(got.minimised.nats.item() - plain.nats.item()) > 1e-3


def test_without_smoothing_both_losses_are_the_same() -> None:
    states_BTH, readout, targets_BT = example()
    got = training_loss(states_BTH.requires_grad_(), readout, targets_BT, LENGTHS)
    assert got.plain is got.minimised
    assert got.plain.nats.requires_grad


@pytest.mark.parametrize("smoothing", SHARES)
def test_gradients_are_exact(smoothing) -> None:
    states_BTH, readout, targets_BT = example()

    def minimised(states_BTH, weight, bias):
        other = Readout(5, 11).double()
        other._parameters.update(weight=weight, bias=bias)
        loss = training_loss(states_BTH, other, targets_BT, LENGTHS, label_smoothing=smoothing)
        return loss.minimised.nats

    inputs = [x.detach().requires_grad_() for x in (states_BTH, readout.weight, readout.bias)]
    assert torch.autograd.gradcheck(minimised, inputs)


def test_a_uniform_model_costs_the_same_smoothed_or_not() -> None:
    readout = Readout(3, 4)  # all parameters are zero
    targets_BT = torch.tensor([[0, 1, 3]])
    got = training_loss(torch.ones(1, 3, 3), readout, targets_BT, label_smoothing=0.3)
    assert_close(got.minimised.nats, got.plain.nats, EXACT_64, "ln 4 whatever the target")


def test_a_batch_of_padding_alone_is_nothing() -> None:
    states_BTH, readout, targets_BT = example()
    lengths_B = torch.zeros(4, dtype=torch.int64)
    got = training_loss(states_BTH, readout, targets_BT, lengths_B, label_smoothing=0.1)
    assert (got.minimised.nats.item(), got.plain.nats.item(), got.plain.count) == (0.0, 0.0, 0)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_shares_outside_of_zero_to_one_are_refused(smoothing) -> None:
    states_BTH, readout, targets_BT = example()
    with pytest.raises(SettingError, match="label_smoothing must be at least 0 and below 1"):
        training_loss(states_BTH, readout, targets_BT, label_smoothing=smoothing)
