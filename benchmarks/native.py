"""Time the native recurrences beside torch's, in one process, interleaved, as ratios of medians.

PYTHONPATH=src python benchmarks/native.py [--threads 2] [--repeats 15] [--cells gru/after/keep]
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from elman.kernels.native_recurrence import NATIVE_KERNELS, native_level

SHAPES = ((35, 20, 200), (70, 80, 400), (64, 32, 128), (128, 32, 512), (12, 64, 64))
"""(T, B, H); the input is as wide as H."""
CELLS: dict[str, Callable[[int], nn.RNNBase]] = {
    "gru/after/keep": lambda size: nn.GRU(size, size, batch_first=True),
    "elman/tanh": lambda size: nn.RNN(size, size, batch_first=True),
    "elman/relu": lambda size: nn.RNN(size, size, nonlinearity="relu", batch_first=True),
}


def timed(calls: list[Callable[[], None]], repeats: int) -> tuple[list[float], list[float]]:
    """Return each call's median seconds and its least, all of them taking turns."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls * 2:
        call()
    for _ in range(repeats):
        for call, found in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times], [min(found) for found in times]


def calls_for(key: str, shape: tuple[int, int, int], train: bool) -> list[Callable[[], None]]:
    """Return one call of torch's module and one of the native kernel, on the same weights."""
    num_steps, batch_size, size = shape
    module = CELLS[key](size)
    weights = tuple(module._flat_weights)
    x_BTE = torch.randn(batch_size, num_steps, size, requires_grad=train)
    grad_BTH = torch.randn(batch_size, num_steps, size)
    first_BH = torch.zeros(batch_size, size)
    kernel = NATIVE_KERNELS[key]
    leaves = [x_BTE, *weights]

    def of_torch() -> None:
        if train:
            torch.autograd.grad(module(x_BTE)[0], leaves, grad_BTH)
        else:
            with torch.no_grad():
                module(x_BTE)

    def of_elman() -> None:
        if train:
            torch.autograd.grad(kernel(x_BTE, (first_BH,), weights)[0], leaves, grad_BTH)
        else:
            with torch.no_grad():
                kernel(x_BTE, (first_BH,), weights)

    return [of_torch, of_elman]


def main() -> None:
    """Print a row for each cell and shape, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, native level {native_level()}")
    print("The last column is of the least times, which other work on the machine disturbs least.")
    print("| cell | T,B,H | pass | torch ms | elman ms | GFLOP/s | ratio | of the best |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for train in (False, True):
        for key in args.cells:
            ratios, best_ratios = [], []
            for shape in SHAPES:
                (theirs, ours), best = timed(calls_for(key, shape, train), args.repeats)
                ratios.append(theirs / ours)
                best_ratios.append(best[0] / best[1])
                num_gates = 3 if key.startswith("gru") else 1
                flops = 4 * num_gates * shape[0] * shape[1] * shape[2] ** 2 * (3 if train else 1)
                print(
                    f"| {key} | {','.join(map(str, shape))} | {'train' if train else 'forward'} |"
                    f" {theirs * 1e3:.2f} | {ours * 1e3:.2f} | {flops / ours / 1e9:.0f} |"
                    f" {ratios[-1]:.2f} | {best_ratios[-1]:.2f} |",
                    flush=True,
                )
            means = [math.exp(statistics.fmean(map(math.log, r))) for r in (ratios, best_ratios)]
            print(
                f"| {key} | geometric mean | {'train' if train else 'forward'} | | | |"
                f" {means[0]:.2f} | {means[1]:.2f} |"
            )


if __name__ == "__main__":
    main()
