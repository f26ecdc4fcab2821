"""A word on runs that training has not ended, wherever they are put to use."""

from collections.abc import Iterable
from pathlib import Path

from elman.apps.cli.output import program, say


def kept_of_start(out: Path) -> str:
    """Return what a start that ended before training has kept of a large text; "" for nothing."""
    from elman.checkpoints.run_folder import CACHE, SHARDS

    kept = (out / CACHE / SHARDS).is_dir()
    told = f"what was made of the text is kept in {out}: the same command goes on from there"
    return told if kept else ""


def tell_stopped(runs: Iterable[Path]) -> None:
    """Say on standard error which of the runs were interrupted, and how to go on with each.

    Raises `RunError` where there is no run to use.
    """
    from elman.recipes.trained import stopped_run

    for run in runs:
        stopped = stopped_run(run)
        if stopped is None:
            continue
        where = f"it stands after {stopped.update:,} of {stopped.total_updates:,} updates"
        if stopped.update >= stopped.total_updates:
            where = "all its updates are made, and it was not scored"
        say(
            f"note: the run {run} was stopped before its end: {where}; go on with: {program()} "
            f"train {stopped.task} --out {run} --resume"
        )
