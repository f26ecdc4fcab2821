"""Seeded mutants of losses and readouts: each must turn the promise named beside it red."""

from collections.abc import Callable

import pytest
import torch
from loss_promises import LOSS_PROMISES, READOUTS, ReadoutSubject
from torch.nn.functional import cross_entropy

from elman.layers.class_split import ClassSplitReadout
from elman.losses import LossSum, token_loss


def mean_of_means(states_BTH, readout, targets_BT, lengths_B) -> LossSum:
    """Rows are averaged before they are added up."""
    rows = [
        token_loss(
            states_BTH[row : row + 1],
            readout,
            targets_BT[row : row + 1],
            None if lengths_B is None else lengths_B[row : row + 1],
        )
        for row in range(states_BTH.shape[0])
    ]
    count = sum(row.count for row in rows)
    return LossSum(torch.stack([row.mean() for row in rows]).mean() * count, count)


def padding_counted(states_BTH, readout, targets_BT, lengths_B) -> LossSum:
    """Padding is supervised like any other target."""
    return token_loss(states_BTH, readout, targets_BT, None)


def identity_zero_ignored(states_BTH, readout, targets_BT, lengths_B) -> LossSum:
    """Id 0 is taken for padding, whatever the lengths say."""
    logits_NV = readout.logits(states_BTH).flatten(0, 1)
    nats = cross_entropy(logits_NV, targets_BT.flatten(), ignore_index=0, reduction="sum")
    return LossSum(nats.double(), int((targets_BT != 0).sum()))


def bias_left_out(states_BTH, readout, targets_BT, lengths_B) -> LossSum:
    """The bias of the readout is dropped."""
    total = token_loss(states_BTH, readout, targets_BT, lengths_B)
    logits_NV = (states_BTH @ readout.weight.t()).flatten(0, 1)
    nats = cross_entropy(logits_NV, targets_BT.flatten(), reduction="sum")
    return LossSum(nats.double(), total.count)


LOSS_MUTANTS: dict[str, tuple[Callable[..., LossSum], str]] = {
    "mean of means": (mean_of_means, "cutting_the_batch_changes_nothing"),
    "mean of means, sum": (mean_of_means, "is_the_sum_of_nats_and_their_count"),
    "padding counted": (padding_counted, "uniform_model_costs_the_log_of_the_vocabulary"),
    "padding counted, values": (padding_counted, "padding_is_invisible_to_the_loss"),
    "id 0 ignored": (identity_zero_ignored, "uniform_model_costs_the_log_of_the_vocabulary"),
    "bias dropped": (bias_left_out, "is_the_sum_of_nats_and_their_count"),
}


@pytest.mark.parametrize("mutant", LOSS_MUTANTS)
def test_mutant_of_a_loss_is_caught(mutant: str) -> None:
    loss, promise = LOSS_MUTANTS[mutant]
    with pytest.raises(AssertionError):
        LOSS_PROMISES[promise](loss)


class TailsForgotten(ClassSplitReadout):
    """The class is learnt, the word within it is not."""

    def softmaxes(self, states_NH, targets_N):
        return super().softmaxes(states_NH, targets_N)[:1]


class NeighbouringClasses(ClassSplitReadout):
    """Words of one class are charged with the entry of another one."""

    def softmaxes(self, states_NH, targets_N):
        head, *tails = super().softmaxes(states_NH, targets_N)
        first, count = self.cutoffs[0], len(self.cutoffs)
        shifted_N = first + (head.targets_N - first + 1) % count
        targets_N = torch.where(head.targets_N < first, head.targets_N, shifted_N)
        return [head._replace(targets_N=targets_N), *tails]


class IdsTakenForPlaces(ClassSplitReadout):
    """The loss forgets the order of the ids."""

    def softmaxes(self, states_NH, targets_N):
        return super().softmaxes(states_NH, self.place_of_id_V.argsort()[targets_N])


@pytest.mark.parametrize("mutant", [TailsForgotten, NeighbouringClasses, IdsTakenForPlaces])
@pytest.mark.parametrize(
    "promise", ["is_the_sum_of_nats_and_their_count", "probabilities_of_all_tokens_sum_to_one"]
)
def test_mutant_of_a_readout_is_caught(mutant, promise: str) -> None:
    def make(hidden_size: int, vocabulary_size: int) -> ClassSplitReadout:
        readout = mutant(hidden_size, vocabulary_size, cutoffs=(3, 6), divisor=2.0)
        readout.order_by(torch.arange(vocabulary_size) * 7 % vocabulary_size)
        return readout

    subject = ReadoutSubject(make, READOUTS["split in four"].log_probs)
    with pytest.raises(AssertionError):
        LOSS_PROMISES[promise](token_loss, subject)
