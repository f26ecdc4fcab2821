"""How fast text becomes ids, in one run beside the classic word corpus reader.

python benchmarks/encoding.py FILE [--repeats N]

The classic reader is that of the PyTorch word language model example, in our own words: two passes
over the file; the first splits each line, adds an end mark and numbers the words; the second splits
each line again, makes an int64 tensor of it, and joins all tensors.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from elman.config.text_settings import Level, TextSettings
from elman.text.building import build_tokenizer, encode_chunks, learn_and_encode
from elman.text.reading import TextSource, read_text

MEGABYTE = 1e6
BPE_BYTES = 2_000_000
END_MARK = "<eos>"
Job = tuple[str, int, Callable[[], object]]


class ClassicNumbers:
    """Words numbered in the order in which they come, one call a word."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {}
        self.words: list[str] = []

    def add(self, word: str) -> int:
        if word not in self.number_of:
            self.words.append(word)
            self.number_of[word] = len(self.words) - 1
        return self.number_of[word]


def classic_reader(path: Path) -> torch.Tensor:
    """Number words line by line, then turn each line into a tensor of its own."""
    numbers = ClassicNumbers()
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            for word in [*line.split(), END_MARK]:
                numbers.add(word)
    tensors = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            ids = []
            for word in [*line.split(), END_MARK]:
                ids.append(numbers.number_of[word])  # noqa: PERF401  # as the original does
            tensors.append(torch.tensor(ids).type(torch.int64))
    return torch.cat(tensors)


def least_seconds(jobs: list[Job], repeats: int) -> tuple[list[float], list[float]]:
    """Return the least elapsed and the least CPU seconds of each job, taken in turns.

    Other work on the machine only ever adds, and it adds to all jobs alike where they take turns.
    """
    elapsed, busy = [float("inf")] * len(jobs), [float("inf")] * len(jobs)
    for _ in range(repeats):
        for number, (_, _, job) in enumerate(jobs):
            start, cpu_start = time.perf_counter(), time.process_time()
            job()
            elapsed[number] = min(elapsed[number], time.perf_counter() - start)
            busy[number] = min(busy[number], time.process_time() - cpu_start)
    return elapsed, busy


def encode_level(text: str, level: Level) -> Callable[[], object]:
    tokenizer = build_tokenizer([text], TextSettings(level=level))
    return lambda: tokenizer.encode(text)


def words_from_file(path: Path) -> np.ndarray:
    """The same job as the classic reader: from the file to the ids of all its words."""
    source = TextSource(str(path))
    _, pieces = learn_and_encode(source.chunks(), TextSettings(level="word"))
    return np.concatenate(pieces)


def words_in_two_passes(path: Path) -> np.ndarray:
    """What preparing a run does: the vocabulary first, then the ids, reading the file twice."""
    source = TextSource(str(path))
    tokenizer = build_tokenizer(source.chunks(), TextSettings(level="word"))
    return np.concatenate(list(encode_chunks(tokenizer, source.chunks())))


def read_file(path: Path) -> int:
    return sum(map(len, TextSource(str(path)).chunks()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    path, repeats = options.file, options.repeats
    text, (report,) = read_text([path])
    size = report.utf8_bytes
    part = text[:BPE_BYTES]
    subwords = TextSettings(level="bpe")
    learnt = build_tokenizer([part], subwords)
    pieces = [part[start : start + (1 << 20)] for start in range(0, len(part), 1 << 20)]
    jobs: list[Job] = [
        ("classic word reader, from file", size, lambda: classic_reader(path)),
        ("word: vocabulary and ids, read once, from file", size, lambda: words_from_file(path)),
        ("word: vocabulary, then ids, from file", size, lambda: words_in_two_passes(path)),
        ("word: ids, vocabulary given", size, encode_level(text, "word")),
        ("char: ids, vocabulary given", size, encode_level(text, "char")),
        ("char: vocabulary", size, lambda: build_tokenizer([text], TextSettings())),
        ("byte: ids", size, encode_level(text, "byte")),
        ("bpe: vocabulary", len(part.encode()), lambda: build_tokenizer([part], subwords)),
        (
            "bpe: ids, vocabulary given",
            len(part.encode()),
            lambda: list(encode_chunks(learnt, pieces)),
        ),
        ("reading the file, with its report", size, lambda: read_file(path)),
    ]
    table = Table(title=f"{path.name}: {size / MEGABYTE:.2f} MB; best of {repeats}")
    table.add_column("job")
    for heading in ("MB/s", "MB a CPU second", "× classic (CPU)"):
        table.add_column(heading, justify="right")
    elapsed, busy = least_seconds(jobs, repeats)
    classic = busy[0] / jobs[0][1]
    for (name, amount, _), wall, cpu in zip(jobs, elapsed, busy, strict=True):
        speeds = amount / MEGABYTE / wall, amount / MEGABYTE / cpu
        table.add_row(name, f"{speeds[0]:.1f}", f"{speeds[1]:.1f}", f"{classic * amount / cpu:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
