"""The promises a token loss keeps: each a function of the loss that raises when broken."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from independent import nats_of
from subjects import EXACT_32, EXACT_64, PARITY_64, assert_close, normal
from torch import Tensor
from torch.nn.functional import cross_entropy

from elman.layers.readout import Readout
from elman.losses import LossSum

TokenLoss = Callable[[Tensor, Readout, Tensor, Tensor | None], LossSum]

LENGTHS = torch.tensor([4, 0, 7, 1])
VALID_BT = torch.arange(7) < LENGTHS.unsqueeze(1)


def example(dtype=torch.float64, vocabulary_size=11) -> tuple[Tensor, Readout, Tensor]:
    """States, a readout with random bias, and targets in which every id from 0 on occurs."""
    readout = Readout(5, vocabulary_size).to(dtype)
    with torch.no_grad():
        readout.weight.copy_(normal(vocabulary_size, 5, seed=1))
        readout.bias.copy_(normal(vocabulary_size, seed=2))
    targets_BT = (torch.arange(28) * 3 % vocabulary_size).view(4, 7)
    return normal(4, 7, 5, seed=3).to(dtype), readout, targets_BT


def is_the_sum_of_nats_and_their_count(loss: TokenLoss) -> None:
    states_BTH, readout, targets_BT = example()
    weight, bias = readout.weight.detach().numpy(), readout.bias.detach().numpy()
    for lengths_B, valid_BT in ((None, torch.ones_like(VALID_BT)), (LENGTHS, VALID_BT)):
        want_N = nats_of(states_BTH[valid_BT].numpy(), weight, bias, targets_BT[valid_BT].numpy())
        got = loss(states_BTH, readout, targets_BT, lengths_B)
        assert got.count == len(want_N)
        assert got.nats.dtype == torch.float64
        assert_close(got.nats, torch.tensor(want_N.sum()), PARITY_64, "nats")
        assert_close(got.mean(), torch.tensor(want_N.mean()), PARITY_64, "nats per token")


def gradients_are_those_of_cross_entropy(loss: TokenLoss) -> None:
    states_BTH, readout, targets_BT = example()
    states_BTH.requires_grad_()
    inputs = [states_BTH, readout.weight, readout.bias]
    plain = cross_entropy(
        readout.logits(states_BTH)[VALID_BT], targets_BT[VALID_BT], reduction="sum"
    )
    want = torch.autograd.grad(plain * 0.3, inputs)
    got = torch.autograd.grad(loss(states_BTH, readout, targets_BT, LENGTHS).nats * 0.3, inputs)
    for place, (left, right) in enumerate(zip(got, want, strict=True)):
        assert_close(left, right, PARITY_64, f"gradient {place}")


def cutting_the_batch_changes_nothing(loss: TokenLoss) -> None:
    for dtype, tolerance in ((torch.float64, EXACT_64), (torch.float32, EXACT_32)):
        states_BTH, readout, targets_BT = example(dtype)
        whole = loss(states_BTH, readout, targets_BT, LENGTHS)
        by_rows, by_steps = LossSum.zero(), LossSum.zero()
        for row in range(4):
            rows = slice(row, row + 1)
            by_rows += loss(states_BTH[rows], readout, targets_BT[rows], LENGTHS[rows])
        for step in range(7):
            steps, left_B = slice(step, step + 1), (LENGTHS - step).clamp(0, 1)
            by_steps += loss(states_BTH[:, steps], readout, targets_BT[:, steps], left_B)
        for cut in (by_rows, by_steps):
            assert cut.count == whole.count
            assert_close(cut.nats, whole.nats, tolerance, "nats")
            assert_close(cut.mean(), whole.mean(), tolerance, "nats per token")


def padding_is_invisible_to_the_loss(loss: TokenLoss) -> None:
    states_BTH, readout, targets_BT = example()
    pad_BT = ~VALID_BT
    want = loss(states_BTH, readout, targets_BT, LENGTHS)
    dirty_BTH = states_BTH.masked_fill(pad_BT.unsqueeze(2), torch.nan).requires_grad_()
    for pad_id in (0, 10):
        got = loss(dirty_BTH, readout, targets_BT.masked_fill(pad_BT, pad_id), LENGTHS)
        assert torch.equal(got.nats, want.nats)
        assert got.count == want.count
        (grad_BTH,) = torch.autograd.grad(got.nats, [dirty_BTH])
        assert grad_BTH[pad_BT].eq(0).all()


def uniform_model_costs_the_log_of_the_vocabulary(loss: TokenLoss) -> None:
    readout = Readout(3, 4)  # all parameters are zero
    for targets_BT in (torch.tensor([[0, 0, 0], [0, 1, 3]]), torch.tensor([[2, 3, 3], [1, 0, 2]])):
        got = loss(torch.ones(2, 3, 3), readout, targets_BT, torch.tensor([1, 3]))
        assert got.count == 4
        assert abs(got.mean().item() - 1.386294) < 1e-6  # ln 4 to six places
    (bias_grad_V,) = torch.autograd.grad(
        loss(torch.ones(1, 1, 3), readout, torch.tensor([[0]]), None).nats, [readout.bias]
    )
    assert_close(bias_grad_V, torch.tensor([-0.75, 0.25, 0.25, 0.25]), EXACT_32, "id 0 is learnt")


def batch_of_padding_alone_is_nothing(loss: TokenLoss) -> None:
    states_BTH, readout, targets_BT = example()
    states_BTH.requires_grad_()
    got = loss(states_BTH, readout, targets_BT, torch.zeros(4, dtype=torch.int64))
    assert (got.nats.item(), got.count, got.mean().item()) == (0.0, 0, 0.0)
    for gradient in torch.autograd.grad(
        got.mean(), [states_BTH, readout.weight, readout.bias], allow_unused=True
    ):
        assert gradient is None or gradient.eq(0).all()


LOSS_PROMISES: Mapping[str, Callable[[TokenLoss], None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            is_the_sum_of_nats_and_their_count,
            gradients_are_those_of_cross_entropy,
            cutting_the_batch_changes_nothing,
            padding_is_invisible_to_the_loss,
            uniform_model_costs_the_log_of_the_vocabulary,
            batch_of_padding_alone_is_nothing,
        )
    }
)
