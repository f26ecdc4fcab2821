"""Time a training step of a word language model beside the same step written in plain torch.

PYTHONPATH=src python benchmarks/word_step.py [DATA_FOLDER] [--units 200] [--vocabulary 33278]
    [--repeats 15] [--threads 2] [--rate 20] [--losses UPDATES] [--memory]

The step is that of the word language model of the PyTorch examples: two LSTM layers as wide as
their embeddings, 20 lanes, windows of 35, dropout 0.2, SGD at 20 with gradients clipped to 0.25.
Both run in one process and take turns; ratios are of medians. Processor time is that of all
threads, which other work on the machine disturbs less; set OMP_WAIT_POLICY=passive for it.
DATA_FOLDER holds wikitext2.train.txt, as benchmarks/prepare.py writes it; without it ids are drawn
from Zipf's law. --losses compares the losses of both over UPDATES updates without dropout, at
--rate. --memory measures the peak of each in a process of its own.
"""

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch.nn.functional import log_softmax, nll_loss

from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan, Precision
from elman.kernels.native_module import native_level
from elman.layers.readout import Readout
from elman.losses import token_loss
from elman.recipes.benchmark.machine import matrix_peak
from elman.recipes.benchmark.memory import SIDES, peak_bytes_of
from elman.recipes.benchmark.rows import FULL, ModelSizes
from elman.recipes.benchmark.timing import Stopwatch
from elman.recipes.benchmark.word_training import (
    BATCH_SIZE,
    DROPOUT,
    WINDOW,
    WordTrainer,
    elman_training,
    torch_training,
    zipf_ids,
)
from elman.seeding import generator


def stream_of(folder: str | None, vocabulary_size: int) -> StreamBatches:
    """The words of the file by frequency, rare ones as the last id; or ids by Zipf's law."""
    if folder is None:
        ids_N = zipf_ids(vocabulary_size)
    else:
        text = Path(folder, "wikitext2.train.txt").read_text(encoding="utf-8")
        words = text.replace("\n", " <eos> ").split()
        order = {word: place for place, (word, _) in enumerate(Counter(words).most_common())}
        ids_N = np.minimum([order[word] for word in words], vocabulary_size - 1)
    return StreamBatches(ids_N, batch_size=BATCH_SIZE, window=WINDOW)


def steps_of(
    args: argparse.Namespace, dropout: float
) -> tuple[Callable[[], float], dict[str, WordTrainer]]:
    """Plain torch's step and Elman's trainers by precision, all from the same weights."""
    trainers = {
        precision: elman_training(
            args.sizes, dropout=dropout, precision=precision, rate=args.rate, source=args.source
        )
        for precision in get_args(Precision)
    }
    return torch_training(trainers["float32"], dropout=dropout).step, trainers


def loss_calls(units: int, vocabulary_size: int) -> dict[str, Callable[[], object]]:
    """The output layer and its loss alone, forward and backward, each way."""
    torch.manual_seed(2)
    states_BTH = (torch.randn(BATCH_SIZE, WINDOW, units) * 0.3).requires_grad_()
    targets_BT = torch.randint(vocabulary_size, (BATCH_SIZE, WINDOW))
    readout = Readout(units, vocabulary_size)
    readout.initialise(generator(2, "none"))
    leaves = [states_BTH, readout.weight, readout.bias]

    def of_torch() -> None:
        log_probs_NV = log_softmax(readout.logits(states_BTH).flatten(0, 1), dim=1)
        torch.autograd.grad(nll_loss(log_probs_NV, targets_BT.flatten()), leaves)

    def of_elman(plan: KernelPlan) -> Callable[[], None]:
        def run() -> None:
            mean = token_loss(states_BTH, readout, targets_BT, plan=plan).mean()
            torch.autograd.grad(mean, leaves)

        return run

    def forward() -> None:
        with torch.no_grad():
            token_loss(states_BTH, readout, targets_BT)

    return {
        "loss: torch": of_torch,
        "loss: elman, torch operators": of_elman(KernelPlan("torch")),
        "loss: elman float32": of_elman(KernelPlan()),
        "loss: elman bfloat16": of_elman(KernelPlan("auto", "bfloat16")),
        "loss: elman, forward only": forward,
    }


def compare_speed(args: argparse.Namespace) -> None:
    units, vocabulary_size = args.units, args.vocabulary
    plain, trainers = steps_of(args, DROPOUT)
    calls = {**loss_calls(units, vocabulary_size), "step: torch": plain}
    calls |= {f"step: elman {name}": trainer.step for name, trainer in trainers.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    processor: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(args.repeats + 2):
        for name, call in calls.items():
            start, start_processor = time.perf_counter(), time.process_time()
            call()
            if repeat >= 2:
                times[name].append(time.perf_counter() - start)
                processor[name].append(time.process_time() - start_processor)
    stopwatch = Stopwatch(FULL.effort)
    peak = matrix_peak(stopwatch, torch.float32, torch.device("cpu"), size=FULL.peak_size)
    flops = 6 * BATCH_SIZE * WINDOW * units * vocabulary_size
    rate = peak.gflops_per_second
    print(f"three products at {rate:.0f} GFLOP/s take {flops / rate / 1e6:.0f} ms")
    print("| what | median ms | least ms | words/s | torch / this | processor ms | torch / this |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, found in times.items():
        theirs = f"{name.split(':')[0]}: torch"
        median, spent = statistics.median(found), statistics.median(processor[name])
        print(
            f"| {name} | {median * 1e3:.1f} | {min(found) * 1e3:.1f} |"
            f" {BATCH_SIZE * WINDOW / median:.0f} |"
            f" {statistics.median(times[theirs]) / median:.2f} |"
            f" {spent * 1e3:.1f} | {statistics.median(processor[theirs]) / spent:.2f} |"
        )
    print("kernels:", trainers["float32"].plan.record())


def compare_losses(args: argparse.Namespace) -> None:
    plain, trainers = steps_of(args, 0.0)
    worst = dict.fromkeys(trainers, 0.0)
    for _ in range(args.losses):
        want = plain()
        got = {name: trainer.step().nats_per_token for name, trainer in trainers.items()}
        worst = {name: max(worst[name], abs(loss - want)) for name, loss in got.items()}
    print(f"after {args.losses} updates: torch {want:.6f}", got, "greatest differences:", worst)


def measure_memory(args: argparse.Namespace) -> None:
    """Print the peak of each side in a process of its own, which draws ids by Zipf's law."""
    found = {side: peak_bytes_of(side, args.sizes, 4, "float32") for side in SIDES}
    for side, peak in found.items():
        assert peak.peak_bytes is not None, peak.measured_by
        assert peak.before_bytes is not None
        print(
            f"{side}: {peak.peak_bytes / 2**20:.0f} MiB, of which "
            f"{(peak.peak_bytes - peak.before_bytes) / 2**20:.0f} MiB are not Python and torch"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--vocabulary", type=int, default=33_278)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--losses", type=int, default=0)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.sizes = ModelSizes(2, args.units, args.vocabulary)
    args.source = stream_of(args.folder, args.vocabulary)
    print(
        f"torch {torch.__version__}, {args.threads} threads, native level {native_level()!r}, "
        f"2 x {args.units} units, {args.vocabulary:,} words"
    )
    if args.losses:
        compare_losses(args)
    elif args.memory:
        measure_memory(args)
    else:
        compare_speed(args)


if __name__ == "__main__":
    main()
