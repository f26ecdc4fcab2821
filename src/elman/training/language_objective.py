"""Next-token prediction as what a trainer improves."""

from typing import Generic, TypeVar

import torch

from elman.config.training_settings import TrainingSettings
from elman.data.batches import TokenBatch
from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import EmbeddingGradient
from elman.layers.stack import StackState
from elman.losses import training_loss
from elman.models.language import LanguageModel
from elman.training.objective import StepLoss
from elman.training.optimisers import takes_rows

LanguageModelT = TypeVar("LanguageModelT", bound=LanguageModel)


class LanguageObjective(Generic[LanguageModelT]):
    """Σ −log p(target) over the positions of a batch; the state is carried from batch to batch.

    Smoothed targets (`training.label_smoothing`) change what is minimised alone: the plain loss is
    that of the targets themselves.
    """

    def __init__(self, model: LanguageModelT, settings: TrainingSettings) -> None:
        self.model, self._settings = model, settings
        self._embedding_gradient = _embedding_gradient(model, settings)

    def loss(
        self,
        batch: TokenBatch,
        state: StackState | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator,
    ) -> StepLoss:
        """Return the loss of `batch` read after `state`, and the state after it."""
        device = next(self.model.parameters()).device
        ids_BT, targets_BT, lengths_B = (
            tensor.to(device) for tensor in (batch.ids_BT, batch.targets_BT, batch.lengths_B)
        )
        output = self.model(
            ids_BT,
            state,
            lengths_B,
            plan=plan,
            generator=generator,
            recompute=self._settings.recompute,
            embedding_gradient=self._embedding_gradient,
        )
        loss = training_loss(
            output.states_BTH,
            output.readout,
            targets_BT,
            lengths_B,
            label_smoothing=self._settings.label_smoothing,
            plan=plan,
        )
        return StepLoss(loss, output.state)

    def zero_state(self, batch_size: int) -> StackState:
        """Return zeros for every cell."""
        return self.model.zero_state(batch_size)


def _embedding_gradient(model: LanguageModel, settings: TrainingSettings) -> EmbeddingGradient:
    """Return "rows" where nothing else adds to the embedding's gradient and none other is needed.

    A window meets a few hundred words, and a vocabulary has many thousands.
    """
    if not model.has_own_embedding or model.device.type != "cpu":
        return "dense"
    return "rows" if takes_rows(settings) else "dense"
