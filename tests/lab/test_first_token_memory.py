"""The memory task: what trials came to is told as it is, claim by claim."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from elman.recipes.lab import first_token_memory
from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.first_token_memory import MEMORY_TASK
from elman.recipes.long_lags import CAP, LENGTHS, SEEDS, Trial, TrialResult


def told(monkeypatch: pytest.MonkeyPatch, solved: dict[tuple[str, int], int]) -> dict[str, str]:
    """Verdicts where each model solves each length at these updates, or never."""

    def finish(folder: Path, trials: Iterable[Trial]) -> list[TrialResult]:
        found = []
        for trial in trials:
            at = solved.get((trial.model, trial.length))
            checks = ((100, 0.5), (CAP, 0.5)) if at is None else ((100, 0.5), (at, 1.0))
            found.append(TrialResult(trial, CAP, at, checks, 1.0))
        assert len(found) == 3 * len(LENGTHS) * len(SEEDS)
        return found

    monkeypatch.setattr(first_token_memory, "finish_trials", finish)
    return {one.claim.name: one.verdict for one in run_experiments([MEMORY_TASK]).findings}


AS_CLAIMED = {
    ("rnn", 10): 200,
    ("lstm", 10): 200,
    **{("open-lstm", length): 10 * length + 100 for length in LENGTHS},
}


def test_what_the_document_found_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, AS_CLAIMED)
    assert set(found) == {"002-23", "002-24", "002-25", "002-30", "002-31"}
    assert set(found.values()) == {"holds"}


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        ({("rnn", 10): None}, "002-23"),
        ({("rnn", 30): 500}, "002-24"),
        ({("rnn", 100): 500}, "002-25"),
        ({("lstm", 50): 500}, "002-30"),
        ({("lstm", 10): None}, "002-30"),
        ({("open-lstm", 100): None}, "002-31"),
    ],
)
def test_what_it_did_not_find_differs(
    monkeypatch: pytest.MonkeyPatch, changed: dict[tuple[str, int], int], claim: str
) -> None:
    found = told(monkeypatch, AS_CLAIMED | changed)
    assert [name for name in found if found[name] == "differs"] == [claim]


def test_a_late_solution_is_no_early_one(monkeypatch: pytest.MonkeyPatch) -> None:
    late = {("rnn", length): 3000 for length in (30, 50, 100)}
    assert set(told(monkeypatch, AS_CLAIMED | late).values()) == {"holds"}
