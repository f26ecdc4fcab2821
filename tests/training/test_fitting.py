import dataclasses
import math

import torch
from tiny_runs import tiny_model, tiny_stream, tiny_trainer

from elman.config.training_settings import TrainingSettings
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.training.events import SavedEvent, TrainingEvent, UpdateEvent, ValidationEvent
from elman.training.fitting import fit
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
from elman.training.trainer_state import TrainerState

SETTINGS = TrainingSettings(learning_rate=1e-3, warmup_updates=0)


class Run:
    """A fit whose validation losses are given, and everything that it told and saved."""

    def __init__(
        self,
        settings: TrainingSettings,
        losses: list[float],
        *,
        total_updates: int = 12,
        stop_at: int | None = None,
    ) -> None:
        self.trainer = tiny_trainer(tiny_stream(91), settings, total_updates=total_updates)
        self.losses = iter(losses)
        self.saved: list[tuple[int, bool]] = []
        self.events: list[TrainingEvent] = []
        self.report = fit(
            self.trainer,
            validate=self.validate if losses else None,
            save=self.save,
            on_event=self.events.append,
            should_stop=lambda: self.trainer.update == stop_at,
        )

    def validate(self) -> LossSum:
        return LossSum(torch.tensor(next(self.losses) * 10, dtype=torch.float64), 10)

    def save(self, state: TrainerState, best: bool) -> None:
        assert state.facts["update"] == self.trainer.update
        self.saved.append((self.trainer.update, best))

    def validated(self) -> list[int]:
        return [event.update for event in self.events if isinstance(event, ValidationEvent)]


def test_a_finished_run_makes_every_update_and_keeps_the_best() -> None:
    settings = dataclasses.replace(SETTINGS, evaluate_every=5)
    run = Run(settings, [3.0, 2.0, 2.5])
    assert run.report.reason == "finished"
    assert run.validated() == [5, 10, 12], "the last update is validated besides"
    assert run.saved == [(5, True), (10, True), (12, False)]
    assert (run.report.best_update, run.report.best_nats) == (10, 2.0)
    assert (run.report.last_update, run.report.last_nats) == (12, 2.5)
    assert (run.report.updates, run.report.epoch, run.report.num_tokens) == (12, 3, 12 * 18)
    updates = [event.update for event in run.events if isinstance(event, UpdateEvent)]
    assert updates == list(range(1, 13))


def test_zero_means_once_an_epoch_but_at_least_ten_times_a_run() -> None:
    assert len(Run(SETTINGS, [1.0] * 40, total_updates=40).validated()) == 10
    assert Run(SETTINGS, [1.0] * 40, total_updates=60).validated() == list(range(5, 61, 5))
    assert Run(SETTINGS, [1.0] * 40, total_updates=3).validated() == [1, 2, 3]


def test_patience_stops_a_run_that_gets_no_better() -> None:
    settings = dataclasses.replace(SETTINGS, evaluate_every=1, patience=2)
    run = Run(settings, [3.0, 2.0, 2.5, 1.0, 1.0, math.nan, 0.5])
    assert run.report.reason == "stopped_early"
    assert run.report.updates == 6
    assert (run.report.best_update, run.report.best_nats) == (4, 1.0)
    assert run.report.last_nats is None, "what is not finite is null"
    again = fit(run.trainer)
    assert (again.reason, again.updates) == ("stopped_early", 6)


def test_an_interruption_finishes_the_step_saves_and_leaves_the_validation_for_later() -> None:
    settings = dataclasses.replace(SETTINGS, evaluate_every=7, save_every=1000)
    run = Run(settings, [1.0], stop_at=7)
    assert run.report.reason == "interrupted"
    assert run.report.updates == 7
    assert run.saved == [(7, False)]
    assert run.validated() == []


def test_an_interruption_before_the_first_update_saves_the_start() -> None:
    run = Run(SETTINGS, [1.0], stop_at=0)
    assert (run.report.reason, run.report.updates, run.saved) == ("interrupted", 0, [(0, False)])


def test_states_are_saved_as_often_as_asked_and_at_every_best_validation() -> None:
    settings = dataclasses.replace(SETTINGS, evaluate_every=3, save_every=2)
    run = Run(settings, [2.0, 3.0, 1.0, 4.0])
    assert run.saved == [(update, update in (3, 9)) for update in (2, 3, 4, 6, 8, 9, 10, 12)]
    saved = [(event.update, event.best) for event in run.events if isinstance(event, SavedEvent)]
    assert saved == run.saved


def test_without_validation_the_latest_weights_are_the_best() -> None:
    settings = dataclasses.replace(SETTINGS, evaluate_every=5)
    run = Run(settings, [])
    assert run.saved == [(5, True), (10, True), (12, True)]
    assert run.report.best_nats is None
    assert run.report.overfitting is None


def test_validation_and_saving_see_the_average_and_training_goes_on_with_the_weights() -> None:
    settings = dataclasses.replace(SETTINGS, evaluate_every=3, average_decay=0.9)
    model = tiny_model()
    trainer = Trainer(
        LanguageObjective(model, settings), tiny_stream(91), settings, KernelPlan(), total_updates=6
    )
    seen: list[torch.Tensor] = []
    states: list[TrainerState] = []

    def validate() -> LossSum:
        seen.append(model.readout.bias.data.clone())
        return LossSum(torch.tensor(1.0 / len(seen), dtype=torch.float64), 1)

    def save(state: TrainerState, best: bool) -> None:
        assert best
        seen.append(model.readout.bias.data.clone())
        states.append(state)

    fit(trainer, validate=validate, save=save)
    assert len(seen) == 4
    for place, state in enumerate(states):
        average, weights = (state.tensors[f"{part}.readout.bias"] for part in ("average", "model"))
        assert torch.equal(seen[2 * place], average)
        assert torch.equal(seen[2 * place + 1], average)
        assert not torch.equal(average, weights)
    assert torch.equal(model.readout.bias.data, states[-1].tensors["model.readout.bias"])


def test_a_model_that_learns_its_few_lines_by_heart_is_told_to_overfit() -> None:
    settings = TrainingSettings(learning_rate=0.05, warmup_updates=0, schedule="constant")
    trainer = tiny_trainer(tiny_stream(40), settings, total_updates=120)
    losses = iter([2.0, *[1.0 + 0.01 * n for n in range(200)]])
    report = fit(
        trainer,
        validate=lambda: LossSum(torch.tensor(next(losses), dtype=torch.float64), 1),
    )
    assert report.overfitting is not None
    assert "validation loss rose from 1.0000" in report.overfitting
    assert report.to_json()["overfitting"] == report.overfitting


def test_events_hold_null_for_what_is_not_finite() -> None:
    event = UpdateEvent(3, 1, math.nan, 4, None, 0.1, math.inf, True, 1, 0.5)
    facts = event.to_json()
    assert facts["loss_nats"] is None
    assert facts["gradient_norm"] is None
    assert (facts["event"], facts["skipped"], facts["tokens_per_second"]) == ("update", True, 8.0)


def test_a_validation_made_up_for_after_an_interruption_is_saved() -> None:
    settings = dataclasses.replace(SETTINGS, evaluate_every=12, save_every=1000)
    run = Run(settings, [1.0], stop_at=12)
    assert run.saved == [(12, False)]
    report = fit(run.trainer, validate=run.validate, save=run.save)
    assert (report.reason, report.best_update) == ("finished", 12)
    assert run.saved == [(12, False), (12, True)]
