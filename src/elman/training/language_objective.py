"""Next-token prediction as what a trainer improves."""

from typing import Generic, TypeVar

import torch

from elman.config.training_settings import TrainingSettings
from elman.data.batches import TokenBatch
from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import EmbeddingGradient
from elman.layers.masks import valid_positions
from elman.layers.stack import StackState
from elman.losses import LossSum, TrainingLoss, training_loss
from elman.models.language import LanguageModel, ModelOutput
from elman.seeding import row_share_of
from elman.training.objective import StepLoss
from elman.training.optimisers import takes_rows

LanguageModelT = TypeVar("LanguageModelT", bound=LanguageModel)


class LanguageObjective(Generic[LanguageModelT]):
    """Σ −log p(target) over the positions of a batch; the state is carried from batch to batch.

    Smoothed targets (`training.label_smoothing`) and penalties change what is minimised alone: the
    plain loss is that of the targets themselves. Penalties, per token, are

        activation_penalty · mean(states²) + change_penalty · mean((raw_t − raw_{t−1})²)

    with states those that the readout sees, raw ones those before dropout, and means over valid
    steps and units: S. Merity et al., arXiv:1708.01009, equations 2 and 3. With windows of lengths
    by chance what is minimised is scaled by length / `training.window`, as the rate is in
    arXiv:1708.02182, section 5.
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
            # Other processes may have met other words: what is exchanged has all rows.
            embedding_gradient="dense" if row_share_of(generator) else self._embedding_gradient,
        )
        loss = training_loss(
            output.states_BTH,
            output.readout,
            targets_BT,
            lengths_B,
            label_smoothing=self._settings.label_smoothing,
            plan=plan,
        )
        loss = self._penalised(loss, output, lengths_B)
        return StepLoss(loss, output.state)

    def _penalised(
        self, loss: TrainingLoss, output: ModelOutput, lengths_B: torch.Tensor
    ) -> TrainingLoss:
        """Return the loss with what is added to it and what it is scaled by."""
        s, minimised = self._settings, loss.minimised
        num_steps = output.states_BTH.shape[1]
        if s.activation_penalty or s.change_penalty:
            valid_BT = valid_positions(lengths_B, num_steps)
            added = s.activation_penalty * _mean_square(output.states_BTH, valid_BT)
            if s.change_penalty and output.raw_BTH is not None and num_steps > 1:
                changes_BTH = output.raw_BTH[:, 1:] - output.raw_BTH[:, :-1]
                added = added + s.change_penalty * _mean_square(changes_BTH, valid_BT[:, 1:])
            minimised = LossSum(minimised.nats + added.double() * minimised.count, minimised.count)
        if s.window_deviation:
            share = num_steps / s.window
            minimised = LossSum(minimised.nats * share, minimised.count)
        return TrainingLoss(minimised, loss.plain)

    def zero_state(self, batch_size: int) -> StackState:
        """Return zeros for every cell."""
        return self.model.zero_state(batch_size)


def _mean_square(x_BTH: torch.Tensor, valid_BT: torch.Tensor) -> torch.Tensor:
    """Return the mean of the squares over valid steps and all units; 0 without a valid step."""
    squares_BT = x_BTH.square().mean(dim=2)
    return (squares_BT * valid_BT).sum() / valid_BT.sum().clamp(min=1)


def _embedding_gradient(model: LanguageModel, settings: TrainingSettings) -> EmbeddingGradient:
    """Return "rows" where nothing else adds to the embedding's gradient and none other is needed.

    A window meets a few hundred words, and a vocabulary has many thousands.
    """
    if not model.has_own_embedding or model.device.type != "cpu":
        return "dense"
    return "rows" if takes_rows(settings) else "dense"
