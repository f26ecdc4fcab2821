"""A tag for each token as what a trainer improves."""

import torch
from torch import Tensor

from elman.data.examples import TagBatch
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import uniform_rows
from elman.layers.stack import StackState
from elman.losses import LossSum, TrainingLoss
from elman.models.tagger import SequenceTagger
from elman.training.objective import StepLoss


class TagObjective:
    """Σ −log p(tags) over the sentences of a batch, counted by tokens; no state is carried.

    While learning, a token whose word is w becomes unknown with probability `unknown_rates_V[w]`,
    so that the vector of the unknown word is learnt and spellings have to do. Smoothed targets
    change what is minimised alone. `recompute` is that of the stack.
    """

    def __init__(
        self,
        model: SequenceTagger,
        *,
        unknown_rates_V: Tensor,
        unk_id: int,
        label_smoothing: float = 0.0,
        recompute: int = 0,
    ) -> None:
        self.model = model
        self._rates_V, self._unk_id = unknown_rates_V, unk_id
        self._smoothing, self._recompute = label_smoothing, recompute

    def loss(
        self,
        batch: TagBatch,
        state: StackState | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator,
    ) -> StepLoss:
        """Return the loss of `batch`; there is no state before or after."""
        device = self.model.bias.device
        batch = TagBatch(*(tensor.to(device) for tensor in batch))
        read = batch._replace(ids_BT=self.forgetting(batch.ids_BT, generator))
        emissions_BTC = self.model(read, plan=plan, generator=generator, recompute=self._recompute)
        target = (emissions_BTC, batch.tags_BT, batch.lengths_B)
        count = batch.num_targets
        minimised = LossSum(self.model.tag_nats(*target, label_smoothing=self._smoothing), count)
        plain = minimised
        if self._smoothing:
            with torch.no_grad():
                plain = LossSum(self.model.tag_nats(*target), count)
        return StepLoss(TrainingLoss(minimised, plain), None)

    def forgetting(self, ids_BT: Tensor, generator: torch.Generator) -> Tensor:
        """Return ids_BT with some words made unknown, by the generator alone."""
        rates_BT = self._rates_V.to(ids_BT.device)[ids_BT]
        draws_BT = uniform_rows(ids_BT.shape, generator, ids_BT.device)
        return ids_BT.masked_fill(draws_BT < rates_BT, self._unk_id)

    def zero_state(self, batch_size: int) -> None:
        """Return None: sentences know nothing of each other."""
        return None


def unknown_rates(counts_V: Tensor, pull: float) -> Tensor:
    """Return a / (n + a) for each word seen n times, a = `pull`; 0 for what was never seen.

    Source: E. Kiperwasser, Y. Goldberg, TACL 2016, section 5 (there a = 0.25); after M. Iyyer et
    al., ACL 2015.
    """
    counts_V = counts_V.double()
    return torch.where(counts_V > 0, pull / (counts_V + pull), torch.zeros_like(counts_V))
