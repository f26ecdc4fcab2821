import dataclasses

import pytest
import torch
from tiny_runs import assert_same_state, counting_clock, tiny_lines, tiny_model, tiny_stream

from elman.config.training_settings import TrainingSettings
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.training.budget import updates_for_budget
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

SETTINGS = TrainingSettings()


def one_nat() -> LossSum:
    return LossSum(torch.ones((), dtype=torch.float64), 1)


@pytest.mark.parametrize(
    ("every", "updates", "interval"), [(5, 791, 5), (0, 863, 10)], ids=["said", "left open"]
)
def test_updates_and_their_validations_fill_the_time_but_for_a_reserve(
    every: int, updates: int, interval: int
) -> None:
    """Each look at the clock takes a second: updates and validations cost 1 s, measuring 11 s.

    (1011 − 11) · 0.95 = 950 s hold 791 updates and a validation after each 5: 791 + 159. Left open
    they take 95 s at most: 863 updates and 87 after each 10 are 950, while 864 would want 10 as
    well and 87, which is one too many.
    """
    settings = dataclasses.replace(SETTINGS, evaluate_every=every)
    fitted = updates_for_budget(
        LanguageObjective(tiny_model(), settings),
        tiny_stream(91),
        settings,
        KernelPlan(),
        seconds_left=1011.0,
        validate=one_nat,
        clock=counting_clock(1.0),
    )
    wanted = (updates, interval, 1.0, 1.0, 11.0)
    assert dataclasses.astuple(fitted) == pytest.approx(wanted, rel=1e-12)


def test_lines_of_different_lengths_count_by_their_tokens() -> None:
    source = tiny_lines(400)
    fitted = updates_for_budget(
        LanguageObjective(tiny_model(), SETTINGS),
        source,
        SETTINGS,
        KernelPlan(),
        seconds_left=1000.0,
        clock=counting_clock(1.0),
    )
    per_token = sorted(1.0 / source.batch(0, index).num_targets for index in range(3, 6))[1]
    mean_tokens = source.num_targets / source.batches_per_epoch(0)
    assert fitted.update_seconds == pytest.approx(per_token * mean_tokens, rel=1e-12)
    assert fitted.validation_seconds == 0.0


def test_measuring_touches_neither_model_nor_generators_nor_position() -> None:
    def state(measure: bool) -> object:
        model, source, plan = tiny_model(dropout=0.5), tiny_lines(), KernelPlan()
        if measure:
            updates_for_budget(
                LanguageObjective(model, SETTINGS),
                source,
                SETTINGS,
                plan,
                seconds_left=0.5,
                validate=one_nat,
            )
        trainer = Trainer(
            LanguageObjective(model, SETTINGS), source, SETTINGS, plan, total_updates=5
        )
        for _ in range(5):
            trainer.step()
        return trainer.state()

    assert_same_state(state(True), state(False))  # type: ignore[arg-type]


def test_a_budget_too_short_for_anything_is_one_update() -> None:
    fitted = updates_for_budget(
        LanguageObjective(tiny_model(), SETTINGS),
        tiny_stream(),
        SETTINGS,
        KernelPlan(),
        seconds_left=2.0,
        clock=counting_clock(1.0),
    )
    assert fitted.updates == 1


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_without_time_or_without_end_is_refused(seconds: float) -> None:
    with pytest.raises(SettingError, match="time to train"):
        updates_for_budget(
            LanguageObjective(tiny_model(), SETTINGS),
            tiny_stream(),
            SETTINGS,
            KernelPlan(),
            seconds_left=seconds,
        )
