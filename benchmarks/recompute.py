"""Memory and time of a training step against the window, with and without `training.recompute`.

    python benchmarks/recompute.py [--kind lstm] [--batch 16] [--hidden 256] [--layers 2]

Each row is a process of its own that makes three steps of a language model of 65 symbols on ids at
random, in float32, with dropout. Memory is the highest resident size of the process, less what it
was just before the first step, so that the interpreter, torch, weights and data do not count; it
includes the gradients of the weights. Time is the lesser of the last two steps.
"""

import argparse
import math
import resource
import subprocess
import sys
import time

WINDOWS = (500, 1000, 2000, 4000)
SYMBOLS = 65
MIB_OF_KIB = 1 / 1024


def main() -> None:
    """Measure every row in a process of its own and print the table."""
    arguments = _arguments()
    if arguments.window:
        mib, seconds = _measure(arguments)
        print(f"{mib:.1f} {seconds:.4f}")
        return
    print(f"{arguments.kind}, {arguments.layers} x {arguments.hidden} units, ", end="")
    print(f"batch {arguments.batch}, {arguments.threads} threads")
    print("| window T | block K | memory, MiB | of K = 0 | step, s | of K = 0 |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for window in WINDOWS:
        whole: tuple[float, float] | None = None
        for block in (0, 50, math.isqrt(window)):
            given = [sys.executable, __file__, *sys.argv[1:]]
            given += ["--window", str(window), "--block", str(block)]
            answer = subprocess.run(given, capture_output=True, text=True, check=True).stdout
            mib, seconds = map(float, answer.split())
            whole = whole or (mib, seconds)
            print(
                f"| {window} | {block} | {mib:.0f} | {mib / whole[0]:.2f} "
                f"| {seconds:.2f} | {seconds / whole[1]:.2f} |",
                flush=True,
            )


def _measure(arguments: argparse.Namespace) -> tuple[float, float]:
    """Return the MiB that steps add to the process, and the seconds of one."""
    import torch

    from elman.config.model_settings import ModelSettings
    from elman.kernels.dispatch import KernelPlan
    from elman.losses import token_loss
    from elman.models.recurrent import RecurrentLanguageModel

    torch.set_num_threads(arguments.threads)
    settings = ModelSettings(
        kind=arguments.kind,
        hidden_size=arguments.hidden,
        num_layers=arguments.layers,
        dropout=0.2,
    )
    generator = torch.Generator().manual_seed(1)
    model = RecurrentLanguageModel(settings, SYMBOLS, generator)
    shape = (arguments.batch, arguments.window + 1)
    ids_BT = torch.randint(0, SYMBOLS, shape, generator=generator)
    plan = KernelPlan(arguments.kernels)

    def step(window: int, block: int) -> float:
        started = time.perf_counter()
        inputs_BT, targets_BT = ids_BT[:, :window], ids_BT[:, 1 : window + 1]
        output = model(inputs_BT, plan=plan, generator=generator, recompute=block)
        loss = token_loss(output.states_BTH, output.readout, targets_BT)
        torch.autograd.backward(loss.mean())
        model.zero_grad(set_to_none=True)
        return time.perf_counter() - started

    step(2, 0)  # the libraries load what they need
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = [step(arguments.window, arguments.block) for _ in range(3)]
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (after - before) * MIB_OF_KIB, min(times[1:])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="lstm")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kernels", default="auto")
    parser.add_argument("--window", type=int, default=0, help="measure one row in this process")
    parser.add_argument("--block", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
