"""`torchrun` and the command: shared training to its end, stopped, killed for real, restarted."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from elman.checkpoints.run_folder import RunFolder

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = (
    *("--data", "builtin:unicode-names", "--level", "char", "--unit", "stream"),
    *("--set=model.hidden_size=16", "--set=model.embedding_size=8", "--set=model.dropout=0.2"),
    *("--set=training.batch_size=6", "--set=training.window=24", "--set=training.threads=1"),
)
TIMEOUT_S = 300


class Launched:
    """A `torchrun` with its workers, as a process group of its own."""

    def __init__(self, arguments: Sequence[str | Path], *, restarts: int = 0, size: int = 2):
        launcher = (
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={size}", f"--max-restarts={restarts}"),
        )
        self.process = subprocess.Popen(
            [*launcher, "-m", "elman", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"},
            start_new_session=True,
        )

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def workers(self) -> list[int]:
        """Return the process numbers of the workers by rank."""
        found: dict[int, int] = {}
        for child in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for pid in map(int, child.read_text().split()):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                ranks = [int(one[5:]) for one in variables if one.startswith(b"RANK=")]
                found.update((rank, pid) for rank in ranks)
        return [found[rank] for rank in sorted(found)]

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not is_so():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)

    def ended(self) -> tuple[int, str]:
        """Return the status and what was said on standard error."""
        _, told = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, told


def updates(run: Path) -> list[int]:
    """The numbers of the updates in the metrics, in order; a line under way is left out."""
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [row["update"] for row in rows if row["event"] == "update"]


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="workers are found through /proc"
)


def test_a_killed_process_ends_the_others_with_one_line_and_a_run_to_go_on_with(
    elman: Elman, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    long = ("--set=training.updates=100000", "--set=training.save_every=5")
    with Launched(["train", "lm", "--out", run, *SMALL, *long]) as launched:
        launched.wait_until(lambda: len(updates(run)) > 30)
        os.kill(launched.workers()[1], signal.SIGKILL)
        status, told = launched.ended()
    assert status != 0
    lost = [line for line in told.splitlines() if "another process of this training" in line]
    assert len(lost) == 1
    assert "go on with --resume" in lost[0]
    assert "Traceback" not in told.split("ChildFailedError")[0].split("torch/distributed")[0]
    saved = RunFolder.open(run, purpose="resume").saved_update()
    assert saved is not None
    assert saved >= 25
    # What was saved is whole: one process alone goes on from it.
    with Launched(["train", "lm", "--out", run, "--resume"], size=1) as alone:
        alone.wait_until(lambda: bool(updates(run)) and updates(run)[-1] > saved + 20)
        os.kill(alone.workers()[0], signal.SIGTERM)
        alone.ended()
    assert updates(run) == list(range(1, len(updates(run)) + 1))


def test_a_restart_goes_on_where_the_run_was_saved(tmp_path: Path) -> None:
    run = tmp_path / "run"
    short = ("--set=training.updates=60", "--set=training.save_every=5")
    with Launched(["train", "lm", "--out", run, *SMALL, *short], restarts=1) as launched:
        launched.wait_until(lambda: len(updates(run)) > 12)
        os.kill(launched.workers()[0], signal.SIGKILL)
        status, told = launched.ended()
    assert status == 0, told
    assert "going on after update" in told
    assert updates(run) == list(range(1, 61))
    assert json.loads((run / "manifest.json").read_text())["results"]["training"]["updates"] == 60


def test_an_interruption_saves_once_and_ends_all(elman: Elman, tmp_path: Path) -> None:
    run = tmp_path / "run"
    long = "--set=training.updates=100000"
    with Launched(["train", "lm", "--out", run, *SMALL, long]) as launched:
        launched.wait_until(lambda: len(updates(run)) > 10)
        os.killpg(launched.process.pid, signal.SIGINT)  # as a terminal does
        status, told = launched.ended()
    assert status != 0
    assert told.count("interrupted; saved after update") == 1
    saved = RunFolder.open(run, purpose="resume").saved_update()
    assert saved == updates(run)[-1]


def test_a_batch_of_fewer_rows_than_processes_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with Launched(["train", "lm", "--out", run, *SMALL, "--set=training.batch_size=1"]) as launched:
        status, told = launched.ended()
    assert status != 0
    assert told.count("elman: each process needs a row of its own in a batch") == 1
    assert not run.exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("train", "lm", "--budget", "60s"), "one process measures how much fits into a budget"),
        (("train", "lm", "--set=model.kind=ngram"), "one process counts"),
        (("train", "ladder"), "one process"),
        (("generate", "run"), "one process"),
    ],
)
def test_what_several_processes_cannot_do_is_told_in_one_line(
    elman: Elman, tmp_path: Path, arguments: tuple[str, ...], line: str
) -> None:
    given = list(arguments)
    if given[0] == "train":
        given += ["--data", "builtin:unicode-names", "--out", str(tmp_path / "run")]
    group = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = elman(*given, **group)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
