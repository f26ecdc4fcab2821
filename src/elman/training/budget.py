"""How many updates fit into a time: measured on throwaway copies, told as one fixed number."""

import copy
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.training.fitting import Validate
from elman.training.loop import BatchT, ModelT, Trainer
from elman.training.objective import Objective
from elman.training.selection import validation_interval

RESERVE = 0.05
"""Share of the time left unplanned, for saving and for a machine that others use too."""

WARM_UP = 3
"""Updates made and not measured: first calls build and allocate."""

VALIDATION_SHARE = 0.1
"""Share of the time that validations may take where `evaluate_every` leaves their number open; one
comes at the end in any case."""

LEAST_MEASURED = 3
LONGEST_MEASURE_SECONDS = 3.0
MEASURE_SHARE = 0.05
"""Measuring ends after this share of the time or the seconds above, whichever is shorter."""

_NO_END = 10**12


@dataclass(frozen=True)
class BudgetFit:
    """The updates that fit, how many lie between two validations, and what was measured.

    The times are those of an update, of a validation, and of all of measuring.
    """

    updates: int
    evaluate_every: int
    update_seconds: float
    validation_seconds: float
    measured_seconds: float


def updates_for_budget(
    objective: Objective[ModelT, BatchT],
    source: BatchSource[BatchT],
    settings: TrainingSettings,
    plan: KernelPlan,
    *,
    seconds_left: float,
    validate: Validate | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> BudgetFit:
    """Return how many updates, with the validations among them, fit into `seconds_left`.

        n · update + validations(n) · validation ≤ (seconds_left − measuring) · (1 − RESERVE)

    Validations are as many as `settings` say; where these leave it open, fewer if they would take
    more than `VALIDATION_SHARE`.

    An update costs the median of seconds per token over a moment of training, times the mean
    tokens of a batch. That training is done on a copy of the model, with generators and a position
    of its own, so that the run itself starts as if nothing had been measured. `validate` is called
    once. Train with `training.updates` set to the answer to repeat the run exactly, whatever the
    machine is doing. At least 1 update is answered. Raises `SettingError` unless seconds_left > 0.
    """
    if not seconds_left > 0.0 or not math.isfinite(seconds_left):
        raise SettingError("the budget must leave time to train", got=f"{seconds_left} s")
    begun = clock()
    own_settings = replace(settings, warmup_updates=0, schedule="constant")
    trainer = Trainer(
        copy.deepcopy(objective), source, own_settings, copy.deepcopy(plan), total_updates=_NO_END
    )
    seconds_per_token = _measure(trainer, seconds_left, clock)
    update_seconds = seconds_per_token * source.num_targets / source.batches_per_epoch(0)
    validation_seconds = 0.0
    if validate is not None:
        start = clock()
        validate()
        validation_seconds = clock() - start
    measured_seconds = clock() - begun
    usable = (seconds_left - measured_seconds) * (1.0 - RESERVE)

    most = max(1, math.floor(VALIDATION_SHARE * usable / max(validation_seconds, 1e-9)))

    def interval_for(updates: int) -> int:
        interval = validation_interval(settings, updates, source.batches_per_epoch(0))
        return interval if settings.evaluate_every else max(interval, math.ceil(updates / most))

    def seconds_for(updates: int) -> float:
        validations = math.ceil(updates / interval_for(updates))
        return updates * update_seconds + validations * validation_seconds

    updates = _largest_within(seconds_for, usable, update_seconds)
    every = interval_for(updates)
    return BudgetFit(updates, every, update_seconds, validation_seconds, measured_seconds)


def _measure(
    trainer: Trainer[ModelT, BatchT], seconds_left: float, clock: Callable[[], float]
) -> float:
    """Return the median seconds per token of updates, after a few that are not counted."""
    limit = min(LONGEST_MEASURE_SECONDS, MEASURE_SHARE * seconds_left)
    begun = clock()
    for _ in range(WARM_UP):
        trainer.step()
    costs: list[float] = []
    while len(costs) < LEAST_MEASURED or clock() - begun < limit:
        start = clock()
        event = trainer.step()
        costs.append((clock() - start) / event.num_tokens)
    return statistics.median(costs)


def _largest_within(
    seconds_for: Callable[[int], float], usable: float, update_seconds: float
) -> int:
    """Return the largest count found by halving whose time is within `usable`, at least 1."""
    low, high = 1, max(2, math.floor(usable / max(update_seconds, 1e-9)) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seconds_for(middle) <= usable else (low, middle)
    return low
