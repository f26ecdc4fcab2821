"""Fill the folder of trials on tasks with a long lag, for as many seconds as are given.

    python benchmarks/long_lags.py lab-results/long-lags --seconds 3600 [--tasks first-token …]

It may be stopped at any moment and started again: a finished trial is never made twice.
"""

import argparse
from pathlib import Path
from typing import get_args

import torch

from elman.recipes.long_lags import (
    FAR_LENGTHS,
    LENGTHS,
    LagModelName,
    LagTaskName,
    finish_trials,
    lag_trials,
)


def main() -> None:
    """Run what is missing, and say what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--tasks", nargs="+", default=get_args(LagTaskName))
    parser.add_argument("--models", nargs="+", default=get_args(LagModelName))
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS + FAR_LENGTHS)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    trials = list(lag_trials(given.tasks, given.models, given.lengths))
    results = finish_trials(
        given.folder,
        trials,
        seconds=given.seconds,
        on_begun=lambda trial: print(f"begun {trial.name}", flush=True),
    )
    for result in results:
        print(result.trial.name, result.solved_at, result.checks[-1][1], sep="\t")
    print(f"{len(results)} of {len(trials)} trials are finished")


if __name__ == "__main__":
    main()
