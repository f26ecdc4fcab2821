"""Rows of ragged batches: half of all positions are padding; how much of the time goes with it?"""

from collections.abc import Callable

import torch
from torch import Tensor

from elman.kernels.dispatch import KernelPlan
from elman.recipes.benchmark.kernel_use import kernel_use
from elman.recipes.benchmark.recurrences import Problem, operations
from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import RAGGED_KEYS, SEED, Mode, Shape
from elman.recipes.benchmark.torch_recurrences import TorchRecurrence, contender
from elman.recipes.benchmark.workbench import PlannedRow, Workbench
from elman.seeding import generator


def uniform_lengths(shape: Shape) -> Tensor:
    """Return lengths_B spread evenly over 1 … T, their sum B · T / 2 but for rounding, shuffled."""
    places_B = (torch.arange(shape.batch_size) + 0.5) / shape.batch_size
    lengths_B = (places_B * shape.num_steps).round().long().clamp(1, shape.num_steps)
    return lengths_B[torch.randperm(shape.batch_size, generator=generator(SEED, "order"))]


def ragged_row(bench: Workbench, key: str, shape: Shape, mode: Mode) -> BenchRow:
    """Measure Elman with lengths beside Elman fully padded, and beside torch's packed sequences.

    Packing and unpacking are part of torch's time, as reading the lengths is of Elman's.
    """
    problem = Problem.drawn(key, shape, torch.device("cpu"))
    lengths_B = uniform_lengths(shape)
    plan = KernelPlan()
    packed = TorchRecurrence(problem.cell, problem.x_BTE, problem.gradient_BTH, lengths_B=lengths_B)
    difference, tolerance = problem.difference(mode, plan, packed, lengths_B)
    comparison = bench.stopwatch.compare(
        problem.contender(mode, plan, lengths_B),
        {
            "packed, oneDNN": contender(packed, mode, onednn=True),
            "packed, no oneDNN": contender(packed, mode, onednn=False),
        },
        beside={"padded": problem.contender(mode, KernelPlan())},
    )
    padded_seconds = comparison.beside["padded"].median_seconds
    valid = int(lengths_B.sum())
    done = operations(key, shape, mode, num_steps=valid)
    return BenchRow(
        family="ragged",
        subject=key,
        mode=mode,
        sizes={"T": shape.num_steps, "B": shape.batch_size, "H": shape.hidden_size},
        comparison=comparison,
        kernel=kernel_use(plan.record(), key),
        difference=difference,
        tolerance=tolerance,
        figures={
            "valid_share": valid / (shape.num_steps * shape.batch_size),
            "padded_seconds": padded_seconds,
            "share_of_padded": comparison.ours.median_seconds / padded_seconds,
            "gflops_per_second": done / comparison.ours.median_seconds / 1e9,
        },
    )


def planned_ragged(bench: Workbench) -> list[PlannedRow]:
    """Return the rows of each cell, forward and training, every ragged shape."""

    def measured(key: str, shape: Shape, mode: Mode) -> Callable[[], BenchRow]:
        return lambda: ragged_row(bench, key, shape, mode)

    modes: tuple[Mode, Mode] = ("forward", "training")
    return [
        PlannedRow("ragged", f"{key} {mode} ragged {shape.label}", measured(key, shape, mode))
        for key in RAGGED_KEYS
        for mode in modes
        for shape in bench.programme.ragged
    ]
