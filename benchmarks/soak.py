"""Train, validate, sample, save, stop, go on, score, again and again, and see that nothing grows.

    python benchmarks/soak.py --seconds 3600
    python benchmarks/soak.py --write 10000000      # generate so many characters in one go
    python benchmarks/soak.py --score 1000000000    # score a stream of so many bytes in one go

Each prints what it held as time went by: resident memory, open files, threads. The exit status is 1
where one of them was not flat at the end.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from elman.recipes.generating import Writer, WriteRequest
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import resume_run, start_run, train_run
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.trained import open_trained
from elman.recipes.training_request import TrainRequest

GROWTH = 0.02
"""The median of the last third may be above that of the middle third by so large a share."""
SLACK_MB = 4.0
LINE = "the cat number {} sat on the mat and a dog ran to it\n"


class Held(NamedTuple):
    """What a process held at one moment."""

    seconds: float
    memory_mb: float
    files: int
    threads: int


def held_by(process: int, started: float) -> Held:
    """Read from the system what the process holds."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    files = len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208 — names alone
    memory = int(fields["VmRSS"].split()[0]) / 1000
    return Held(time.monotonic() - started, memory, files, int(fields["Threads"]))


def is_flat(held: list[Held]) -> bool:
    """Whether the last third holds no more than the middle third, but for a little."""
    third = len(held) // 3
    if third < 2:
        raise SystemExit(f"too short to tell: {len(held)} moments were looked at")
    middle, last = held[third : 2 * third], held[2 * third :]
    before, after = (median(one.memory_mb for one in part) for part in (middle, last))
    files = max(one.files for one in last) <= max(one.files for one in middle)
    threads = max(one.threads for one in last) <= max(one.threads for one in middle)
    print(f"memory: {before:.1f} MB in the middle third, {after:.1f} MB in the last")
    print(f"files: at most {max(one.files for one in held)}", end="; ")
    print(f"threads: at most {max(one.threads for one in held)}")
    return after <= before * (1 + GROWTH) + SLACK_MB and files and threads


def told(held: list[Held], what: str) -> int:
    """Print what was held in ten lines at most, and return the exit status."""
    print("seconds", "MB", "files", "threads", sep="\t")
    for one in held[:: max(1, len(held) // 10)]:
        print(f"{one.seconds:.0f}", f"{one.memory_mb:.1f}", one.files, one.threads, sep="\t")
    flat = is_flat(held)
    print(f"{what}: {'flat' if flat else 'NOT flat'}")
    return 0 if flat else 1


def text_of(size: int, path: Path) -> Path:
    """Write a text of about `size` bytes."""
    with path.open("w", encoding="utf-8") as file:
        number = written = 0
        while written < size:
            lines = "".join(LINE.format((number + n) % 997) for n in range(2000))
            number += 2000
            written += file.write(lines)
    return path


def request(out: Path, text: Path, *more: str) -> TrainRequest:
    """A small model of the text, with noise, checkpoints that rotate and several validations."""
    tiny = ("model.hidden_size=32", "training.threads=1", "training.batch_size=8")
    often = ("training.updates=24", "training.evaluate_every=6", "training.save_every=3")
    kept = ("training.keep_last=2", "training.keep_best=1", "model.dropout=0.1")
    return TrainRequest(
        out, overrides=(*tiny, *often, *kept, f"data.train={json.dumps([str(text)])}", *more)
    )


def cycle(folder: Path, text: Path, number: int) -> None:
    """Do everything once: begin, stop, go on, end, write, score."""
    out = folder / f"run-{number}"
    kind = ("lstm", "gru", "mingru")[number % 3]
    run = start_run(LanguageTask(), request(out, text, f"model.kind={kind}"))
    train_run(run, should_stop=lambda: run.trainer.update >= 10)
    train_run(resume_run(LanguageTask(), out))
    trained = open_trained(out)
    writer = Writer(trained, WriteRequest("the ", max_tokens=500))
    writer.begin()
    writer.write(lambda piece: False)
    score_files(trained, ScoreRequest((str(text),)))
    for path in sorted(out.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    out.rmdir()


def soaked(seconds: float) -> list[Held]:
    """Go through cycles for so long; return what was held after each."""
    started, held = time.monotonic(), []
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = text_of(30_000, folder / "text.txt")
        while time.monotonic() - started < seconds:
            cycle(folder, text, len(held))
            gc.collect()
            held.append(held_by(os.getpid(), started))
    print(f"{len(held)} cycles of training, stopping, going on, writing and scoring")
    return held


def watched(command: list[str], every: float) -> list[Held]:
    """Run a command of Elman and return what its process held as time went by."""
    started, held = time.monotonic(), []
    process = subprocess.Popen([sys.executable, "-m", "elman", *command], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pieces: list[int] = []

    def drain() -> None:
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 16):
            pieces.append(len(piece))

    reader = threading.Thread(target=drain)
    reader.start()
    while process.poll() is None:
        time.sleep(every)
        try:
            held.append(held_by(process.pid, started))
        except (OSError, KeyError):
            break
    reader.join()
    if process.wait():
        raise SystemExit(f"the command ended with {process.returncode}")
    print(f"{sum(pieces):,} bytes of answer in {time.monotonic() - started:.0f} s")
    return held[1:]  # the first moment is that of a process that is still being loaded


def begun(folder: Path) -> Iterator[Path]:
    """Yield a small trained run."""
    text = text_of(200_000, folder / "text.txt")
    run = folder / "run"
    train_run(start_run(LanguageTask(), request(run, text)))
    yield run


def main() -> int:
    """Do what is asked, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--write", type=int)
    parser.add_argument("--score", type=int)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two looks")
    given = parser.parse_args()
    status = 0
    if given.seconds:
        status |= told(soaked(given.seconds), "everything in turn")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for run in begun(folder) if given.write or given.score else ():
            if given.write:
                command = ["generate", str(run), "--max-tokens", str(given.write), "--seed", "1"]
                status |= told(watched(command, given.every), f"{given.write:,} characters written")
            if given.score:
                stream = text_of(given.score, folder / "stream.txt")
                command = ["score", str(run), str(stream)]
                status |= told(watched(command, given.every), f"{given.score:,} bytes scored")
    return status


if __name__ == "__main__":
    sys.exit(main())
