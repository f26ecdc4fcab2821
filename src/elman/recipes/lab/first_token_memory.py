"""The memory task: can a model tell at the end which token came first?

    score = right answers / 1,000 held-out sequences;   solved: a score of 1

The trials are those of `elman.recipes.long_lags`, kept one by one in a folder under the working
folder: what is there is read, what is missing is made, so that the hours may be cut at any moment.
Every model has the same cap on updates, and stops where it has solved the task.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

import numpy as np

from elman.data.first_token import first_token_batch
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lag_tasks import HELD_OUT_SEED, LAG_TASKS, NUM_HELD_OUT
from elman.recipes.long_lags import (
    CAP,
    EARLY,
    LENGTHS,
    LagModelName,
    LagTaskName,
    TrialResult,
    finish_trials,
    lag_trials,
    read_trial,
)
from elman.recipes.panels import draw_panels

_FOLDER = Path("lab-results") / "long-lags"
_CLAIMED: Sequence[LagModelName] = ("rnn", "lstm", "open-lstm")
_LOOKS: Mapping[LagModelName, tuple[str, str]] = MappingProxyType(
    {
        "rnn": ("tanh network", "tab:blue"),
        "lstm": ("LSTM, forget bias 0", "tab:orange"),
        "open-lstm": ("LSTM, forget bias 3", "tab:green"),
        "gru": ("GRU", "tab:purple"),
        "mingru": ("minGRU", "tab:brown"),
    }
)
_FAR_TASKS: Sequence[LagTaskName] = ("copying", "adding")

_Results = Mapping[tuple[LagModelName, int], Sequence[TrialResult]]


def _run_data() -> Iterator[Measured]:
    """Yield what the sequences and their labels are."""
    batch = first_token_batch(NUM_HELD_OUT, 30, np.random.default_rng(HELD_OUT_SEED))
    count, share = batch.num_targets, batch.labels_BC[:, 1].mean().item()
    near = abs(share - LAG_TASKS["first-token"].chance) < 4 * 0.5 / count**0.5
    told = f"held-out sequences, worth of one, and whether half begin with 1 ({share:.3f})"
    yield Measured("002-21", [count, 1 / count, near], told)
    firsts, labels = batch.inputs[:, 0], batch.labels_BC.argmax(dim=1)
    both = [[first, label] for first, label in zip(firsts.tolist(), labels.tolist(), strict=True)]
    examples = [both[firsts.tolist().index(clue)] for clue in (0, 1)]
    agree = all(first == label for first, label in both)
    yield Measured("002-22", [*examples, agree], "first token and label of one of each, and all")


def _run() -> Iterator[Measured]:
    """Yield how many of ten seeds solve the task at each length, within the cap and early."""
    trials = lag_trials(("first-token",), _CLAIMED, LENGTHS)
    results = _grouped(finish_trials(_FOLDER, trials))
    capped, early = _solved(results, CAP), _solved(results, EARLY)
    how = f"seeds of ten right on all {NUM_HELD_OUT:,} held-out sequences"
    within = f"{how} within {CAP:,} updates; {{}}"
    short = f"{how} at {EARLY} updates, {{}} within {CAP:,}; {{}}"
    told = _told(results, "rnn", [10])
    yield Measured("002-23", capped["rnn", 10], within.format(told), _by_seed(results, "rnn", [10]))
    for claim, lengths in (("002-24", [30]), ("002-25", [50, 100])):
        late = sum(capped["rnn", length] for length in lengths)
        value = sum(early["rnn", length] for length in lengths)
        told = short.format(late, _told(results, "rnn", lengths))
        yield Measured(claim, value, told, _by_seed(results, "rnn", lengths))
    beyond = [length for length in LENGTHS if length > 10]
    ever = [capped["lstm", length] for length in beyond]
    few = all(early["lstm", length] <= 1 for length in beyond)
    told = short.format(ever, _told(results, "lstm", LENGTHS))
    solved = capped["lstm", 10] == len(results["lstm", 10])
    yield Measured("002-30", [solved, few], told, _by_seed(results, "lstm", LENGTHS))
    told = within.format(_told(results, "open-lstm", LENGTHS))
    counts = [capped["open-lstm", length] for length in LENGTHS]
    yield Measured("002-31", counts, told, _by_seed(results, "open-lstm", LENGTHS))


def _grouped(results: Sequence[TrialResult]) -> _Results:
    found: dict[tuple[LagModelName, int], list[TrialResult]] = defaultdict(list)
    for result in results:
        found[result.trial.model, result.trial.length].append(result)
    return found


def _solved(results: _Results, updates: int) -> Mapping[tuple[LagModelName, int], int]:
    return {
        key: sum(result.solved_within(updates) for result in group)
        for key, group in results.items()
    }


def _told(results: _Results, model: LagModelName, lengths: Sequence[int]) -> str:
    """Return the updates to a solution and the scores early on, length by length."""
    parts = []
    for length in lengths:
        group = results[model, length]
        updates = [result.solved_at for result in group if result.solved_at is not None]
        spent = f"solved at {min(updates)}–{max(updates)}" if updates else "never solved"
        scores = [result.score_at(EARLY) for result in group]
        parts.append(f"{length}: {spent}, early {min(scores):.3f}–{max(scores):.3f}")
    return "; ".join(parts)


def _by_seed(
    results: _Results, model: LagModelName, lengths: Sequence[int]
) -> tuple[tuple[int | None, ...], ...]:
    """Return for each length the updates to a solution of every seed, None for none."""
    return tuple(tuple(result.solved_at for result in results[model, length]) for length in lengths)


def _draw(path: Path) -> None:
    """Draw what the finished trials have: scores and updates by length, and the other tasks."""
    draw_panels(path, [_scores, _updates, *(_far(task) for task in _FAR_TASKS if _finished(task))])


def _finished(task: LagTaskName) -> _Results:
    trials = [*lag_trials((task,))]
    found = (read_trial(_FOLDER, trial) for trial in trials)
    return _grouped([result for result in found if result is not None])


def _scores(axes: Any) -> None:
    results = _finished("first-token")
    _lines(axes, results, lambda result: result.score_at(EARLY))
    axes.axhline(0.5, color="grey", linestyle=":")
    axes.set(ylabel="share right", title=f"First token, {EARLY} updates")


def _updates(axes: Any) -> None:
    results = _finished("first-token")
    _lines(axes, results, lambda result: result.solved_at or CAP, named=False)
    axes.axhline(CAP, color="grey", linestyle=":")
    axes.set(yscale="log", ylabel="updates until solved", title=f"First token, at most {CAP:,}")


def _far(task: LagTaskName) -> Any:
    def plot(axes: Any) -> None:
        _lines(axes, _finished(task), lambda result: result.score_at(CAP), named=False)
        axes.axhline(LAG_TASKS[task].chance, color="grey", linestyle=":")
        label = "mean squared error" if task == "adding" else "share right"
        axes.set(ylabel=label, title=task.capitalize())

    return plot


def _lines(axes: Any, results: _Results, value: Any, *, named: bool = True) -> None:
    """Draw a line through the medians of each model, with a faint dot for every seed.

    The legend of the first panel is that of all.
    """
    for model, (label, colour) in _LOOKS.items():
        lengths = sorted(length for name, length in results if name == model)
        if not lengths:
            continue
        each = [[value(result) for result in results[model, length]] for length in lengths]
        axes.plot(
            lengths,
            [median(values) for values in each],
            "o-",
            color=colour,
            label=label if named else "",
        )
        for length, values in zip(lengths, each, strict=True):
            axes.plot([length] * len(values), values, ".", color=colour, alpha=0.3)
    axes.set(xscale="log", xlabel="length")
    measured = sorted({length for _, length in results})
    axes.set_xticks(measured, [f"{length:,}" for length in measured])
    axes.set_xticks([], minor=True)


MEMORY_SEQUENCES = Experiment(
    "memory-sequences",
    "the sequences of the memory task, and their labels",
    "document 002, memory task",
    _run_data,
)
MEMORY_TASK = Experiment(
    "memory-task",
    "which model recalls the first token at the end, by length",
    "document 002, memory task and gates; S. Hochreiter, J. Schmidhuber (1997); M. Arjovsky, "
    "A. Shah, Y. Bengio, arXiv:1511.06464",
    _run,
    _draw,
    takes="hours",
)
