"""The loop: one update after another, on to the same bits from any of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from elman.config.training_settings import TrainingSettings
from elman.data.batches import Batch, BatchSource
from elman.errors import DataError, RunError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.processes import Processes
from elman.seeding import RowGenerator, stream_seed
from elman.training.averaging import WeightAverage
from elman.training.clipping import measure_gradients
from elman.training.events import UpdateEvent
from elman.training.gradients import BatchGradients
from elman.training.objective import Objective
from elman.training.optimisers import apply_gradients, build_optimiser, set_rate
from elman.training.saved_facts import require_facts
from elman.training.schedules import rate
from elman.training.selection import Selection
from elman.training.trainer_state import (
    STATE_FORMAT,
    TrainerState,
    carried_leaves,
    copy_into_model,
    kept_tensors,
    optimiser_tensors,
    restore_generator,
    restore_optimiser,
    state_leaves,
    take_prefix,
    with_leaves,
)
from elman.training.truncation import carry, reset

ModelT = TypeVar("ModelT", bound=nn.Module)
BatchT = TypeVar("BatchT", bound=Batch)

SMOOTHING = 0.98
"""Decay per update of the recent training loss: about the last 50 updates."""


def planned_updates(settings: TrainingSettings, source: BatchSource[Batch]) -> int:
    """Return the updates of a run: `updates`, else all batches of `epochs` epochs.

    Raises `SettingError` where both are 0, as they are when a budget has yet to say.
    """
    if settings.updates:
        return settings.updates
    if settings.epochs:
        return sum(source.batches_per_epoch(epoch) for epoch in range(settings.epochs))
    raise SettingError(
        "training.updates or training.epochs must say when to stop",
        got="0 for both",
        allowed="one of them >= 1",
    )


class Trainer(Generic[ModelT, BatchT]):
    """A run: model, data, optimiser and everything between two updates that a third depends on.

    Each update minimises Σ nats / Σ targets of one batch, a sum and a count divided once; with
    `label_smoothing` that of smoothed targets, while all that is told is the plain loss. `update`
    counts the updates made; `total_updates` is what the schedule ends at. Batches without a target
    are passed over and are no updates. All randomness is that of `settings.seed` and goes through
    generators of this object; nothing that is done between two updates, a validation or a sample,
    reaches them. The model is changed in place. Where several `processes` share the rows of each
    batch, they hold the same model, make the same updates and give the same state as one alone, but
    for the order in which sums are made.
    """

    def __init__(
        self,
        objective: Objective[ModelT, BatchT],
        source: BatchSource[BatchT],
        settings: TrainingSettings,
        plan: KernelPlan,
        *,
        total_updates: int,
        processes: Processes | None = None,
    ) -> None:
        if total_updates < 1:
            raise SettingError("total_updates must be an int >= 1", got=str(total_updates))
        model = objective.model
        self.objective, self.model, self.source = objective, model, source
        self.processes = Processes() if processes is None else processes
        self.settings, self.plan = settings, plan
        self.total_updates = total_updates
        self.update = 0
        self.num_tokens = 0
        self.nonfinite_steps = 0
        self.selection = Selection()
        self.average = _new_average(model, settings)
        self._averages = settings.average_trigger == 0
        self._parameters = list(model.parameters())
        self._device = self._parameters[0].device
        self._optimiser = build_optimiser(model, settings)
        self._gradients = BatchGradients(objective, self.processes)
        self._dropout = RowGenerator(self._device)
        self._dropout.manual_seed(stream_seed(settings.seed, "dropout"))
        self._carried: StackState | None = None
        self._num_rows = 0  # those that all processes carry together
        self._epoch, self._index = 0, 0
        self._smoothed_nats, self._smoothed_tokens = 0.0, 0.0

    @property
    def epoch(self) -> int:
        """The epoch of the last batch read, counted from 1; 0 before the first."""
        return self._epoch + 1 if self._index or self._epoch else 0

    @property
    def updates_per_epoch(self) -> int:
        """Batches of the first epoch, which schedule and validation count epochs by."""
        return self.source.batches_per_epoch(0)

    @property
    def smoothed_nats(self) -> float | None:
        """The recent training loss in nats per token, weighted by tokens; None before the first."""
        if self._smoothed_tokens == 0.0:
            return None
        return self._smoothed_nats / self._smoothed_tokens

    def step(self) -> UpdateEvent:
        """Make one update and tell about it.

        A step whose loss or gradient norm is not finite changes no weight and no moment; a carried
        state that is not finite any more starts again from zeros.
        """
        started = time.perf_counter()
        step_rate = self._next_rate()
        batch = self._next_batch()
        loss_nats, after = self._gradients.leave(
            batch, carry(self._carried), plan=self.plan, generator=self._dropout
        )
        gradient = measure_gradients(self._parameters, self.settings.clip_norm)
        skipped = not (gradient.finite and abs(loss_nats) < float("inf"))
        if skipped:
            self.nonfinite_steps += 1
            lost = self.processes.any_of(not _all_finite(after))
            after = reset(after) if lost else after
        else:
            set_rate(self._optimiser, step_rate)
            apply_gradients(self._optimiser, gradient.factor)
            if self.average is not None and self._averages:
                self.average.update(self.model)
            self._smooth(loss_nats, batch.num_targets)
        for parameter in self._parameters:
            parameter.grad = None
        self._carried, self._num_rows = after, batch.num_rows
        self.update += 1
        self.num_tokens += batch.num_targets
        return UpdateEvent(
            update=self.update,
            epoch=self.epoch,
            loss_nats=loss_nats,
            num_tokens=batch.num_targets,
            smoothed_nats=self.smoothed_nats,
            rate=step_rate,
            gradient_norm=gradient.norm,
            skipped=skipped,
            nonfinite_steps=self.nonfinite_steps,
            elapsed_seconds=time.perf_counter() - started,
        )

    def consider_averaging(self) -> bool:
        """Begin to average the weights where the last validation asks for it; return whether.

        That is once, by `training.average_trigger`.
        """
        trigger = self.settings.average_trigger
        if self._averages or not trigger or not self.selection.is_stuck(trigger):
            return False
        self._averages = True
        return True

    @contextmanager
    def kept_weights(self) -> Iterator[None]:
        """Let the model hold the weights to score and keep: the average, where there is one."""
        if self.average is None:
            yield
            return
        with self.average.in_place_of_weights(self.model):
            yield

    def state(self) -> TrainerState:
        """Return copies of all that the next update depends on; call it outside `kept_weights`.

        It is that of all processes together, and the same however many they are. All must ask.
        """
        tensors: dict[str, Tensor] = {"generator.dropout": self._dropout.get_state()}
        with torch.no_grad():
            for name, tensor in kept_tensors(self.model).items():
                tensors[f"model.{name}"] = tensor.clone()
        for name, tensor in optimiser_tensors(self.model, self._optimiser).items():
            tensors[f"optimiser.{name}"] = tensor
        for place, leaf in enumerate(state_leaves(self._carried)):
            tensors[f"carried.{place}"] = self.processes.gathered(leaf, self._num_rows)
        if self.average is not None:
            for name, tensor in self.average.tensors.items():
                tensors[f"average.{name}"] = tensor.clone()
        facts: dict[str, object] = {
            "format": STATE_FORMAT,
            "num_tensors": len(tensors),
            "optimizer": self.settings.optimizer,
            "total_updates": self.total_updates,
            "update": self.update,
            "epoch": self._epoch,
            "index": self._index,
            "num_tokens": self.num_tokens,
            "nonfinite_steps": self.nonfinite_steps,
            "smoothed": [self._smoothed_nats, self._smoothed_tokens],
            "average_updates": 0 if self.average is None else self.average.num_updates,
            "averages": self._averages,
            "selection": self.selection.to_json(),
            "products": self.plan.products.record(),
        }
        return TrainerState(tensors, facts)

    def restore(self, state: TrainerState) -> None:
        """Go on from `state`, to the bits that the run which gave it would have reached.

        Settings, data, kernels and threads must be those of that run. `total_updates` may differ,
        to train longer; the schedule is then the new one. Raises `RunError` where the state does
        not fit.
        """
        facts: dict[str, Any] = state.facts
        self._require_fit(facts, len(state.tensors))
        copy_into_model(self.model, take_prefix(state.tensors, "model."))
        restore_optimiser(self.model, self._optimiser, take_prefix(state.tensors, "optimiser."))
        if self.average is not None:
            self.average.restore(take_prefix(state.tensors, "average."), facts["average_updates"])
        leaves = carried_leaves(state.tensors)
        self._carried = None
        if leaves:
            self._num_rows = leaves[0].shape[0]
            held = self.processes.share(self._num_rows).held
            own = [leaf[held] for leaf in leaves]
            template = self.objective.zero_state(own[0].shape[0])
            self._carried = with_leaves(template, iter(own))
        restore_generator(self._dropout, state.tensors.get("generator.dropout"))
        self.update, self.num_tokens = facts["update"], facts["num_tokens"]
        self._epoch, self._index = facts["epoch"], facts["index"]
        self.nonfinite_steps = facts["nonfinite_steps"]
        self._smoothed_nats, self._smoothed_tokens = facts["smoothed"]
        self.selection = Selection.from_json(facts["selection"])
        self._averages = facts.get("averages", True)
        self.plan.remember_products(facts["products"])

    def _next_rate(self) -> float:
        return rate(
            self.update + 1,
            self.settings,
            total_updates=self.total_updates,
            updates_per_epoch=self.updates_per_epoch,
        )

    def _next_batch(self) -> BatchT:
        """Return the next batch with a target and move the position behind it."""
        passed = 0
        while True:
            if self._index >= self.source.batches_per_epoch(self._epoch):
                self._epoch, self._index = self._epoch + 1, 0
            batch = self.source.batch(self._epoch, self._index)
            self._index += 1
            if not batch.continues:
                self._carried = reset(self._carried)
            if batch.num_targets:
                return batch
            passed += 1
            if passed > self.source.batches_per_epoch(self._epoch):
                raise DataError("there is no token to predict in a whole epoch of batches")

    def _smooth(self, loss_nats: float, num_tokens: int) -> None:
        self._smoothed_nats = SMOOTHING * self._smoothed_nats + (1.0 - SMOOTHING) * loss_nats
        self._smoothed_tokens = SMOOTHING * self._smoothed_tokens + (1.0 - SMOOTHING) * num_tokens

    def _require_fit(self, facts: dict[str, Any], num_tensors: int) -> None:
        if facts.get("format") != STATE_FORMAT:
            raise RunError(
                "the saved training state has a format that this version does not read",
                got=str(facts.get("format")),
                allowed=str(STATE_FORMAT),
            )
        require_facts(facts)
        if facts["num_tensors"] != num_tensors:
            raise RunError(
                "the saved training state must have all of its tensors",
                got=str(num_tensors),
                allowed=str(facts["num_tensors"]),
            )
        if facts["optimizer"] != self.settings.optimizer:
            raise RunError(
                "a run must be resumed with the optimiser it was trained with",
                got=f"training.optimizer = {self.settings.optimizer}",
                allowed=str(facts["optimizer"]),
            )
        if bool(facts["average_updates"]) and self.average is None:
            raise RunError(
                "a run with a moving average must be resumed with one",
                got="training.average_decay = 0 and training.average_trigger = 0",
            )


def _new_average(model: nn.Module, settings: TrainingSettings) -> WeightAverage | None:
    """Return the average that is scored and kept: a moving one, or a mean from a trigger on."""
    if settings.average_trigger:
        return WeightAverage(model, 1.0)
    return WeightAverage(model, settings.average_decay) if settings.average_decay else None


def _all_finite(state: StackState | None) -> bool:
    return all(bool(leaf.isfinite().all()) for leaf in state_leaves(state))
