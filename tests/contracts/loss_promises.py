"""The promises a token loss keeps with every readout: each raises when broken.

A new readout is one entry of `READOUTS` and gets them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from independent import class_split_log_probs, plain_log_probs, tied_class_log_probs
from subjects import EXACT_32, EXACT_64, PARITY_64, assert_close, normal
from torch import Tensor, nn

from elman.layers.class_split import ClassSplitReadout
from elman.layers.readout import Readout, SoftmaxReadout
from elman.layers.tied_classes import TiedClassSplitReadout
from elman.losses import IGNORED, LossSum

TokenLoss = Callable[[Tensor, SoftmaxReadout, Tensor, Tensor | None], LossSum]

LENGTHS = torch.tensor([4, 0, 7, 1])
VALID_BT = torch.arange(7) < LENGTHS.unsqueeze(1)


@dataclass(frozen=True)
class ReadoutSubject:
    """How a readout of (hidden_size, vocabulary_size) is made, all zeros or nearly so, and its
    log-probabilities [N, V] of states [N, H] in float64 NumPy, which share no code with it."""

    make: Callable[[int, int], SoftmaxReadout]
    log_probs: Callable[[np.ndarray, Mapping[str, np.ndarray]], np.ndarray]


def _tied(hidden_size: int, vocabulary_size: int) -> Readout:
    return Readout(hidden_size, vocabulary_size, tied=nn.Parameter(torch.zeros(vocabulary_size, 3)))


def _split(cutoffs: tuple[int, ...], *, ordered: bool) -> Callable[[int, int], ClassSplitReadout]:
    def make(hidden_size: int, vocabulary_size: int) -> ClassSplitReadout:
        within = [cutoff for cutoff in cutoffs if cutoff < vocabulary_size]
        readout = ClassSplitReadout(hidden_size, vocabulary_size, cutoffs=within, divisor=2.0)
        if not ordered:
            readout.order_by(torch.arange(vocabulary_size) * 7 % vocabulary_size)
        return readout

    return make


def _tied_classes(width: int, *, ordered: bool) -> ReadoutSubject:
    cutoffs = (3, 6)

    def make(hidden_size: int, vocabulary_size: int) -> TiedClassSplitReadout:
        within = [cutoff for cutoff in cutoffs if cutoff < vocabulary_size]
        tied = nn.Parameter(torch.zeros(vocabulary_size, width))
        readout = TiedClassSplitReadout(hidden_size, tied, cutoffs=within)
        if not ordered:
            readout.place_of_id_V.copy_(torch.arange(vocabulary_size) * 7 % vocabulary_size)
        return readout

    return ReadoutSubject(make, partial(tied_class_log_probs, cutoffs))


READOUTS: Mapping[str, ReadoutSubject] = MappingProxyType(
    {
        "full": ReadoutSubject(Readout, plain_log_probs),
        "tied through a projection": ReadoutSubject(_tied, plain_log_probs),
        "split in two": ReadoutSubject(_split((3,), ordered=True), class_split_log_probs),
        "split in four": ReadoutSubject(_split((2, 3, 8), ordered=True), class_split_log_probs),
        "split, ids in another order": ReadoutSubject(
            _split((3, 6), ordered=False), class_split_log_probs
        ),
        "split, tied": _tied_classes(5, ordered=True),
        "split, tied through a projection": _tied_classes(3, ordered=True),
        "split, tied, ids in another order": _tied_classes(5, ordered=False),
    }
)
FULL = READOUTS["full"]


def example(
    dtype=torch.float64, vocabulary_size=11, subject: ReadoutSubject = FULL
) -> tuple[Tensor, SoftmaxReadout, Tensor]:
    """States, a readout with random weights and biases, and targets in which every id occurs."""
    readout = subject.make(5, vocabulary_size).to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(readout.parameters(), start=1):
            parameter.copy_(normal(*parameter.shape, seed=seed))
    targets_BT = (torch.arange(28) * 3 % vocabulary_size).view(4, 7)
    return normal(4, 7, 5, seed=40).to(dtype), readout, targets_BT


def log_probs_of(subject: ReadoutSubject, readout: SoftmaxReadout, states_NH: Tensor) -> np.ndarray:
    arrays = {name: value.numpy(force=True) for name, value in readout.state_dict().items()}
    return subject.log_probs(states_NH.numpy(force=True), arrays)


def is_the_sum_of_nats_and_their_count(loss: TokenLoss, subject: ReadoutSubject = FULL) -> None:
    states_BTH, readout, targets_BT = example(subject=subject)
    for lengths_B, valid_BT in ((None, torch.ones_like(VALID_BT)), (LENGTHS, VALID_BT)):
        targets_N = targets_BT[valid_BT].numpy()
        log_probs_NV = log_probs_of(subject, readout, states_BTH[valid_BT])
        want_N = -log_probs_NV[np.arange(len(targets_N)), targets_N]
        got = loss(states_BTH, readout, targets_BT, lengths_B)
        assert got.count == len(want_N)
        assert got.nats.dtype == torch.float64
        assert_close(got.nats, torch.tensor(want_N.sum()), PARITY_64, "nats")
        assert_close(got.mean(), torch.tensor(want_N.mean()), PARITY_64, "nats per token")


def gradients_are_those_of_the_log_softmax_of_the_logits(
    loss: TokenLoss, subject: ReadoutSubject = FULL
) -> None:
    states_BTH, readout, targets_BT = example(subject=subject)
    inputs = [states_BTH.requires_grad_(), *readout.parameters()]
    log_probs_NV = readout.logits(states_BTH)[VALID_BT].log_softmax(dim=1)
    plain = -log_probs_NV.gather(1, targets_BT[VALID_BT].unsqueeze(1)).sum()
    want = torch.autograd.grad(plain * 0.3, inputs)
    got = torch.autograd.grad(loss(states_BTH, readout, targets_BT, LENGTHS).nats * 0.3, inputs)
    for place, (left, right) in enumerate(zip(got, want, strict=True)):
        assert_close(left, right, PARITY_64, f"gradient {place}")


def gradients_are_those_of_differences(loss: TokenLoss, subject: ReadoutSubject = FULL) -> None:
    states_BTH, readout, targets_BT = example(subject=subject)
    names = [f"readout.{name}" for name, _ in readout.named_parameters()]

    def nats(states_BTH: Tensor, *parameters: Tensor) -> Tensor:
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(_Loss(loss, readout), weights, (states_BTH, targets_BT))

    inputs = (states_BTH.requires_grad_(), *readout.parameters())
    assert torch.autograd.gradcheck(nats, inputs)


class _Loss(nn.Module):
    def __init__(self, loss: TokenLoss, readout: SoftmaxReadout) -> None:
        super().__init__()
        self.loss, self.readout = loss, readout

    def forward(self, states_BTH: Tensor, targets_BT: Tensor) -> Tensor:
        return self.loss(states_BTH, self.readout, targets_BT, LENGTHS).nats


def probabilities_of_all_tokens_sum_to_one(loss: TokenLoss, subject: ReadoutSubject = FULL) -> None:
    states_BTH, readout, _ = example(subject=subject)
    state_11H = states_BTH[:1, :1]
    total, log_probs_V = 0.0, log_probs_of(subject, readout, state_11H[0])[0]
    logits_V = readout.logits(state_11H)[0, 0]
    for token in range(11):
        nats = loss(state_11H, readout, torch.tensor([[token]]), None).nats.item()
        assert abs(nats + log_probs_V[token]) < PARITY_64 * 10
        assert abs(nats + logits_V.log_softmax(0)[token].item()) < PARITY_64 * 10
        total += np.exp(-nats)
    assert abs(total - 1.0) < EXACT_64 * 10


def cutting_the_batch_changes_nothing(loss: TokenLoss, subject: ReadoutSubject = FULL) -> None:
    for dtype, tolerance in ((torch.float64, EXACT_64), (torch.float32, EXACT_32)):
        states_BTH, readout, targets_BT = example(dtype, subject=subject)
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


def padding_is_invisible_to_the_loss(loss: TokenLoss, subject: ReadoutSubject = FULL) -> None:
    states_BTH, readout, targets_BT = example(subject=subject)
    pad_BT = ~VALID_BT
    want = loss(states_BTH, readout, targets_BT, LENGTHS)
    dirty_BTH = states_BTH.masked_fill(pad_BT.unsqueeze(2), torch.nan).requires_grad_()
    for pad_id in (0, 10):
        got = loss(dirty_BTH, readout, targets_BT.masked_fill(pad_BT, pad_id), LENGTHS)
        assert torch.equal(got.nats, want.nats)
        assert got.count == want.count
        (grad_BTH,) = torch.autograd.grad(got.nats, [dirty_BTH])
        assert grad_BTH[pad_BT].eq(0).all()


def uniform_model_costs_the_log_of_the_vocabulary(
    loss: TokenLoss, subject: ReadoutSubject = FULL
) -> None:
    readout = subject.make(3, 4)  # what is learnt is zero
    for targets_BT in (torch.tensor([[0, 0, 0], [0, 1, 3]]), torch.tensor([[2, 3, 3], [1, 0, 2]])):
        got = loss(torch.ones(2, 3, 3), readout, targets_BT, torch.tensor([1, 3]))
        assert got.count == 4
        assert abs(got.mean().item() - 1.386294) < 1e-6  # ln 4 to six places
    if subject is FULL:
        (bias_grad_V,) = torch.autograd.grad(
            loss(torch.ones(1, 1, 3), readout, torch.tensor([[0]]), None).nats, [readout.bias]
        )
        learnt = torch.tensor([-0.75, 0.25, 0.25, 0.25])
        assert_close(bias_grad_V, learnt, EXACT_32, "id 0 is learnt")


def batch_of_padding_alone_is_nothing(loss: TokenLoss, subject: ReadoutSubject = FULL) -> None:
    states_BTH, readout, targets_BT = example(subject=subject)
    states_BTH.requires_grad_()
    got = loss(states_BTH, readout, targets_BT, torch.zeros(4, dtype=torch.int64))
    assert (got.nats.item(), got.count, got.mean().item()) == (0.0, 0, 0.0)
    for gradient in torch.autograd.grad(
        got.mean(), [states_BTH, *readout.parameters()], allow_unused=True
    ):
        assert gradient is None or gradient.eq(0).all()


def ignored_targets_count_for_nothing(loss: TokenLoss, subject: ReadoutSubject) -> None:
    states_BTH, readout, targets_BT = example(subject=subject)
    states_BTH.requires_grad_()
    ignored_BT = torch.where(VALID_BT, targets_BT, IGNORED)
    got = loss(states_BTH, readout, ignored_BT, None)
    want = loss(states_BTH, readout, targets_BT, LENGTHS)
    assert_close(got.nats, want.nats, EXACT_64, "targets that are ignored for padding")
    (gradient_BTH,) = torch.autograd.grad(got.nats, states_BTH)
    assert torch.all(gradient_BTH[~VALID_BT] == 0)
    assert torch.any(gradient_BTH[VALID_BT] != 0)


LOSS_PROMISES: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            is_the_sum_of_nats_and_their_count,
            gradients_are_those_of_the_log_softmax_of_the_logits,
            gradients_are_those_of_differences,
            probabilities_of_all_tokens_sum_to_one,
            cutting_the_batch_changes_nothing,
            padding_is_invisible_to_the_loss,
            uniform_model_costs_the_log_of_the_vocabulary,
            batch_of_padding_alone_is_nothing,
            ignored_targets_count_for_nothing,
        )
    }
)
