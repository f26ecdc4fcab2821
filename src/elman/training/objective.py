"""What a trainer improves: a model, and the loss of one batch under it."""

from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import nn

from elman.data.batches import Batch
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import TrainingLoss

ModelT_co = TypeVar("ModelT_co", bound=nn.Module, covariant=True)
BatchT_contra = TypeVar("BatchT_contra", bound=Batch, contravariant=True)


class StepLoss(NamedTuple):
    """The loss of a batch, and the state for the next one, None where nothing is carried."""

    loss: TrainingLoss
    state: StackState | None


class Objective(Protocol[ModelT_co, BatchT_contra]):
    """A model together with the loss that its training makes small."""

    @property
    def model(self) -> ModelT_co:
        """The model, whose parameters are learnt."""
        ...

    def loss(
        self,
        batch: BatchT_contra,
        state: StackState | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator,
    ) -> StepLoss:
        """Return the loss of `batch` read after `state`, with the dropout of `generator`."""
        ...

    def zero_state(self, batch_size: int) -> StackState | None:
        """Return the state before any token; None where the objective carries none."""
        ...
