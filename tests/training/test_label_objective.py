"""The loss of whole rows: against torch's own losses, with weights, smoothing and blocks."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from elman.config.model_settings import ModelSettings
from elman.data.examples import LabelBatch
from elman.kernels.dispatch import KernelPlan
from elman.models.classifier import SequenceClassifier
from elman.text.label_set import Answers
from elman.training.label_objective import LabelObjective
from elman.training.objective import StepLoss

LENGTHS = (9, 4, 7, 1)
WEIGHTS = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)


def tiny_classifier(*, dropout: float = 0.0) -> SequenceClassifier:
    settings = ModelSettings(
        task="classify", embedding_size=4, hidden_size=5, pooling="mean", dropout=dropout
    )
    return SequenceClassifier(settings, 6, 3, torch.Generator().manual_seed(1)).double()


def tiny_batch(answers: Answers) -> LabelBatch:
    draw = torch.Generator().manual_seed(2)
    ids_BT = torch.randint(0, 6, (len(LENGTHS), max(LENGTHS)), generator=draw)
    labels_BC = torch.eye(3)[[0, 2, 1, 2]]
    if answers == "several":
        labels_BC = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0] * 3])
    return LabelBatch(ids_BT, torch.tensor(LENGTHS), labels_BC)


def loss_of(objective: LabelObjective, batch: LabelBatch, seed: int = 3) -> StepLoss:
    return objective.loss(
        batch, None, plan=KernelPlan(), generator=torch.Generator().manual_seed(seed)
    )


def logits_of(model: SequenceClassifier, batch: LabelBatch) -> Tensor:
    logits_BC: Tensor = model(batch.inputs, batch.lengths_B, plan=KernelPlan())
    return logits_BC


def test_one_answer_weighs_and_smooths_what_is_minimised_alone() -> None:
    model, batch = tiny_classifier(), tiny_batch("one")
    objective = LabelObjective(model, answers="one", class_weights_C=WEIGHTS, label_smoothing=0.2)
    loss, state = loss_of(objective, batch)
    logits_BC, gold_B = logits_of(model, batch), batch.labels_BC.argmax(dim=1)
    minimised = cross_entropy(
        logits_BC, gold_B, weight=WEIGHTS, reduction="sum", label_smoothing=0.2
    )
    plain = cross_entropy(logits_BC, gold_B, reduction="sum")
    assert loss.minimised.nats.item() == pytest.approx(minimised.item(), rel=1e-12)
    assert loss.plain.nats.item() == pytest.approx(plain.item(), rel=1e-12)
    assert (loss.minimised.count, loss.plain.count, state) == (4, 4, None)
    assert not loss.plain.nats.requires_grad


def test_several_answers_weigh_each_yes() -> None:
    model, batch = tiny_classifier(), tiny_batch("several")
    loss, _ = loss_of(LabelObjective(model, answers="several", class_weights_C=WEIGHTS), batch)
    logits_BC, labels_BC = logits_of(model, batch), batch.labels_BC.double()
    minimised = binary_cross_entropy_with_logits(
        logits_BC, labels_BC, pos_weight=WEIGHTS, reduction="sum"
    )
    plain = binary_cross_entropy_with_logits(logits_BC, labels_BC, reduction="sum")
    assert loss.minimised.nats.item() == pytest.approx(minimised.item(), rel=1e-12)
    assert loss.plain.nats.item() == pytest.approx(plain.item(), rel=1e-12)


@pytest.mark.parametrize("recompute", [1, 3, 20])
def test_blocks_run_again_give_the_same_gradients_under_the_same_dropout(recompute: int) -> None:
    found = []
    for blocks in (0, recompute):
        model = tiny_classifier(dropout=0.4)
        loss, _ = loss_of(LabelObjective(model, answers="one", recompute=blocks), tiny_batch("one"))
        torch.autograd.backward(loss.minimised.mean())
        gradients = [parameter.grad for parameter in model.parameters()]
        assert all(gradient is not None for gradient in gradients)
        found.append((loss.plain.nats.item(), gradients))
    (want_nats, want), (got_nats, got) = found
    assert got_nats == pytest.approx(want_nats, rel=1e-12)
    for right, left in zip(want, got, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)
