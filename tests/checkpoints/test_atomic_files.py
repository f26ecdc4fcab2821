"""A file is the old one or the new one, whatever happens while it is written."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elman.atomic_files import leftovers, remove_leftovers, write_atomically
from elman.checkpoints.tensor_file import read_tensor_file
from elman.errors import RunError

# Saves file after file whose tensor is filled with the number of the save, in as many pieces as a
# slow disk would take, and says when the first save is done.
SLOW_SAVER = """
import os, sys, time
from pathlib import Path
import torch
from elman.checkpoints.tensor_file import write_tensor_file

class SlowFile:
    def __init__(self, file): self.file = file
    def __enter__(self): return self
    def __exit__(self, *error): self.file.close()
    def write(self, content):
        for at in range(0, len(content), 4096):
            self.file.write(content[at : at + 4096])
            self.file.flush()
            time.sleep(0.0005)
    def flush(self): self.file.flush()
    def fileno(self): return self.file.fileno()

plain_open = Path.open
Path.open = lambda self, mode="r": SlowFile(plain_open(self, mode))
real_replace = os.replace
def slow_replace(source, target):
    time.sleep(0.002); real_replace(source, target); time.sleep(0.002)
os.replace = slow_replace
for number in range(1, 1_000_000):
    tensor = torch.full((20_000,), float(number))
    write_tensor_file(Path(sys.argv[1]), "weights", {"w": tensor}, {"number": number})
    if number == 1:
        print("saved", flush=True)
"""


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "atomic", b"")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "atomic")}
    assert len(modes) == 1


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failure_during_writing_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*arguments: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises((RunError, KeyboardInterrupt)) as caught:
            write_atomically(path, b"new")
    if isinstance(failure, OSError):
        assert str(caught.value) == f"cannot write {path}; got No space left on device"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_bytes_are_on_the_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        calls.append(f"flush {kind}")
        real_fsync(descriptor)

    def replace(source: Path, target: Path) -> None:
        calls.append("rename")
        assert source.parent == target.parent
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomically(tmp_path / "file", b"new")
    assert calls == ["flush file", "rename", "flush folder"]


def test_leftovers_are_those_of_the_named_files_only(tmp_path: Path) -> None:
    for name in ("run.bin.123.tmp", "run.bin.tmp", "other.tmp", "run.bin", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    found = [path.name for path in leftovers(tmp_path, ["run.bin"])]
    assert found == ["run.bin.123.tmp", "run.bin.tmp"]
    remove_leftovers(tmp_path, ["run.bin"])
    remaining = sorted(path.name for path in tmp_path.iterdir())
    assert remaining == ["notes.txt", "other.tmp", "run.bin"]


def kill_saver_after(path: Path, seconds: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_SAVER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "saved\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(12))
def test_a_killed_saver_leaves_a_whole_file(tmp_path: Path, kill: int) -> None:
    seconds = random.Random(kill).uniform(0.0, 0.12)
    path = tmp_path / "model.safetensors"
    kill_saver_after(path, seconds)
    file = read_tensor_file(path, "weights")
    file.verify()
    number = file.facts["number"]
    assert isinstance(number, int)
    assert number >= 1
    assert set(file.tensors["w"].tolist()) == {float(number)}
    assert set(tmp_path.iterdir()) - {path} == set(leftovers(tmp_path, [path.name]))


def test_one_killed_saver_leaves_a_whole_file(tmp_path: Path) -> None:
    # Within the first 20,000 numbers of 4 bytes in pieces of 4,096: a save takes 15 ms or more,
    # so this kill falls into the middle of one.
    path = tmp_path / "model.safetensors"
    kill_saver_after(path, 0.02)
    file = read_tensor_file(path, "weights")
    file.verify()
    assert set(file.tensors["w"].tolist()) == {float(str(file.facts["number"]))}
