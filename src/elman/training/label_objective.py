"""One answer, or several, for each row as what a trainer improves."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from elman.data.examples import LabelBatch
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import LossSum, TrainingLoss
from elman.models.classifier import SequenceClassifier
from elman.text.label_set import Answers
from elman.training.objective import StepLoss


class LabelObjective:
    """Σ over rows of −log p(label), or of the binary losses of every label.

        one      −w_c · log softmax(logits)_c                  for the row's label c
        several  −Σ_c [y_c log σ(l_c) + (1 − y_c) log σ(−l_c)]  y_c: whether the row has label c

    `class_weights_C` (w, mean 1 over the training rows) and label smoothing change what is
    minimised alone: the plain loss has neither. No state is carried. `recompute` is that of the
    stack.
    """

    def __init__(
        self,
        model: SequenceClassifier,
        *,
        answers: Answers,
        class_weights_C: Tensor | None = None,
        label_smoothing: float = 0.0,
        recompute: int = 0,
    ) -> None:
        self.model, self.answers = model, answers
        self._weights_C, self._smoothing = class_weights_C, label_smoothing
        self._recompute = recompute

    def loss(
        self,
        batch: LabelBatch,
        state: StackState | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator,
    ) -> StepLoss:
        """Return the loss of `batch`; there is no state before or after."""
        device = self.model.bias.device
        inputs, lengths_B, labels_BC = (tensor.to(device) for tensor in batch)
        logits_BC = self.model(
            inputs, lengths_B, plan=plan, generator=generator, recompute=self._recompute
        ).double()
        with torch.no_grad():
            plain_B = answer_nats(logits_BC, labels_BC, self.answers)
        minimised_B = answer_nats(
            logits_BC,
            labels_BC,
            self.answers,
            class_weights_C=self._weights_C,
            label_smoothing=self._smoothing,
        )
        count = batch.num_targets
        return StepLoss(
            TrainingLoss(LossSum(minimised_B.sum(), count), LossSum(plain_B.sum(), count)),
            None,
        )

    def zero_state(self, batch_size: int) -> None:
        """Return None: rows know nothing of each other."""
        return None


def answer_nats(
    logits_BC: Tensor,
    labels_BC: Tensor,
    answers: Answers,
    *,
    class_weights_C: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return nats_B [B] of the labels of each row under logits_BC [B, C].

    labels_BC [B, C] is 1 for each label of a row, else 0; with one answer, exactly one is 1.
    """
    labels_BC = labels_BC.to(logits_BC.dtype)
    weights_C = None if class_weights_C is None else class_weights_C.to(logits_BC)
    if answers == "one":
        return cross_entropy(
            logits_BC,
            labels_BC.argmax(dim=1),
            weight=weights_C,
            reduction="none",
            label_smoothing=label_smoothing,
        )
    if label_smoothing:
        labels_BC = labels_BC * (1.0 - label_smoothing) + 0.5 * label_smoothing
    nats_BC = binary_cross_entropy_with_logits(
        logits_BC, labels_BC, pos_weight=weights_C, reduction="none"
    )
    return nats_BC.sum(dim=1)
