"""Rows of the word language model: a whole training step beside the same step in plain torch."""

import math
from collections.abc import Callable

from elman.kernels.dispatch import Precision
from elman.recipes.benchmark.kernel_use import kernel_use
from elman.recipes.benchmark.memory import SIDES, peak_bytes_of
from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import Family, ModelSizes
from elman.recipes.benchmark.timing import Contender, StopAskedError
from elman.recipes.benchmark.torch_recurrences import without_onednn
from elman.recipes.benchmark.word_training import (
    BATCH_SIZE,
    DROPOUT,
    WINDOW,
    elman_training,
    torch_training,
)
from elman.recipes.benchmark.workbench import PlannedRow, Workbench

LOSS_RATE = 1.0
"""The rate at which losses are compared. At 20 training is chaotic: torch with oneDNN and torch
without it, from the same weights, are 1e-4 apart after 20 to 30 updates and 0.2 after 80."""

LOSS_TOLERANCE = 1e-4
"""Largest difference of a training loss, in nats per token, at any of the updates compared."""

BFLOAT16_LOSS_TOLERANCE = 0.02
"""The same where the recurrent products are made in bfloat16."""


def loss_difference(
    sizes: ModelSizes,
    num_steps: int,
    *,
    precision: Precision = "float32",
    should_stop: Callable[[], bool] = bool,
) -> float:
    """Return the largest difference of the two losses, in nats per token, over `num_steps` updates.

    Both sides begin with the same weights, read the same windows, and drop nothing out; the rate is
    LOSS_RATE.
    """
    trainer = elman_training(sizes, dropout=0.0, precision=precision, rate=LOSS_RATE)
    other = torch_training(trainer, dropout=0.0)
    largest = 0.0
    for _ in range(num_steps):
        if should_stop():
            raise StopAskedError
        apart = abs(trainer.step().nats_per_token - other.step())
        largest = max(largest, apart) if math.isfinite(apart) else math.inf
    return largest


def word_row(
    bench: Workbench, family: Family, sizes: ModelSizes, *, precision: Precision = "float32"
) -> BenchRow:
    """Measure losses, then time, then peak memory of both sides, each apart from the others."""
    programme, stopwatch = bench.programme, bench.stopwatch
    bench.tell(f"losses of {programme.loss_steps} updates on both sides")
    difference = loss_difference(
        sizes, programme.loss_steps, precision=precision, should_stop=stopwatch.should_stop
    )
    bench.tell("time of an update")
    trainer = elman_training(sizes, dropout=DROPOUT, precision=precision)
    other = torch_training(trainer, dropout=DROPOUT)
    comparison = stopwatch.compare(
        Contender(trainer.step),
        {"oneDNN": Contender(other.step), "no oneDNN": Contender(other.step, without_onednn)},
    )
    if trainer.nonfinite_steps:  # a step that changes no weight is no training step
        difference = math.inf
    bench.tell("peak memory, each side in a process of its own")
    ours, theirs = (
        peak_bytes_of(
            side, sizes, programme.memory_steps, precision, should_stop=stopwatch.should_stop
        )
        for side in SIDES
    )
    tokens = BATCH_SIZE * WINDOW
    return BenchRow(
        family=family,
        subject=sizes.label,
        mode="training",
        sizes={"L": sizes.num_layers, "H": sizes.hidden_size, "V": sizes.vocabulary_size},
        comparison=comparison,
        kernel=kernel_use(trainer.plan.record(), trainer.model.stack.cell(0).key),
        difference=difference,
        tolerance=LOSS_TOLERANCE if precision == "float32" else BFLOAT16_LOSS_TOLERANCE,
        figures={
            "tokens_per_second": tokens / comparison.ours.median_seconds,
            "torch_tokens_per_second": tokens / comparison.theirs.median_seconds,
            "updates_compared": programme.loss_steps,
            "peak_bytes": ours.peak_bytes,
            "torch_peak_bytes": theirs.peak_bytes,
            "bytes_before_model": ours.before_bytes,
            "share_of_torch_memory": _share(ours.peak_bytes, theirs.peak_bytes),
            "memory_measured_by": ours.measured_by,
            "all_kernels": "; ".join(f"{k}: {v}" for k, v in trainer.plan.record().items()),
        },
    )


def planned_bfloat16_word(bench: Workbench) -> list[PlannedRow]:
    """Return a row for each size of model, with the recurrent products in bfloat16."""

    def measured(sizes: ModelSizes) -> Callable[[], BenchRow]:
        return lambda: word_row(bench, "bfloat16", sizes, precision="bfloat16")

    return [
        PlannedRow("bfloat16", f"word model {sizes.label} in bfloat16", measured(sizes))
        for sizes in bench.programme.bfloat16_word
    ]


def planned_word(bench: Workbench) -> list[PlannedRow]:
    """Return a row for each size of model, in float32."""

    def measured(sizes: ModelSizes) -> Callable[[], BenchRow]:
        return lambda: word_row(bench, "word", sizes)

    return [
        PlannedRow("word", f"word model {sizes.label}", measured(sizes))
        for sizes in bench.programme.word
    ]


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part and whole else None
