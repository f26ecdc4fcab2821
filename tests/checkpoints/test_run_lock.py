"""One process at a time: real processes that hold a lock, let it go, and are killed with it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elman.checkpoints.run_lock import LOCK, RunLock
from elman.errors import RunError

HOLDS = """
import sys
from elman.checkpoints.run_lock import RunLock
lock = RunLock.take(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
lock.release()
"""


def holder_of(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def refused(folder: Path) -> str:
    """Return what is said to one who would take the lock."""
    with pytest.raises(RunError) as caught:
        RunLock.take(folder)
    return str(caught.value)


def test_the_holder_is_named_and_the_folder_is_free_after_it(tmp_path: Path) -> None:
    process = holder_of(tmp_path / "run")
    told = refused(tmp_path / "run")
    assert f"got process {process.pid} on {os.uname().nodename} since 2" in told
    assert "one process at a time" in told
    process.communicate("")
    assert not (tmp_path / "run" / LOCK).exists()
    RunLock.take(tmp_path / "run").release()


def test_a_lock_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    process = holder_of(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / LOCK).exists()
    with RunLock.take(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()
    assert not (tmp_path / LOCK).exists()


def test_what_is_released_twice_is_not_the_next_holders(tmp_path: Path) -> None:
    first = RunLock.take(tmp_path)
    first.release()
    second = RunLock.take(tmp_path)
    first.release()
    assert (tmp_path / LOCK).exists()
    assert str(os.getpid()) in refused(tmp_path)
    second.release()


@pytest.mark.parametrize(
    "left", [b"", b"{", b"[1]", b'{"process": 1}', b"\xff", b"[" * 9000], ids=repr
)
def test_what_stands_in_the_file_holds_nobody_up(tmp_path: Path, left: bytes) -> None:
    (tmp_path / LOCK).write_bytes(left)
    with RunLock.take(tmp_path):
        (tmp_path / LOCK).write_bytes(left)
        assert "has not told its number" in refused(tmp_path)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("all of it")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(thesis)
    assert "a link in its place" in refused(tmp_path / "run")
    assert thesis.read_text() == "all of it"


def test_a_pipe_in_its_place_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK)
    assert "something that is no file" in refused(tmp_path)
