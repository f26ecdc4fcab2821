"""Tasks with a long lag, learnt by several models: trials that stop, go on, and are kept.

    trial = (task, model, length, seed)  →  updates until it is solved, at most `CAP`

Tasks: `first-token` (recall the first token), `copying`, `adding`. Every model has an embedding of
16 (adding reads numbers), 32 units, Adam at 0.003 and batches of 64, drawn anew for each update;
it is checked on the same 1,000 sequences every 100 updates. A finished trial is one file of a
folder, written whole or not at all, so that a queue may be stopped at any moment.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from elman.atomic_files import write_atomically
from elman.checkpoints.json_values import readable_json
from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.errors import RunError
from elman.recipes.lag_tasks import LAG_TASKS

LagTaskName = Literal["first-token", "copying", "adding"]
LagModelName = Literal["rnn", "lstm", "open-lstm", "gru", "mingru"]

CAP = 6000
"""No model gets more updates than this on any task or length."""
CHECK_EVERY = 100
EARLY = 600
"""Updates after which a short training would have ended."""
LENGTHS, FAR_LENGTHS = (10, 30, 50, 100), (300, 1000)
SEEDS, FAR_SEEDS = tuple(range(1, 11)), (1, 2, 3)

LAG_MODELS: Mapping[LagModelName, ModelSettings] = MappingProxyType(
    {
        "rnn": ModelSettings(kind="elman", embedding_size=16, hidden_size=32),
        "lstm": ModelSettings(kind="lstm", embedding_size=16, hidden_size=32, forget_bias=0.0),
        "open-lstm": ModelSettings(kind="lstm", embedding_size=16, hidden_size=32, forget_bias=3.0),
        "gru": ModelSettings(kind="gru", embedding_size=16, hidden_size=32),
        "mingru": ModelSettings(kind="mingru", embedding_size=16, hidden_size=32),
    }
)
"""Each name and its model. `lstm` begins with a forget bias of 0, `open-lstm` with 3."""


@dataclass(frozen=True)
class Trial:
    """One model on one task at one length, drawn by one seed."""

    task: LagTaskName
    model: LagModelName
    length: int
    seed: int

    @property
    def name(self) -> str:
        """What its file is called, without an ending."""
        return f"{self.task}_{self.model}_{self.length}_{self.seed}"


@dataclass(frozen=True)
class TrialResult:
    """What a trial came to.

    `checks` are pairs of updates and score on the held-out sequences; the score of first-token and
    copying is the share that is right, that of adding the mean squared error. `solved_at` is the
    first checked update that solves the task, None where `cap` came first.
    """

    trial: Trial
    cap: int
    solved_at: int | None
    checks: tuple[tuple[int, float], ...]
    elapsed_seconds: float

    def solved_within(self, updates: int) -> bool:
        """Whether it was solved by then."""
        return self.solved_at is not None and self.solved_at <= updates

    def score_at(self, updates: int) -> float:
        """Return the score of the last check by then: that of the solution where it came first."""
        return [score for update, score in self.checks if update <= updates][-1]


def lag_trials(
    tasks: Sequence[LagTaskName] = get_args(LagTaskName),
    models: Sequence[LagModelName] = get_args(LagModelName),
    lengths: Sequence[int] = LENGTHS + FAR_LENGTHS,
) -> Iterator[Trial]:
    """Yield the trials of these, short lengths first: ten seeds up to a length of 100, then three.

    Copying and adding are done with three seeds at every length.
    """
    for task in tasks:
        for length in lengths:
            few = length > max(LENGTHS) or task != "first-token"
            for model in models:
                for seed in FAR_SEEDS if few else SEEDS:
                    yield Trial(task, model, length, seed)


def run_trial(trial: Trial, *, cap: int = CAP) -> TrialResult:
    """Train until the task is solved on its held-out sequences, or for `cap` updates."""
    begun = time.perf_counter()
    settings = TrainingSettings(
        batch_size=64,
        optimizer="adam",
        learning_rate=3e-3,
        beta2=0.999,
        schedule="constant",
        warmup_updates=0,
        updates=cap,
        seed=trial.seed,
    )
    task = LAG_TASKS[trial.task]
    learner = task.begin(LAG_MODELS[trial.model], settings, trial.length)
    checks, solved_at = list[tuple[int, float]](), None
    for update in range(1, cap + 1):
        learner.learn_once()
        if update % CHECK_EVERY and update < cap:
            continue
        checks.append((update, learner.score()))
        if task.is_solved(checks[-1][1]):
            solved_at = update
            break
    return TrialResult(trial, cap, solved_at, tuple(checks), time.perf_counter() - begun)


def finish_trials(
    folder: Path,
    trials: Iterable[Trial],
    *,
    cap: int = CAP,
    seconds: float = float("inf"),
    on_begun: Callable[[Trial], None] = lambda trial: None,
) -> list[TrialResult]:
    """Run every trial that `folder` does not have, keep each, and return all that are finished.

    No trial is begun after `seconds`. A file of another cap is not counted: its trial runs again.
    Raises `RunError` where the disk refuses.
    """
    begun, found = time.perf_counter(), list[TrialResult]()
    folder.mkdir(parents=True, exist_ok=True)
    for trial in trials:
        result = read_trial(folder, trial, cap=cap)
        if result is None and time.perf_counter() - begun < seconds:
            on_begun(trial)
            result = run_trial(trial, cap=cap)
            text = readable_json(asdict(result), indent=1)
            write_atomically(folder / f"{trial.name}.json", text.encode())
        if result is not None:
            found.append(result)
    return found


def read_trial(folder: Path, trial: Trial, *, cap: int = CAP) -> TrialResult | None:
    """Return what `folder` has of `trial` under this cap, None where it has nothing.

    Raises `RunError` for a file that is no result of this trial.
    """
    path = folder / f"{trial.name}.json"
    if not path.exists():
        return None
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        checks = tuple((int(update), float(score)) for update, score in told["checks"])
        result = TrialResult(
            Trial(**told["trial"]),
            int(told["cap"]),
            None if told["solved_at"] is None else int(told["solved_at"]),
            checks,
            float(told["elapsed_seconds"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is no result of a trial", got=str(error)) from error
    if result.trial != trial:
        raise RunError(f"{path} is of another trial", got=result.trial.name, allowed=trial.name)
    return result if result.cap == cap else None
