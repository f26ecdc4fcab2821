"""Training that is killed anywhere, while it saves too, goes on to the very same weights."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from killed_commands import KillableCommands

Elman = Callable[..., "CompletedProcess[str]"]
TINY = (
    *("--set=model.hidden_size=8", "--set=training.threads=1", "--set=training.updates=12"),
    *("--set=training.evaluate_every=4", "--set=training.batch_size=4"),
    *("--set=model.dropout=0.2", "--set=training.keep_last=2", "--seed", "5"),
)


@pytest.fixture(scope="module")
def commands() -> KillableCommands:
    """Where commands are killed."""
    return KillableCommands()


def weights_in(run: Path) -> dict[str, bytes]:
    """The best weights and those of every checkpoint kept, by where they lie in the run."""
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("model.*")}


def survived(
    elman: Elman,
    commands: KillableCommands,
    story: Path,
    folder: Path,
    *,
    times: int,
    last: int = 0,
) -> list[str]:
    """Kill `times` trainings, each before another thing it does; return what was not survived.

    The `last` things that a training does are among them.
    """
    asked = ("train", "lm", "--data", story, *TINY, "--out")
    number = commands.run((*asked, folder / "whole"), folder / "whole")
    right = weights_in(folder / "whole")
    assert len(right) == 3
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    lost = []
    chosen = {*draw.sample(range(1, number + 1 - last), times - last)}
    for kill_at in sorted(chosen | {*range(number + 1 - last, number + 1)}):
        run = folder / "run"
        commands.run((*asked, run), run, kill_at=kill_at)
        done = elman("train", "lm", "--out", run, "--resume")
        if done.returncode == 2:  # nothing was saved yet: the same command begins anew
            done = elman(*asked, run)
        same = done.returncode == 0 and weights_in(run) == right
        if not same:
            lost.append(f"killed before {kill_at} of {number}: {done.returncode} {done.stderr}")
        left = {path.relative_to(run) for path in run.rglob("*")} - {
            path.relative_to(folder / "whole") for path in (folder / "whole").rglob("*")
        }
        if left:
            lost.append(f"killed before {kill_at} of {number}: it left {left}")
        shutil.rmtree(run)
    print(f"seed {seed}: {times - len(lost)} of {times} kills survived, of {number} places")
    return lost


def test_six_kills_are_survived(
    elman: Elman, commands: KillableCommands, story: Path, tmp_path: Path
) -> None:
    assert survived(elman, commands, story, tmp_path, times=6, last=2) == []


@pytest.mark.slow
def test_fifty_kills_are_survived(
    elman: Elman,
    commands: KillableCommands,
    story: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with capsys.disabled():
        assert survived(elman, commands, story, tmp_path, times=50, last=5) == []
