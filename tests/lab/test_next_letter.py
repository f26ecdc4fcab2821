"""The shift and the loss of a word, beside NumPy; a shift of nothing is noticed."""

import numpy as np
import pytest
import torch
from planted_faults import verdicts

from elman.data.lines import LineBatches
from elman.recipes.lab import next_letter
from elman.recipes.lab.next_letter import NEXT_LETTER


def test_the_loss_is_what_numpy_makes_of_the_equations() -> None:
    tokenizer, batch = next_letter._word_batch()
    model = next_letter._model(tokenizer)
    weights = {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}
    state, total = np.zeros(6), 0.0
    for read, target in zip(batch.ids_BT[0].tolist(), batch.targets_BT[0].tolist(), strict=True):
        e = weights["embedding.weight"][read]
        pre = weights["stack.cells.0.weight_ih"] @ e + weights["stack.cells.0.bias_ih"]
        state = np.tanh(pre + weights["stack.cells.0.weight_hh"] @ state)
        logits = weights["readout.weight"] @ state + weights["readout.bias"]
        total -= logits[target] - np.log(np.exp(logits).sum())
    nats, count = next_letter._loss(model, batch)
    assert count == 4
    assert nats == pytest.approx(total, abs=1e-12)


def test_targets_that_are_the_inputs_turn_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LineBatches.batch

    def unshifted(self: LineBatches, epoch: int, index: int) -> object:
        batch = right(self, epoch, index)
        shifted_BT = torch.roll(batch.targets_BT, -1, dims=1)
        return batch._replace(targets_BT=shifted_BT)

    monkeypatch.setattr(LineBatches, "batch", unshifted)
    assert verdicts(NEXT_LETTER)["000-01"] == "differs"
