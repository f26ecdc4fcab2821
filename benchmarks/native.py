"""Time the native recurrences beside torch's, in one process, taking turns, as ratios of medians.

PYTHONPATH=src python benchmarks/native.py [--threads 2] [--repeats 9] [--cells lstm]
    [--passes forward train] [--shapes 35,20,200] [--padded]

The share of the peak is of oneDNN's product of 2048 × 2048 matrices, measured before and after each
row: within it, the product would empty the caches.
`--padded` times the native kernels alone: rows of which half are padding beside full rows.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from elman.kernels.native_module import native_level
from elman.kernels.native_recurrence import NativeKernel

SHAPES = (
    "35,20,200",
    "35,20,650",
    "70,80,400",
    "64,32,128",
    "16,256,128",
    "128,32,512",
    "12,64,64",
    "35,20,1500",
)
"""T,B,H; the input is as wide as H."""
MODULES: dict[str, Callable[[int], nn.RNNBase]] = {
    "gru/after/keep": lambda size: nn.GRU(size, size, batch_first=True),
    "elman/tanh": lambda size: nn.RNN(size, size, batch_first=True),
    "elman/relu": lambda size: nn.RNN(size, size, nonlinearity="relu", batch_first=True),
    "lstm": lambda size: nn.LSTM(size, size, batch_first=True),
}
GATES = {"gru": 3, "elman": 1, "lstm": 4}
PEAK_SIZE = 2048

Call = Callable[[], object]


def timed(calls: list[Call], repeats: int) -> list[list[float]]:
    """Return each call's seconds, sorted, all of them taking turns."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls * 2:
        call()
    for _ in range(repeats):
        for call, found in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    return [sorted(found) for found in times]


def run_of(call: Callable[[Tensor], tuple[Tensor, object]], x_BTE: Tensor, weights: list[Tensor]):
    """Return forward with gradients if x_BTE wants one, else without."""
    train = x_BTE.requires_grad
    grad_BTH = torch.randn(*x_BTE.shape[:2], weights[1].shape[1])

    def run() -> None:
        if train:
            torch.autograd.grad(call(x_BTE)[0], [x_BTE, *weights], grad_BTH)
        else:
            with torch.no_grad():
                call(x_BTE)

    return run


def peak_call() -> Call:
    left, right = torch.randn(PEAK_SIZE, PEAK_SIZE), torch.randn(PEAK_SIZE, PEAK_SIZE)

    def product() -> None:
        torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")

    return product


def row(key: str, shape: str, train: bool, repeats: int, padded: bool) -> float:
    """Time and print one row; return the ratio of the medians."""
    num_steps, batch_size, size = map(int, shape.split(","))
    module = MODULES[key](size)
    weights = list(module._flat_weights)
    x_BTE = torch.randn(batch_size, num_steps, size, requires_grad=train)
    state = tuple(torch.zeros(batch_size, size) for _ in range(2 if key == "lstm" else 1))
    kernel = NativeKernel(key, native_level())
    full = run_of(lambda x_BTE: kernel(x_BTE, state, tuple(weights)), x_BTE, weights)
    if padded:
        generator = torch.Generator().manual_seed(1)
        lengths_B = torch.randint(1, num_steps + 1, (batch_size,), generator=generator)
        lengths_B[0] = num_steps
        excess = int(lengths_B.sum()) - num_steps * batch_size // 2
        while excess:  # one step of one row at a time, until half of the positions are padding
            place = int(torch.randint(1, batch_size, (1,), generator=generator))
            moved = int(lengths_B[place]) - (1 if excess > 0 else -1)
            if 1 <= moved <= num_steps:
                lengths_B[place] = moved
                excess -= 1 if excess > 0 else -1
        other = run_of(lambda x: kernel(x, state, tuple(weights), lengths_B), x_BTE, weights)
    else:
        other = run_of(module, x_BTE, weights)
    peak = timed([peak_call()], 3)[0]
    theirs, ours = timed([other, full], repeats)
    peak += timed([peak_call()], 3)[0]
    median = statistics.median
    flops = 4 * GATES[key.split("/")[0]] * num_steps * batch_size * size**2 * (3 if train else 1)
    rate, top = flops / median(ours), 2 * PEAK_SIZE**3 / min(peak)
    ratio = median(theirs) / median(ours)
    print(
        f"| {key} | {shape} | {'train' if train else 'forward'} | {median(theirs) * 1e3:.2f} |"
        f" {median(ours) * 1e3:.2f} | {rate / 1e9:.0f} | {rate / top:.0%} | {ratio:.2f} |"
        f" {theirs[0] / ours[0]:.2f} |",
        flush=True,
    )
    return ratio


def main() -> None:
    """Print a row for each cell and shape, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--cells", nargs="+", choices=list(MODULES), default=list(MODULES))
    parser.add_argument("--passes", nargs="+", default=["forward", "train"])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES))
    parser.add_argument("--padded", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, native level {native_level()}")
    print("The last column is of the least times, which other work on the machine disturbs least.")
    left, right = ("half padding", "full") if args.padded else ("torch", "elman")
    print(f"| cell | T,B,H | pass | {left} ms | {right} ms | GFLOP/s | of peak | ratio | of best |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in args.passes:
        for key in args.cells:
            ratios = [
                row(key, shape, name == "train", args.repeats, args.padded) for shape in args.shapes
            ]
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            print(f"| {key} | geometric mean | {name} | | | | | {mean:.2f} | |", flush=True)


if __name__ == "__main__":
    main()
