"""What a step of training costs by each size, what an exchange costs, and when more processes pay.

    python benchmarks/scaling.py [--parts sizes exchange training model]

Measured here: a step of one process on one thread against rows, window, units, layers and
vocabulary; the sum of tensors over two processes of this machine; training with one process and
with two. Modelled from it: steps of more processes that are joined by networks of some speed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from rich.console import Console
from rich.table import Table

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_loss
from elman.models.language_models import new_language_model

REPEATS = 5
MEGABYTE = 1_000_000
NETWORKS = {"1 Gbit/s": 0.125e9, "10 Gbit/s": 1.25e9, "100 Gbit/s": 12.5e9}
LATENCY = 50e-6
"""Seconds of one message between two machines, as Ethernet has it."""
BUCKETS_MB = 4


@dataclass(frozen=True)
class Sizes:
    """The sizes of a language model and of the batches that it learns from."""

    rows: int = 32
    window: int = 64
    units: int = 256
    layers: int = 1
    vocabulary: int = 256


VARIED = {
    "rows": (8, 16, 32, 64, 128),
    "window": (16, 32, 64, 128),
    "units": (64, 128, 256, 512),
    "layers": (1, 2, 4),
    "vocabulary": (256, 2048, 16384),
}


def step_of(sizes: Sizes) -> tuple[float, int]:
    """Return the seconds of forward and backward at these sizes, the least, and the parameters."""
    settings = ModelSettings(
        kind="lstm",
        hidden_size=sizes.units,
        embedding_size=128,
        num_layers=sizes.layers,
        softmax="full",
    )
    seed = torch.Generator().manual_seed(1)
    model = new_language_model(settings, sizes.vocabulary, seed)
    ids = torch.randint(0, sizes.vocabulary, (sizes.rows, sizes.window + 1), generator=seed)
    plan, best = KernelPlan(), float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        output = model(ids[:, :-1], plan=plan)
        token_loss(output.states_BTH, output.readout, ids[:, 1:]).mean().backward()
        best = min(best, time.perf_counter() - started)
        model.zero_grad()
    return best, sum(one.numel() for one in model.parameters())


def grown() -> Iterator[tuple[str, int, float, int]]:
    """Yield the size that was varied, its value, the seconds of a step, and the parameters."""
    for name, values in VARIED.items():
        for value in values:
            yield name, value, *step_of(replace(Sizes(), **{name: value}))


def _exchange(rank: int, path: str, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    told = {}
    for megabytes in (0.001, 0.1, 1, 4, 16, 64):
        one = torch.ones(int(megabytes * MEGABYTE) // 4)
        seconds = []
        for _ in range(7):
            dist.barrier()
            started = time.perf_counter()
            dist.all_reduce(one)
            seconds.append(time.perf_counter() - started)
        told[megabytes] = sorted(seconds)[3]
    if rank == 0:
        Path(out).write_text(json.dumps(told), encoding="utf-8")
    dist.destroy_process_group()


def exchanged() -> dict[float, float]:
    """Return the seconds in which two processes here add up tensors of so many megabytes."""
    with tempfile.TemporaryDirectory() as scratch:
        out = f"{scratch}/told.json"
        mp.spawn(_exchange, args=(f"{scratch}/store", out), nprocs=2)
        return {float(size): s for size, s in json.loads(Path(out).read_text("utf-8")).items()}


def trained(processes: int, units: int, rows: int) -> float:
    """Return the seconds of one update of the command, by the difference of two lengths of run."""
    seconds = []
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "text.txt"
        text.write_text("the cat sat on the mat and a dog ran to the log\n" * 20_000, "utf-8")
        for updates in (5, 25):
            command = [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--nproc-per-node", str(processes), "-m", "elman", "train", "lm"),
                *("--data", str(text), "--out", f"{scratch}/{updates}"),
                *("--set", f"model.hidden_size={units}", "--set", f"training.batch_size={rows}"),
                *("--set", f"training.updates={updates}", "--set", "training.evaluate_every=999"),
                *("--set", "training.window=64", "--set", "training.threads=1"),
                *("--set", "data.valid_fraction=0.001", "--set", "data.test_fraction=0.001"),
            ]
            started = time.perf_counter()
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seconds.append(time.perf_counter() - started)
    return (seconds[1] - seconds[0]) / 20


def modelled(sizes: Sizes, processes: int, bandwidth: float, a_row: float, rest: float) -> float:
    """Return the seconds of a step: arithmetic of own rows, and a ring that adds the gradients up.

    Each process sends and receives 2 (N - 1) / N times the bytes of all gradients, in buckets; none
    of it is counted as hidden behind arithmetic.
    """
    _, parameters = step_of(replace(sizes, rows=1, window=2))
    own = -(-sizes.rows // processes)
    if processes == 1:
        return a_row * own + rest
    size = 4 * parameters
    buckets = max(1, round(size / (BUCKETS_MB * MEGABYTE)))
    messages = 2 * (processes - 1) * buckets
    return (
        a_row * own + rest + 2 * (processes - 1) / processes * size / bandwidth + messages * LATENCY
    )


def show_sizes(console: Console) -> None:
    """Print what a step costs by each size."""
    table = Table("size", "value", "ms a step", "parameters", "MB exchanged", "ms / MB")
    for name, value, seconds, parameters in grown():
        size = 4 * parameters / MEGABYTE
        told = f"{seconds * 1e3:.1f}", f"{parameters:,}", f"{size:.2f}"
        table.add_row(name, f"{value:,}", *told, f"{seconds * 1e3 / size:.1f}")
    console.print(table)


def show_exchange(console: Console) -> None:
    """Print what adding up tensors over two processes costs here."""
    table = Table("MB", "ms", "MB/s")
    for size, seconds in exchanged().items():
        table.add_row(f"{size:g}", f"{seconds * 1e3:.2f}", f"{size / seconds:,.0f}")
    console.print(table)


def show_training(console: Console) -> None:
    """Print how much faster two processes train here."""
    table = Table("units", "rows", "ms, one process", "ms, two", "times as fast")
    for units, rows in ((64, 32), (128, 32), (256, 32), (256, 128)):
        one, two = trained(1, units, rows), trained(2, units, rows)
        told = f"{one * 1e3:.0f}", f"{two * 1e3:.0f}", f"{one / two:.2f}"
        table.add_row(str(units), str(rows), *told)
    console.print(table)


def show_model(console: Console) -> None:
    """Print how much faster more processes would train, by the network between them."""
    for sizes in (Sizes(rows=128), Sizes(rows=128, units=1024, layers=2, vocabulary=16384)):
        few, many = (step_of(replace(sizes, rows=rows))[0] for rows in (8, 32))
        a_row = (many - few) / 24
        rest = max(0.0, few - 8 * a_row)
        table = Table(f"processes, {sizes}", *NETWORKS)
        alone = modelled(sizes, 1, 1.0, a_row, rest)
        for processes in (2, 4, 8, 16, 32, 64, 128):
            told = [modelled(sizes, processes, speed, a_row, rest) for speed in NETWORKS.values()]
            table.add_row(str(processes), *(f"{alone / one:.1f} times" for one in told))
        console.print(table)


PARTS = {
    "sizes": show_sizes,
    "exchange": show_exchange,
    "training": show_training,
    "model": show_model,
}


def main() -> None:
    """Measure, model, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    for part in given.parts:
        PARTS[part](Console(width=110))


if __name__ == "__main__":
    main()
