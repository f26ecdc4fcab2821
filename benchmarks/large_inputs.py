"""What large and odd inputs take: peak memory, seconds and how the command ended.

    python benchmarks/large_inputs.py FOLDER [--cases long-line …]

FOLDER receives the inputs (up to 1.1 GB) and is left with nothing but the runs.
"""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

TINY = (
    *("--set=model.hidden_size=16", "--set=model.embedding_size=8", "--set=training.updates=5"),
    *("--set=training.batch_size=8", "--set=training.threads=1", "--set=training.optimizer=adamw"),
    *("--set=data.valid_fraction=0.0001", "--set=data.test_fraction=0"),
)
COUNTED = ("--set=model.kind=ngram", "--set=model.order=3", *TINY[-2:])
WORDS = ("the", "cat", "sat", "on", "mat", "and", "dog", "ran", "to", "log", "bird", "sang", "tree")
MEGABYTE = 1_000_000


def long_line(megabytes: int) -> Iterator[bytes]:
    """Words and blanks, without a line end."""
    piece = (" ".join(WORDS * 1500) + " ").encode()
    for _ in range(megabytes * MEGABYTE // len(piece)):
        yield piece


def one_word(megabytes: int) -> Iterator[bytes]:
    """One word of many characters."""
    for _ in range(megabytes):
        yield b"abcdefghij" * (MEGABYTE // 10)


def distinct_words(count: int) -> Iterator[bytes]:
    """Words, each of which stands once."""
    for first in range(0, count, 10_000):
        yield "".join(f"w{number:x}\n" for number in range(first, first + 10_000)).encode()


def empty_lines(count: int) -> Iterator[bytes]:
    """Line ends, and a little text."""
    yield b"a line\nanother line\n" * 20
    for _ in range(count // 1000):
        yield b"\n" * 1000


def sentences(megabytes: int) -> Iterator[bytes]:
    """Lines of text, numbered so that they are not all alike."""
    number = 0
    for _ in range(megabytes):
        lines = []
        size = 0
        while size < MEGABYTE:
            number += 1
            lines.append(
                f"the cat number {number % 9973} sat on the mat and the dog ran to a log\n"
            )
            size += len(lines[-1])
        yield "".join(lines).encode()


class Case(NamedTuple):
    """An input, how its file is called, and the commands that read it."""

    pieces: Callable[[], Iterator[bytes]]
    file: str
    commands: tuple[tuple[str, ...], ...]


def train(level: str, *more: str) -> tuple[str, ...]:
    """The command that trains on the input at this level."""
    return ("train", "lm", "--data", "INPUT", "--out", "RUN", "--level", level, *TINY, *more)


SCORE = ("score", "RUN", "INPUT")
CASES = {
    "long-line": Case(
        lambda: long_line(100),
        "line.txt",
        (train("char"), SCORE, train("word"), train("bpe"), train("char", "--unit", "line"), SCORE),
    ),
    "one-word": Case(
        lambda: one_word(100), "word.txt", (train("char"), train("word"), train("bpe"))
    ),
    "distinct-words": Case(
        lambda: distinct_words(10_000_000),
        "words.txt",
        (
            train("word"),
            train("word", "--set=text.vocabulary_size=50000"),
            train("bpe"),
            ("train", "lm", "--data", "INPUT", "--out", "RUN", "--level", "word", *COUNTED),
        ),
    ),
    "empty-lines": Case(
        lambda: empty_lines(1_000_000),
        "lines.txt",
        (train("char"), SCORE, train("char", "--unit", "line"), SCORE, train("word"), SCORE),
    ),
    "gigabyte": Case(
        lambda: sentences(1000), "gigabyte.txt", (train("word"), train("bpe"), train("char"), SCORE)
    ),
    "gzip-bomb": Case(
        lambda: (b"\0" * MEGABYTE for _ in range(2000)), "bomb.txt.gz", (train("char"),)
    ),
}


def written(case: Case, folder: Path) -> Path:
    """Write the input of a case and return its file."""
    path = folder / case.file
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        for piece in case.pieces():
            file.write(piece)
    return path


def own_memory(process: int) -> float:
    """Return the MB that a process holds now, without mapped files, which can be taken back."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["RssAnon"].split()[0]) / 1000 if "RssAnon" in fields else 0.0


def measured(command: tuple[str, ...]) -> tuple[int, float, float, float, str]:
    """Run the command; return status, seconds, peak MB of its own, with mapped files, last line."""
    started, own = time.perf_counter(), [0.0]
    process = subprocess.Popen(
        [sys.executable, "-m", "elman", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            own.append(own_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    told = process.stderr.read().decode(errors="replace").strip().splitlines()
    ended.set()
    watcher.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    last = next((line for line in reversed(told) if line.startswith("elman:")), "")
    return process.returncode, seconds, max(own), usage.ru_maxrss / 1000, last


def main() -> None:
    """Make each input, run its commands, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(*("case", "command", "status", "s", "MB", "mapped too", "told"), sep=" | ", flush=True)
    for name in given.cases:
        case = CASES[name]
        path, run = written(case, given.folder), given.folder / "run"
        for command in case.commands:
            if command[0] == "train":
                shutil.rmtree(run, ignore_errors=True)
            placed = tuple({"INPUT": str(path), "RUN": str(run)}.get(one, one) for one in command)
            status, seconds, own, peak, told = measured(placed)
            called = " ".join(one for one in command if one not in TINY)
            row = name, called, status, f"{seconds:.0f}", f"{own:.0f}", f"{peak:.0f}", told
            print(*row, sep=" | ", flush=True)
        path.unlink()


if __name__ == "__main__":
    main()
