import dataclasses
import json
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from tiny_runs import (
    assert_same_state,
    tiny_lines,
    tiny_model,
    tiny_stream,
    tiny_trainer,
)

from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource, TokenBatch
from elman.data.lines import LineBatches
from elman.errors import RunError
from elman.evaluation.language import validation_loss
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.training.events import TrainingEvent, UpdateEvent
from elman.training.fitting import fit
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
from elman.training.trainer_state import TrainerState

NUM_UPDATES = 12


def through_files(state: TrainerState) -> TrainerState:
    """The state as another process would read it: bytes of safetensors and strict JSON."""
    facts: dict[str, Any] = json.loads(json.dumps(state.facts, allow_nan=False))
    return TrainerState(load(save(state.tensors)), facts)


def without_times(event: TrainingEvent) -> dict[str, object]:
    left_out = ("elapsed_seconds", "tokens_per_second")
    return {name: value for name, value in event.to_json().items() if name not in left_out}


def source_of(kind: str) -> BatchSource:
    return tiny_stream() if kind == "stream" else tiny_lines()


@pytest.mark.parametrize("source", ["stream", "line"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_run_cut_anywhere_goes_on_to_the_same_bits(source: str, optimizer: str) -> None:
    settings = TrainingSettings(
        optimizer=optimizer,  # type: ignore[arg-type]
        momentum=0.9 if optimizer == "sgd" else 0.0,
        average_decay=0.9,
        warmup_updates=3,
        evaluate_every=2,
        clip_norm=0.5,
    )

    def start() -> Trainer:
        return tiny_trainer(source_of(source), settings, dropout=0.3, total_updates=NUM_UPDATES)

    whole = start()
    states, events = [through_files(whole.state())], []
    for _ in range(NUM_UPDATES):
        events.append(without_times(whole.step()))
        states.append(through_files(whole.state()))
    for cut in range(NUM_UPDATES):
        resumed = start()
        resumed.step()  # whatever was there before is replaced
        resumed.restore(states[cut])
        assert_same_state(resumed.state(), states[cut])
        later = [without_times(resumed.step()) for _ in range(NUM_UPDATES - cut)]
        assert later == events[cut:], f"cut after {cut} updates"
        assert_same_state(resumed.state(), states[-1])


@pytest.mark.parametrize("kind", ["elman", "gru"])
def test_the_states_of_other_cells_are_carried_through_a_file_too(kind: str) -> None:
    whole = tiny_trainer(tiny_stream(), TrainingSettings(), kind=kind)
    whole.step()
    resumed = tiny_trainer(tiny_stream(), TrainingSettings(), kind=kind)
    resumed.restore(through_files(whole.state()))
    for _ in range(3):
        assert without_times(whole.step()) == without_times(resumed.step())


@pytest.mark.parametrize("cut", range(1, NUM_UPDATES))
def test_an_interrupted_fit_validates_chooses_and_ends_as_an_uninterrupted_one(cut: int) -> None:
    settings = TrainingSettings(average_decay=0.8, evaluate_every=2, patience=3, learning_rate=0.3)
    held_out = tiny_stream(40, batch_size=1, window=10)

    def run(
        state: TrainerState | None, stop_at: int | None
    ) -> tuple[list[dict[str, object]], TrainerState, str]:
        trainer = tiny_trainer(tiny_stream(), settings, dropout=0.3, total_updates=NUM_UPDATES)
        if state is not None:
            trainer.restore(through_files(state))
        events: list[dict[str, object]] = []
        saved: list[TrainerState] = []
        report = fit(
            trainer,
            validate=lambda: validation_loss(trainer.model, held_out, plan=trainer.plan),
            save=lambda state, best: saved.append(state),
            on_event=lambda event: events.append(without_times(event)),
            should_stop=lambda: trainer.update == stop_at,
        )
        return events, saved[-1], report.reason

    events, last, reason = run(None, None)
    assert any(event["event"] == "validation" for event in events)
    num_updates = last.facts["update"]
    first_events, first_state, first_reason = run(None, cut)
    if cut >= int(str(num_updates)):
        pytest.skip("the uninterrupted run stops early before this cut")
    assert (first_reason, first_state.facts["update"]) == ("interrupted", cut)
    later_events, later_state, later_reason = run(first_state, None)
    assert later_reason == reason

    def measured(found: list[dict[str, object]]) -> list[dict[str, object]]:
        return [event for event in found if event["event"] != "saved"]

    assert measured(first_events) + measured(later_events) == measured(events)
    assert_same_state(later_state, last)


class Recorded(LineBatches):
    """Lines that remember which of them were asked for."""

    def batch(self, epoch: int, index: int) -> TokenBatch:
        self.read.setdefault(epoch, []).append(self.line_numbers(epoch, index).tolist())
        return super().batch(epoch, index)

    read: dict[int, list[list[int]]]


def recorded_lines() -> Recorded:
    plain = tiny_lines(20, batch_size=2)
    source = Recorded(plain.lines, batch_size=2, boundary_id=1, pad_id=0, seed=1, order="shuffled")
    source.read = {}
    return source


def test_resuming_in_an_epoch_reads_each_line_once_and_shuffles_the_next_anew() -> None:
    settings = TrainingSettings()
    whole_source, first_source, second_source = (recorded_lines() for _ in range(3))
    whole = tiny_trainer(whole_source, settings, total_updates=30)
    for _ in range(30):
        whole.step()
    first = tiny_trainer(first_source, settings, total_updates=30)
    for _ in range(13):
        first.step()
    second = tiny_trainer(second_source, settings, total_updates=30)
    second.restore(through_files(first.state()))
    for _ in range(17):
        second.step()
    assert second_source.read[1] == whole_source.read[1][3:]
    both = first_source.read[1] + second_source.read[1]
    assert sorted(number for batch in both for number in batch) == list(range(20))
    assert second_source.read[2] == whole_source.read[2]
    assert whole_source.read[2] != whole_source.read[0]


def test_validating_and_sampling_at_every_update_changes_no_bit_of_the_training() -> None:
    settings = TrainingSettings(evaluate_every=1)

    def final(disturb: bool) -> TrainerState:
        trainer = tiny_trainer(tiny_stream(), settings, dropout=0.5, total_updates=10)
        model = trainer.model

        def validate() -> LossSum:
            torch.rand(3)
            draw = torch.Generator().manual_seed(1)
            held_out = tiny_stream(30, batch_size=1, window=30)
            with torch.no_grad():
                model(torch.tensor([[1, 2]]), plan=trainer.plan, generator=draw)
            return validation_loss(model, held_out, plan=trainer.plan)

        mode = model.training
        fit(trainer, validate=validate if disturb else None)
        assert model.training == mode
        return trainer.state()

    disturbed, plain = final(True), final(False)
    for name, tensor in plain.tensors.items():
        assert torch.equal(tensor, disturbed.tensors[name]), name


def state_after_one() -> TrainerState:
    trainer = tiny_trainer(tiny_stream(), TrainingSettings(average_decay=0.5))
    trainer.step()
    return trainer.state()


def test_a_state_of_another_optimiser_model_or_format_is_refused() -> None:
    state = state_after_one()
    averaged = TrainingSettings(average_decay=0.5)
    other = dataclasses.replace(averaged, optimizer="adam")
    with pytest.raises(RunError, match="optimiser it was trained with"):
        tiny_trainer(tiny_stream(), other).restore(state)
    with pytest.raises(RunError, match="moving average"):
        tiny_trainer(tiny_stream(), TrainingSettings()).restore(state)
    with pytest.raises(RunError, match="does not fit the model"):
        tiny_trainer(tiny_stream(), averaged, kind="gru").restore(state)
    older = TrainerState(state.tensors, {**state.facts, "format": 1})
    with pytest.raises(RunError, match="format"):
        tiny_trainer(tiny_stream(), averaged).restore(older)


@pytest.mark.parametrize(
    "missing",
    ["carried.3", "generator.dropout", "average.readout.bias", "optimiser.readout.bias.step"],
)
def test_a_state_with_a_part_missing_is_refused(missing: str) -> None:
    state = state_after_one()
    tensors = {name: tensor for name, tensor in state.tensors.items() if name != missing}
    with pytest.raises(RunError, match="all of its tensors"):
        tiny_trainer(tiny_stream(), TrainingSettings(average_decay=0.5)).restore(
            TrainerState(tensors, state.facts)
        )


def test_the_saved_state_is_a_copy_that_later_updates_leave_alone() -> None:
    model = tiny_model()
    trainer = Trainer(
        LanguageObjective(model, TrainingSettings()),
        tiny_stream(),
        TrainingSettings(),
        KernelPlan(),
        total_updates=12,
    )
    trainer.step()
    state = trainer.state()
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    event = trainer.step()
    assert isinstance(event, UpdateEvent)
    for name, tensor in before.items():
        assert torch.equal(tensor, state.tensors[name]), name
