"""From a trainer to a finished run: when to validate, what to keep, when to stop."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Generic, Literal

from elman.losses import LossSum
from elman.training.events import SavedEvent, TrainingEvent, ValidationEvent
from elman.training.loop import BatchT, ModelT, Trainer
from elman.training.selection import Mark, validation_interval
from elman.training.trainer_state import TrainerState

Reason = Literal["finished", "stopped_early", "interrupted"]
Validate = Callable[[], LossSum]
Save = Callable[[TrainerState, bool], None]


@dataclass(frozen=True)
class FitReport:
    """How a run ended and what it reached.

    `best_nats` and `last_nats` are validation losses in nats per token, None where nothing finite
    was measured; the updates beside them say when. `overfitting` is one sentence with its numbers,
    or None. `elapsed_seconds` is that of this call alone, all else of the whole run.
    """

    reason: Reason
    updates: int
    epoch: int
    num_tokens: int
    nonfinite_steps: int
    training_nats: float | None
    best_update: int | None
    best_nats: float | None
    last_update: int | None
    last_nats: float | None
    overfitting: str | None
    elapsed_seconds: float

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return asdict(self)


def fit(
    trainer: Trainer[ModelT, BatchT],
    *,
    validate: Validate | None = None,
    save: Save | None = None,
    on_event: Callable[[TrainingEvent], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> FitReport:
    """Train until the last update, until patience is exhausted, or until `should_stop`.

    `validate` returns the loss on held-out data and `save(state, best)` keeps the state, and the
    weights of the model where `best` is True; while either runs, the model holds the weights to
    keep (`Trainer.kept_weights`). Without `validate`, the latest weights count as the best.
    `should_stop` is asked between updates: the step under way is finished, the state saved, and a
    validation that was due comes first after resuming, so that the interruption changes no number.
    A state is saved at every best validation, every `save_every` updates (0: at every validation),
    and at the end. A run that has ended already is only reported.
    """
    run = _Run(trainer, validate, save, on_event or (lambda event: None))
    started = time.perf_counter()
    while True:
        stop = should_stop is not None and should_stop()
        if not stop and run.validation_is_due():
            run.validate_and_keep()
            stop = should_stop is not None and should_stop()
        reason = run.ended()
        if reason is None and stop:
            reason = "interrupted"
        if reason is not None:
            run.save(best=False)
            return _report(trainer, reason, time.perf_counter() - started)
        run.save_where_due()
        run.on_event(trainer.step())


class _Run(Generic[ModelT, BatchT]):
    """The callables of one call of `fit`, and which update was saved last."""

    def __init__(
        self,
        trainer: Trainer[ModelT, BatchT],
        validate: Validate | None,
        save: Save | None,
        on_event: Callable[[TrainingEvent], None],
    ) -> None:
        self.trainer, self._validate, self._save, self.on_event = trainer, validate, save, on_event
        self._saved_update = trainer.update if trainer.update else -1
        self._interval = validation_interval(
            trainer.settings, trainer.total_updates, trainer.updates_per_epoch
        )

    def validation_is_due(self) -> bool:
        update = self.trainer.update
        on_time = update > 0 and update % self._interval == 0
        due = on_time or update >= self.trainer.total_updates
        return due and self.trainer.selection.checked_update < update

    def validate_and_keep(self) -> None:
        """Validate, keep what is best, and save where it is, or where no other time is set."""
        trainer = self.trainer
        trainer.selection.checked_update = trainer.update
        best = True
        if self._validate is not None:
            best = self._compare(self._validate)
        self._saved_update = -1  # what was saved of this update does not know of the validation
        if best or not trainer.settings.save_every:
            self.save(best=best)

    def ended(self) -> Reason | None:
        trainer = self.trainer
        patience = trainer.settings.patience
        if trainer.update >= trainer.total_updates and not self.validation_is_due():
            return "finished"
        if patience and trainer.selection.num_without_better >= patience:
            return "stopped_early"
        return None

    def save_where_due(self) -> None:
        every, update = self.trainer.settings.save_every, self.trainer.update
        if every and update and update % every == 0:
            self.save(best=False)

    def save(self, *, best: bool) -> None:
        """Hand the state over, once for each update unless a validation has just changed it."""
        if self._save is None or self._saved_update == self.trainer.update:
            return
        state = self.trainer.state()
        with self.trainer.kept_weights():
            self._save(state, best)
        self._saved_update = self.trainer.update
        self.on_event(SavedEvent(self.trainer.update, best))

    def _compare(self, validate: Validate) -> bool:
        trainer = self.trainer
        started = time.perf_counter()
        with trainer.kept_weights():
            loss = validate()
        mark = Mark(trainer.update, loss.nats.item(), loss.count, trainer.smoothed_nats)
        best = trainer.selection.add(mark)
        trainer.consider_averaging()
        self.on_event(
            ValidationEvent(
                update=trainer.update,
                epoch=trainer.epoch,
                loss_nats=mark.loss_nats,
                num_tokens=mark.num_tokens,
                best=best,
                num_without_better=trainer.selection.num_without_better,
                training_nats=mark.training_nats,
                elapsed_seconds=time.perf_counter() - started,
            )
        )
        return best


def _report(trainer: Trainer[ModelT, BatchT], reason: Reason, elapsed_seconds: float) -> FitReport:
    best, last = trainer.selection.best, trainer.selection.last
    measured = last is not None and last.num_tokens > 0 and abs(last.loss_nats) < float("inf")
    return FitReport(
        reason=reason,
        updates=trainer.update,
        epoch=trainer.epoch,
        num_tokens=trainer.num_tokens,
        nonfinite_steps=trainer.nonfinite_steps,
        training_nats=trainer.smoothed_nats,
        best_update=None if best is None else best.update,
        best_nats=None if best is None else best.nats_per_token,
        last_update=None if last is None else last.update,
        last_nats=last.nats_per_token if last is not None and measured else None,
        overfitting=trainer.selection.overfitting(),
        elapsed_seconds=elapsed_seconds,
    )
