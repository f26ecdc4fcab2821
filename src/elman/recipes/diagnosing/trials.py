"""Runs with and without one planted fault, and how many of them a diagnosis tells apart.

(condition, fault) → run → diagnosis: found or missed; without a fault: silent or a false alarm
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from elman.checkpoints.run_folder import is_finished
from elman.errors import SettingError
from elman.recipes.diagnosing import state_faults
from elman.recipes.diagnosing.diagnosis import diagnosis_of
from elman.recipes.diagnosing.evidence import Evidence, evidence_of
from elman.recipes.diagnosing.planting import (
    TRAINED,
    TRAINED_ON_WORDS,
    WEIGHTS,
    Planting,
    Texts,
    carrying_gate,
    deaf_to_lengths,
    lines_by_chance,
    mixing_rows,
    plant_in_state,
    plant_in_weights,
    plant_unfinished,
)
from elman.recipes.diagnosing.state_faults import LONG_LINE
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import start_run, train_run
from elman.recipes.training_request import TrainRequest

HEALTHY = "healthy"


class Condition(NamedTuple):
    """What every run of one condition has in common: its text, its settings, its seed."""

    name: str
    texts: Texts
    overrides: tuple[str, ...]
    seed: int


class Verdict(NamedTuple):
    """What was planted in which condition, and what the diagnosis found."""

    condition: str
    planted: str
    found: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether the planted fault is among those found, or nothing is where none was planted."""
        return self.planted in self.found if self.planted != HEALTHY else not self.found


def faults_for(condition: Condition) -> list[str]:
    """Return what can be planted in a condition."""
    options = dict(one.partition("=")[::2] for one in condition.overrides)
    kind, is_stream = options.get("model.kind", "lstm"), options.get("text.unit") != "line"
    found = [HEALTHY, "unfinished", "padding-leaks", "neighbours-leak", *TRAINED, *WEIGHTS]
    if not carrying_gate(kind)[0]:
        found.remove("closed-forget-gates")
    if kind in ("mingru", "minlstm"):
        found.remove("exploding-reach")
    if options.get("model.tie_weights") == "true":
        found.remove("overconfident")
    if is_stream:
        found.append("broken-state")
        lengths = sorted(map(len, condition.texts.valid.splitlines())) or [0]
        has_lines = lengths[len(lengths) // 2] < LONG_LINE
        if options.get("text.level", "char") in ("char", "byte") and has_lines:
            found.append("state-across-lines")
    else:
        found.remove("window-too-short")
    return found


def verdicts(
    condition: Condition, folder: Path, faults: Iterable[str] | None = None
) -> Iterator[Verdict]:
    """Yield what the diagnosis says of each fault planted in a condition, and of none.

    Runs lie in `folder` by condition and fault; one that is there and finished is used again.
    """
    for fault in faults_for(condition) if faults is None else faults:
        yield Verdict(condition.name, fault, found_in(condition, fault, folder))


def found_in(condition: Condition, fault: str, folder: Path) -> tuple[str, ...]:
    """Return the names of what is found where `fault` was planted in a condition."""
    place = folder / condition.name
    healthy = place / HEALTHY
    if not is_finished(healthy):
        shutil.rmtree(healthy, ignore_errors=True)
        _train(condition, Planting(), healthy)
    if fault == HEALTHY:
        return diagnosis_of(healthy).names
    if fault in ("padding-leaks", "neighbours-leak"):
        return _found_in_model(evidence_of(healthy), fault)
    run = place / fault
    if not is_finished(run):
        shutil.rmtree(run, ignore_errors=True)
        _plant(condition, fault, healthy, run)
    return diagnosis_of(run).names


def _plant(condition: Condition, fault: str, healthy: Path, run: Path) -> None:
    if fault == "state-across-lines":
        texts = [lines_by_chance(text, condition.seed) for text in condition.texts]
        _train(condition._replace(texts=Texts(*texts)), Planting(), run)
    elif fault in TRAINED:
        words = "text.level=word" in condition.overrides
        plantings = {**TRAINED, **(TRAINED_ON_WORDS if words else {})}
        _train(condition, plantings[fault], run)
    else:
        shutil.copytree(healthy, run)
        if fault == "unfinished":
            plant_unfinished(run)
        elif fault == "broken-state":
            plant_in_state(run)
        else:
            plant_in_weights(run, fault)


def _found_in_model(evidence: Evidence, fault: str) -> tuple[str, ...]:
    """Return what is found where the model itself mixes what it must not."""
    if evidence.passages is None:
        raise SettingError("the model of this condition cannot be run")
    planting = deaf_to_lengths if fault == "padding-leaks" else mixing_rows
    handle = planting(evidence.passages.model)
    asked = state_faults.padding_leaks(evidence), state_faults.neighbours_leak(evidence)
    handle.remove()
    return tuple(found.name for found in asked if found is not None)


def _train(condition: Condition, planting: Planting, out: Path) -> None:
    texts = planting.text(condition.texts)
    out.parent.mkdir(parents=True, exist_ok=True)
    named = {}
    for part, text in texts._asdict().items():
        path = out.parent / f"{out.name}.{part}.txt"
        path.write_text(text, encoding="utf-8")
        named[part] = path
    overrides = (
        *(f'data.{part}=["{path}"]' for part, path in named.items()),
        "data.test_fraction=0",
        f"training.seed={condition.seed}",
        *condition.overrides,
        *planting.overrides,
    )
    train_run(start_run(LanguageTask(), TrainRequest(out, overrides=overrides)))
