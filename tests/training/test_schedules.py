import dataclasses
import math

import pytest

from elman.config.training_settings import TrainingSettings
from elman.errors import SettingError
from elman.training.schedules import rate


def rates(settings: TrainingSettings, *, total: int, per_epoch: int = 1000) -> list[float]:
    return [
        rate(update, settings, total_updates=total, updates_per_epoch=per_epoch)
        for update in range(1, total + 1)
    ]


def schedule(kind: str, **changes: object) -> TrainingSettings:
    plain = TrainingSettings(learning_rate=1.0, warmup_updates=0)
    return dataclasses.replace(plain, schedule=kind, **changes)  # type: ignore[arg-type]


def test_warm_up_of_four_then_a_tenth_every_two_updates() -> None:
    settings = schedule("step", learning_rate=0.1, warmup_updates=4, step_every=2, step_factor=0.1)
    expected = [0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.01, 0.01]
    assert rates(settings, total=8) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("kind", ["cosine", "linear", "step", "constant"])
@pytest.mark.parametrize("unit", ["update", "epoch"])
@pytest.mark.parametrize("final", [0.0, 0.1])
@pytest.mark.parametrize("warmup", [0, 1, 4, 30])
def test_no_update_uses_rate_zero_and_none_is_above_the_peak(
    kind: str, unit: str, final: float, warmup: int
) -> None:
    settings = schedule(kind, schedule_unit=unit, final_rate=final, warmup_updates=warmup)
    found = rates(settings, total=20, per_epoch=6)
    assert min(found) > 0.0
    assert max(found) <= 1.0


def test_linear_falls_by_equal_steps_to_the_final_rate_at_the_last_update() -> None:
    assert rates(schedule("linear", final_rate=0.2), total=5) == pytest.approx(
        [1.0, 0.8, 0.6, 0.4, 0.2], rel=1e-15
    )


def test_cosine_reaches_the_final_rate_at_the_last_update() -> None:
    found = rates(schedule("cosine", final_rate=0.1, warmup_updates=2), total=6)
    quarter = 0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2
    three_quarters = 0.1 + 0.9 * (1 + math.cos(3 * math.pi / 4)) / 2
    assert found == pytest.approx([0.5, 1.0, quarter, 0.55, three_quarters, 0.1], rel=1e-15)


def test_a_final_rate_of_zero_is_reached_one_update_after_the_last() -> None:
    assert rates(schedule("linear"), total=4) == pytest.approx([1.0, 0.75, 0.5, 0.25], rel=1e-15)


def test_step_counts_from_the_first_update_without_a_warm_up() -> None:
    assert rates(schedule("step", step_every=3, step_factor=0.5), total=7) == [
        *[1.0] * 3,
        *[0.5] * 3,
        0.25,
    ]


def test_a_schedule_of_epochs_moves_once_an_epoch() -> None:
    step = schedule("step", schedule_unit="epoch", step_every=1, step_factor=0.25)
    assert rates(step, total=7, per_epoch=3) == [*[1.0] * 3, *[0.25] * 3, 0.0625]
    cosine = schedule("cosine", schedule_unit="epoch", final_rate=0.5)
    assert rates(cosine, total=6, per_epoch=2) == pytest.approx(
        [1.0, 1.0, 0.75, 0.75, 0.5, 0.5], rel=1e-15
    )


def test_the_warm_up_rises_by_update_also_where_the_schedule_counts_epochs() -> None:
    settings = schedule("constant", schedule_unit="epoch", warmup_updates=4)
    assert rates(settings, total=6, per_epoch=2) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("update", [0, 9])
def test_an_update_outside_the_run_is_refused(update: int) -> None:
    with pytest.raises(SettingError, match="one of the run"):
        rate(update, TrainingSettings(), total_updates=8, updates_per_epoch=4)
