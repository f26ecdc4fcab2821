"""Two processes and one run folder: the second is refused with the first one's number."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from elman.checkpoints.run_lock import LOCK

NGRAM = "--set=model.kind=ngram"
Elman = Callable[..., "CompletedProcess[str]"]
LONG = (
    *("--data", "builtin:unicode-names", "--set=training.updates=1000000"),
    *("--set=model.hidden_size=8", "--set=training.batch_size=4", "--set=training.threads=1"),
)


def started(*arguments: str) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "elman", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a file is there, as long as the process lives."""
    while not path.exists():
        assert process.poll() is None, "it ended before"
        time.sleep(0.02)


@pytest.mark.parametrize("moment", [LOCK, "metrics.jsonl"], ids=["preparing", "training"])
def test_a_second_training_in_one_folder_is_refused(
    elman: Elman, tmp_path: Path, moment: str
) -> None:
    run = tmp_path / "run"
    first = started("train", "lm", "--out", str(run), *LONG)
    try:
        wait_for(run / moment, first)
        again = elman("train", "lm", "--out", run, *LONG)
        counted = elman("train", "lm", "--data", "builtin:unicode-names", "--out", run, NGRAM)
        wait_for(run / "metrics.jsonl", first)
        resumed = elman("train", "lm", "--out", run, "--resume")
        for done in (again, counted, resumed):
            assert done.returncode == 2
            assert f"got process {first.pid} on" in done.stderr
            assert done.stderr.count("\n") == 1
        assert first.poll() is None
        first.send_signal(signal.SIGTERM)
        assert first.wait() == 130
        assert not (run / LOCK).exists()
    finally:
        first.kill()
        first.wait()


def test_a_run_whose_process_was_killed_is_gone_on_with(elman: Elman, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = started("train", "lm", "--out", str(run), *LONG)
    wait_for(run / "metrics.jsonl", first)
    first.kill()
    first.wait()
    assert (run / LOCK).exists()
    second = started("train", "lm", "--out", str(run), "--resume")
    try:
        while f'"process": {second.pid}' not in (run / LOCK).read_text():
            assert second.poll() is None
            time.sleep(0.02)
        second.send_signal(signal.SIGTERM)
        assert second.wait() in (130, -signal.SIGTERM)
    finally:
        second.kill()
        second.wait()
