"""Sizes by the time there is: what would hardly move is made smaller."""

import pytest

from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.recipes.sizing import LONG_TIME, TRANSFORMER_RATE, suggested_settings


def suggested(budget_seconds: float | None, *overrides: str) -> Settings:
    """What is suggested for a million characters."""
    early = apply_overrides(Settings(), overrides)
    found = suggested_settings(early, 1_000_000, budget_seconds=budget_seconds)
    return apply_overrides(early, found)


def test_a_transformer_is_small_where_there_is_little_time() -> None:
    kind = "model.kind=transformer"
    brief, long = suggested(600, kind), suggested(LONG_TIME, kind)
    assert (brief.model.hidden_size, long.model.hidden_size) == (128, 256)
    assert brief.training.batch_size * brief.training.window < (
        long.training.batch_size * long.training.window
    )
    assert (brief.training.optimizer, brief.training.learning_rate) == ("adamw", TRANSFORMER_RATE)
    assert long.training.optimizer == Settings().training.optimizer
    assert suggested(None, kind).model == long.model


@pytest.mark.parametrize("asked", ["training.optimizer=sgd", "training.learning_rate=0.5"])
def test_what_a_person_says_of_the_optimiser_is_kept(asked: str) -> None:
    found = suggested(600, "model.kind=transformer", asked).training
    key, _, value = asked.partition("=")
    assert str(getattr(found, key.removeprefix("training."))) == value
