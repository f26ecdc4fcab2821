"""Ctrl-C in the middle of an update: once it saves and stops, twice it stops at once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]

# The command, in a process that interrupts itself within update 7, as often as the first argument
# says: the second time at once after the first. 0: not before the held-out text is scored.
INTERRUPTED = """
import os, signal, sys
from elman.apps.cli.entry import main
from elman.recipes.language_model import LanguageTask
from elman.training.gradients import BatchGradients

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
times = int(sys.argv.pop(1))
plain = BatchGradients.leave
left = iter(range(1, 1000))

def interrupted(gradients, batch, state, *, plan, generator):
    if next(left) == 7:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
    return plain(gradients, batch, state, plan=plan, generator=generator)

def while_scoring(*given):
    os.kill(os.getpid(), signal.SIGINT)

if times:
    BatchGradients.leave = interrupted
else:
    LanguageTask.scores = while_scoring
main()
"""
SMALL = (
    *("--set=model.hidden_size=8", "--set=training.threads=1", "--set=training.updates=12"),
    *("--set=training.batch_size=4", "--set=training.evaluate_every=1000", "--seed", "5"),
)


def interrupted(times: int, *arguments: str | Path) -> "CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(times), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        timeout=300,
        check=False,
    )


def saved_update(run: Path) -> int:
    update = json.loads((run / "state.json").read_text(encoding="utf-8"))["facts"]["update"]
    assert isinstance(update, int)
    return update


@pytest.fixture(scope="module")
def whole(elman: Elman, story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "whole"
    done = elman("train", "lm", "--data", story, "--out", run, *SMALL)
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize(
    ("times", "save_every", "kept"),
    [(1, 1000, 7), (2, 5, 5), (2, 1000, 0)],
)
def test_an_interruption_within_update_7_keeps_what_it_says(  # case B09
    elman: Elman, story: Path, whole: Path, tmp_path: Path, times: int, save_every: int, kept: int
) -> None:
    run = tmp_path / "run"
    done = interrupted(
        times,
        *("train", "lm", "--data", story, "--out", run, *SMALL),
        f"--set=training.save_every={save_every}",
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert saved_update(run) == kept
    told = (
        f"saved after update {kept}"
        if times == 1
        else f"stopped at once; kept: the state after update {kept} of 12"
    )
    assert told in done.stderr
    assert "complete" not in done.stderr
    assert f"train lm --out {run} --resume" in " ".join(done.stderr.split())
    (run / "state.safetensors.99.tmp").write_bytes(b"half a file")  # what a kill may leave
    done = elman("train", "lm", "--out", run, "--resume")
    assert done.returncode == 0, done.stderr
    name = "model.safetensors"
    assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert not list(run.glob("*.tmp"))


def test_an_interruption_while_scoring_says_that_training_is_complete(
    elman: Elman, story: Path, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = interrupted(0, "train", "lm", "--data", story, "--out", run, *SMALL)
    assert done.returncode == 130, done.stderr
    assert "the training is complete and saved. Score it with" in done.stderr
    done = elman("train", "lm", "--out", run, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["scores"]) == {"valid", "test"}
