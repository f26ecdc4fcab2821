"""Rows of the word language model: a whole training step beside the same step in plain torch."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource, TokenBatch
from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan, Precision
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.benchmark.kernel_use import kernel_use
from elman.recipes.benchmark.memory import SIDES, peak_bytes_of
from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import SEED, Family, ModelSizes
from elman.recipes.benchmark.timing import Contender, StopAskedError
from elman.recipes.benchmark.torch_recurrences import without_onednn
from elman.recipes.benchmark.torch_word_model import TorchWordModel, TorchWordTraining
from elman.recipes.benchmark.workbench import PlannedRow, Workbench
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

WordTrainer = Trainer[RecurrentLanguageModel, TokenBatch]

BATCH_SIZE, WINDOW, WINDOWS_IN_TEXT = 20, 35, 200
RATE, CLIP_NORM, DROPOUT = 20.0, 0.25, 0.2
DEVIATION = 0.0577
"""As even draws from −0.1 to 0.1, which the examples use."""

LOSS_RATE = 1.0
"""The rate at which losses are compared. At 20 training is chaotic: torch with oneDNN and torch
without it, from the same weights, are 1e-4 apart after 20 to 30 updates and 0.2 after 80."""

LOSS_TOLERANCE = 1e-4
"""Largest difference of a training loss, in nats per token, at any of the updates compared."""

BFLOAT16_LOSS_TOLERANCE = 0.02
"""The same where the recurrent products are made in bfloat16."""

ZIPF_SHIFT = 2.7
_NO_END = 10**12


def zipf_ids(vocabulary_size: int) -> npt.NDArray[np.int32]:
    """Return ids of a made-up text whose words are as unevenly frequent as those of a language.

    The frequency of the word of rank r is as 1 / (r + ZIPF_SHIFT). One id more than fills every
    window of every lane.
    """
    weights_V = 1.0 / (np.arange(1, vocabulary_size + 1) + ZIPF_SHIFT)
    cumulative_V = np.cumsum(weights_V)
    uniform_N = np.random.default_rng(SEED).random(BATCH_SIZE * WINDOW * WINDOWS_IN_TEXT + 1)
    ids_N: npt.NDArray[np.int32] = np.searchsorted(
        cumulative_V, uniform_N * cumulative_V[-1]
    ).astype(np.int32)
    return ids_N


def elman_training(
    sizes: ModelSizes,
    *,
    dropout: float,
    precision: Precision = "float32",
    rate: float = RATE,
    source: BatchSource[TokenBatch] | None = None,
) -> WordTrainer:
    """Return Elman's own trainer of the model, ready for its first update.

    Without a `source` it reads `zipf_ids`.
    """
    settings = ModelSettings(
        kind="lstm",
        embedding_size=sizes.hidden_size,
        hidden_size=sizes.hidden_size,
        num_layers=sizes.num_layers,
        embedding_std=DEVIATION,
        dropout=dropout,
        embedding_dropout=dropout,
        forget_bias=0.0,
    )
    training = TrainingSettings(
        batch_size=BATCH_SIZE,
        window=WINDOW,
        optimizer="sgd",
        learning_rate=rate,
        schedule="constant",
        warmup_updates=0,
        clip_norm=CLIP_NORM,
        precision=precision,
    )
    model = RecurrentLanguageModel(
        settings, sizes.vocabulary_size, generator(SEED, "initialisation")
    )
    if source is None:
        ids_N = zipf_ids(sizes.vocabulary_size)
        source = StreamBatches(ids_N, batch_size=BATCH_SIZE, window=WINDOW)
    plan = KernelPlan("auto", precision)
    return Trainer(
        LanguageObjective(model, training), source, training, plan, total_updates=_NO_END
    )


def torch_training(trainer: WordTrainer, *, dropout: float) -> TorchWordTraining:
    """Return torch's training of a model that begins with the weights of `trainer`'s."""
    model, rate = TorchWordModel(trainer.model, dropout), trainer.settings.learning_rate
    return TorchWordTraining(model, trainer.source, rate=rate, clip_norm=CLIP_NORM)


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
