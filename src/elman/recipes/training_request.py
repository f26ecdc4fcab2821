"""What a person asked for, and the settings that it comes to: request → settings."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elman.config.checks import check_settings
from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides, settings_from_toml
from elman.recipes.task import BatchT, ModelT, PreparedT, Task


@dataclass(frozen=True)
class TrainRequest:
    """What a person asked for. `config_text` is TOML; `overrides` come after it.

    `preset` names settings of the task that lie beneath both, empty for none. `started` is the
    `time.monotonic` that `budget_seconds` counts from.
    """

    out: Path
    config_text: str = ""
    config_name: str = "the configuration"
    overrides: tuple[str, ...] = ()
    preset: str = ""
    budget_seconds: float | None = None
    started: float = 0.0


def suggestions_beneath(
    task: Task[PreparedT, ModelT, BatchT],
    request: TrainRequest,
    early: Settings,
    prepared: PreparedT,
) -> tuple[str, ...]:
    """Return sizes that fit the data; none beneath a settings file, which means what it says."""
    if not request.config_text:
        found = task.suggestions(early, prepared, budget_seconds=request.budget_seconds)
        return _without_other_rates(task, request, found)
    given = early.training.epochs or early.training.updates or request.budget_seconds is not None
    return () if given else ("training.epochs=10",)


def _without_other_rates(
    task: Task[Any, Any, Any], request: TrainRequest, suggestions: tuple[str, ...]
) -> tuple[str, ...]:
    """Return `suggestions` without a rate that is another optimiser's than the one asked for."""
    rate, optimizer = "training.learning_rate=", "training.optimizer="
    suggested = [one for one in suggestions if one.startswith(optimizer)]
    found = merged_settings(task, request, suggestions).training.optimizer
    if not suggested or suggested[-1] == f"{optimizer}{found}":
        return suggestions
    return tuple(one for one in suggestions if not one.startswith(rate))


def merged_settings(
    task: Task[Any, Any, Any], request: TrainRequest, suggestions: tuple[str, ...]
) -> Settings:
    """Return defaults, suggestions, the preset, the file, the overrides, in this order; checked."""

    def given(beneath: Settings) -> Settings:
        """Return what the file and the overrides make of the settings beneath them."""
        text, name = request.config_text, request.config_name
        return apply_overrides(settings_from_toml(text, name=name, base=beneath), request.overrides)

    settings = apply_overrides(task.base, suggestions)
    if request.preset:
        settings = apply_overrides(settings, task.preset(request.preset, given(task.base)))
    settings = given(settings)
    check_settings(settings)
    return replace(settings, data=task.lasting_names(settings.data))
