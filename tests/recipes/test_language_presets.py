"""Sizes by name: settings that agree with each other, beneath what a person sets."""

from pathlib import Path

import pytest

from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.errors import SettingError
from elman.recipes.language_model import LanguageTask
from elman.recipes.language_presets import CHARACTERS, WORDS
from elman.recipes.training_request import TrainRequest, merged_settings

SIZES = ("small", "medium", "large")


@pytest.mark.parametrize("level", ["char", "byte", "word", "bpe"])
@pytest.mark.parametrize("size", SIZES)
def test_every_size_is_a_setting_of_every_level_and_grows(level: str, size: str) -> None:
    def settings(name: str) -> Settings:
        request = TrainRequest(Path("run"), overrides=(f"text.level={level}",), preset=name)
        return merged_settings(LanguageTask(), request, ())

    found = settings(size).model
    assert found != Settings().model
    if size != "small":
        smaller = settings(SIZES[SIZES.index(size) - 1]).model
        assert found.hidden_size * found.num_layers > smaller.hidden_size * smaller.num_layers
    assert found.tie_weights == (level in ("word", "bpe"))


@pytest.mark.parametrize("presets", [WORDS, CHARACTERS], ids=["words", "characters"])
@pytest.mark.parametrize("size", SIZES)
def test_a_size_says_nothing_twice(presets, size: str) -> None:
    keys = [override.partition("=")[0] for override in presets[size]]
    assert len(keys) == len(set(keys))


def test_a_file_and_a_setting_are_laid_over_a_size() -> None:
    request = TrainRequest(
        Path("run"),
        config_text='[text]\nlevel = "word"\n[model]\nhidden_size = 48\n',
        overrides=("model.dropout=0.05",),
        preset="large",
    )
    settings = merged_settings(LanguageTask(), request, ("model.num_layers=9",))
    assert (settings.model.hidden_size, settings.model.dropout) == (48, 0.05)
    wanted = apply_overrides(Settings(), WORDS["large"]).model
    assert settings.model.num_layers == wanted.num_layers != 9


def test_another_name_is_refused() -> None:
    with pytest.raises(SettingError, match="no such preset; got huge; allowed: small, medium, lar"):
        LanguageTask().preset("huge", Settings())
