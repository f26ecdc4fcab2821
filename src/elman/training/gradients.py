"""loss → gradients: of a batch that one process has, or that several share row by row."""

from contextlib import nullcontext
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from elman.data.batches import Batch
from elman.kernels.dispatch import KernelPlan
from elman.layers.class_split import ClassSplit
from elman.layers.stack import StackState
from elman.processes import Processes, lost_processes
from elman.seeding import RowGenerator
from elman.training.objective import Objective
from elman.training.truncation import detach

ModelT = TypeVar("ModelT", bound=nn.Module)
BatchT = TypeVar("BatchT", bound=Batch)


class BatchGradients(Generic[ModelT, BatchT]):
    """∇ Σ nats / Σ targets over all rows of a batch, left at the parameters of every process.

    A process has the rows of its share. `DistributedDataParallel` leaves the mean over P processes
    at each, so that every one scales its own sum of nats by P / (targets of the whole batch). One
    without a row computes one that counts for nothing, as all have to take part.
    """

    def __init__(self, objective: Objective[ModelT, BatchT], processes: Processes) -> None:
        self._processes = processes
        classes = any(isinstance(part, ClassSplit) for part in objective.model.modules())
        self._module = processes.sharing(_LossModule(objective), may_skip=classes)

    def leave(
        self,
        batch: BatchT,
        state: StackState | None,
        *,
        plan: KernelPlan,
        generator: RowGenerator,
    ) -> tuple[float, StackState | None]:
        """Leave the gradients of `batch`, read after `state`; return its nats and the state after.

        Both states are those of the rows that this process holds; the nats are of all rows.
        Smoothed targets change the gradient alone: the nats are those of the targets themselves.
        """
        several = self._processes.size > 1
        share = self._processes.share(batch.num_rows)
        own = batch.rows(share.held) if several else batch
        losing = lost_processes() if several else nullcontext()
        with generator.of_rows(share if several else None), losing:
            minimised, plain, after = self._module(own, state, plan, generator)
            after = detach(after)  # what shares a module may put every output into its graph
            counted = 0.0 if share.is_spare else float(self._processes.size)
            torch.autograd.backward(minimised / max(batch.num_targets, 1) * counted)
        nats = 0.0 if share.is_spare else plain.item()
        return self._processes.sum_of(nats), after


class _LossModule(nn.Module, Generic[ModelT, BatchT]):
    """The loss of a batch as a module, which is what can be shared among processes."""

    def __init__(self, objective: Objective[ModelT, BatchT]) -> None:
        super().__init__()
        self.model, self._objective = objective.model, objective

    def forward(
        self,
        batch: BatchT,
        state: StackState | None,
        plan: KernelPlan,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor, StackState | None]:
        """Return the nats to minimise, the plain ones, and the state after, cut off."""
        step = self._objective.loss(batch, state, plan=plan, generator=generator)
        return step.loss.minimised.nats, step.loss.plain.nats, detach(step.state)
