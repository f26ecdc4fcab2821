"""Trials on tasks with a long lag: each ends solved or at the cap, and none is made twice."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elman.config.training_settings import TrainingSettings
from elman.data.adding import adding_batch
from elman.errors import RunError
from elman.kernels.dispatch import KernelPlan
from elman.models.classifier import SequenceClassifier
from elman.recipes import long_lags
from elman.recipes.lag_tasks import HELD_OUT_SEED, LAG_TASKS, NUM_HELD_OUT, SumObjective
from elman.recipes.long_lags import LAG_MODELS, Trial, TrialResult, finish_trials, lag_trials
from elman.seeding import generator

SHORT = Trial("first-token", "gru", 2, 1)


@pytest.mark.parametrize("task", LAG_TASKS)
@pytest.mark.parametrize("model", LAG_MODELS)
def test_every_model_makes_an_update_on_every_task_and_has_a_score(task: str, model: str) -> None:
    trial = Trial(task, model, 6, 1)  # type: ignore[arg-type]
    first, second = (long_lags.run_trial(trial, cap=1) for _ in range(2))
    assert first.checks == second.checks
    assert [update for update, _ in first.checks] == [1]
    assert 0.0 <= first.checks[0][1] <= 4.0
    assert first.solved_at is None


def test_an_untrained_model_scores_near_chance() -> None:
    for task, near in (("first-token", 0.1), ("copying", 0.05)):
        settings = TrainingSettings(batch_size=2, updates=1, seed=1)
        learner = LAG_TASKS[task].begin(LAG_MODELS["open-lstm"], settings, 50)
        assert learner.score() == pytest.approx(LAG_TASKS[task].chance, abs=near)


def test_the_error_of_adding_is_the_mean_square_on_the_same_held_out_rows() -> None:
    model = LAG_MODELS["gru"]
    settings = TrainingSettings(batch_size=2, updates=1, seed=3)
    score = LAG_TASKS["adding"].begin(model, settings, 9).score()
    rows = adding_batch(NUM_HELD_OUT, 9, np.random.default_rng(HELD_OUT_SEED))
    answers: list[np.ndarray] = []

    class Spy(SequenceClassifier):
        def forward(self, *given: object, **named: object) -> torch.Tensor:
            found: torch.Tensor = super().forward(*given, **named)  # type: ignore[arg-type]
            answers.append(found.double().numpy()[:, 0])
            return found

    spy = Spy(replace(model, input="series"), 2, 1, generator(3, "initialisation"))
    with torch.no_grad():
        SumObjective(spy).loss(rows, None, plan=KernelPlan(), generator=generator(1, "dropout"))
    expected = ((answers[0] - rows.sums_B.double().numpy()) ** 2).mean()
    assert score == pytest.approx(expected, rel=1e-5)


def test_an_easy_task_is_solved_and_the_trial_ends_there() -> None:
    result = long_lags.run_trial(SHORT, cap=1000)
    assert result.solved_at is not None
    assert result.checks[-1] == (result.solved_at, 1.0)
    assert all(score < 1.0 for _, score in result.checks[:-1])
    assert result.solved_within(result.solved_at)
    assert not result.solved_within(result.solved_at - 1)


def test_the_score_at_an_update_is_that_of_the_last_check_by_then() -> None:
    result = TrialResult(SHORT, 300, None, ((100, 0.5), (200, 0.6), (300, 0.7)), 1.0)
    assert [result.score_at(update) for update in (100, 199, 200, 900)] == [0.5, 0.5, 0.6, 0.7]


def test_a_queue_that_was_stopped_goes_on_and_makes_no_trial_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Trial] = []

    def run(trial: Trial, *, cap: int) -> TrialResult:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(trial)
        return TrialResult(trial, cap, 100, ((100, 1.0),), 0.5)

    monkeypatch.setattr(long_lags, "run_trial", run)
    trials = [Trial("first-token", "rnn", 10, seed) for seed in (1, 2, 3)]
    with pytest.raises(KeyboardInterrupt):
        finish_trials(tmp_path, trials, cap=200)
    assert made == trials[:2]
    made.clear()
    found = finish_trials(tmp_path, trials, cap=200)
    assert made == trials[2:]
    assert [result.trial for result in found] == trials
    assert not list(tmp_path.glob("*.tmp"))
    assert finish_trials(tmp_path, trials, cap=200) == found
    made.clear()
    assert finish_trials(tmp_path, trials, cap=300, seconds=0.0) == []  # of another cap
    assert not made


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / f"{SHORT.name}.json"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(RunError, match=path.name):
        finish_trials(tmp_path, [SHORT], seconds=0.0)
    told = {"trial": {"task": "adding", "model": "gru", "length": 2, "seed": 1}, "cap": 6000}
    told |= {"solved_at": None, "checks": [], "elapsed_seconds": 1.0}
    path.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(RunError, match="of another trial"):
        finish_trials(tmp_path, [SHORT], seconds=0.0)


def test_there_are_ten_seeds_up_to_a_hundred_and_three_beyond() -> None:
    trials = list(lag_trials(tasks=("first-token",), models=("rnn",)))
    counts = {length: sum(one.length == length for one in trials) for length in (10, 100, 300)}
    assert counts == {10: 10, 100: 10, 300: 3}
    assert len(set(lag_trials())) == len(list(lag_trials()))
    assert all(LAG_MODELS[trial.model] for trial in lag_trials())
