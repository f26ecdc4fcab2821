"""Another sequence for each source as what a trainer improves."""

import torch
from torch import Tensor

from elman.config.training_settings import TrainingSettings
from elman.data.examples import PairBatch
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import uniform_rows
from elman.layers.stack import StackState
from elman.losses import training_loss
from elman.models.encoder_decoder import EncoderDecoder, ReadSource, shifted
from elman.training.objective import StepLoss


class TranslationObjective:
    """Σ −log p(y_t | y_1 … y_{t−1}, source) over the tokens and the stop mark of each target.

    Teacher forcing: the decoder reads the right tokens, after the mark `boundary_id`. With
    `training.scheduled_sampling` p, each token that it reads is with probability p the model's own
    likeliest guess at it instead, made in a first pass over the right ones (as S. Bengio et al.,
    arXiv:1506.03099, with all guesses of a target made at once: T. Mihaylova, A. Martins,
    arXiv:1906.07651); what it is to answer stays the same. Padding carries no loss.
    `training.recompute` and `training.label_smoothing` act as in next-token prediction.
    """

    def __init__(
        self, model: EncoderDecoder, settings: TrainingSettings, *, boundary_id: int
    ) -> None:
        self.model, self._settings, self._boundary_id = model, settings, boundary_id

    def loss(
        self,
        batch: PairBatch,
        state: StackState | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator,
    ) -> StepLoss:
        """Return the loss of `batch`; there is no state before or after."""
        device = self.model.readout.weight.device
        source_BS, source_lengths_B, target_BT, target_lengths_B = (
            tensor.to(device) for tensor in batch
        )
        inputs_BT, answers_BT = shifted(target_BT, target_lengths_B, self._boundary_id)
        recompute = self._settings.recompute
        read = self.model.read(
            source_BS, source_lengths_B, plan=plan, generator=generator, recompute=recompute
        )
        if self._settings.scheduled_sampling:
            inputs_BT = self._mixed(read, inputs_BT, plan, generator)
        output = self.model.answer(
            read,
            inputs_BT,
            target_lengths_B + 1,
            plan=plan,
            generator=generator,
            recompute=recompute,
        )
        loss = training_loss(
            output.features_BTF,
            output.readout,
            answers_BT,
            target_lengths_B + 1,
            label_smoothing=self._settings.label_smoothing,
            plan=plan,
        )
        return StepLoss(loss, None)

    def zero_state(self, batch_size: int) -> None:
        """Return None: pairs know nothing of each other."""
        return None

    def _mixed(
        self, read: ReadSource, inputs_BT: Tensor, plan: KernelPlan, generator: torch.Generator
    ) -> Tensor:
        """Return inputs_BT with a share of the tokens after the start mark guessed."""
        with torch.no_grad():
            features_BTF = self.model.answer(read, inputs_BT, plan=plan).features_BTF
            guesses_BT = self.model.readout.logits(features_BTF).argmax(dim=2)
        draws_BT = uniform_rows(inputs_BT.shape, generator, inputs_BT.device)
        guessed_BT = draws_BT < self._settings.scheduled_sampling
        guessed_BT[:, 0] = False
        moved_BT = torch.cat((inputs_BT[:, :1], guesses_BT[:, :-1]), dim=1)
        return torch.where(guessed_BT, moved_BT, inputs_BT)
