"""The learning rate of every update, as a pure function of its number."""

import math

from elman.config.training_settings import TrainingSettings
from elman.errors import SettingError
from elman.training.optimisers import peak_rate


def rate(
    update: int, settings: TrainingSettings, *, total_updates: int, updates_per_epoch: int
) -> float:
    """Return the rate used in `update`, counted from 1: peak · warm-up · course.

        warm-up(u) = min(u / W, 1),  W = warmup_updates: never 0, and 1 from update W on

    With `schedule_unit` "update", n = u − max(W, 1) updates lie behind the top, of N in all:

        constant  1
        step      step_factor^⌊max(u − W − 1, 0) / step_every⌋
        linear    f + (1 − f)(1 − n / N),  f = final_rate, reached at the last update
        cosine    f + (1 − f)(1 + cos(π n / N)) / 2

    so that "step" first drops after `step_every` updates beyond the warm-up. A final rate of 0
    would waste the last update: N is one more then, and 0 what an update after the last would use.
    With `schedule_unit` "epoch" the course counts epochs: n = e − 1 of N = E − 1, also in place of
    u − W − 1, so that it is the same for all updates of an epoch, at the top in the first and at f
    in the last. A warm-up longer than the run never reaches the peak.

    Raises `SettingError` unless 1 ≤ update ≤ total_updates and updates_per_epoch ≥ 1.
    """
    if updates_per_epoch < 1:
        raise SettingError("updates_per_epoch must be an int >= 1", got=str(updates_per_epoch))
    if not 1 <= update <= total_updates:
        raise SettingError(
            "update must be one of the run", got=str(update), allowed=f"1 to {total_updates}"
        )
    warmup = settings.warmup_updates
    risen = update / warmup if update < warmup else 1.0
    if settings.schedule_unit == "epoch":
        behind = full = (update - 1) // updates_per_epoch
        of = (total_updates - 1) // updates_per_epoch
    else:
        top = max(warmup, 1)
        behind, of = max(update - top, 0), max(total_updates - top, 0)
        full = max(update - warmup - 1, 0)
    return peak_rate(settings) * risen * _course(settings, behind, of, full)


def _course(settings: TrainingSettings, behind: int, of: int, full: int) -> float:
    """Return the share of the peak after `behind` of `of` moves; `full` is what "step" counts."""
    if settings.schedule == "constant":
        return 1.0
    if settings.schedule == "step":
        return float(settings.step_factor ** (full // settings.step_every))
    final = settings.final_rate
    moves = of if final > 0.0 else of + 1
    done = behind / moves if moves else 0.0
    left = 1.0 - done if settings.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return final + (1.0 - final) * left
