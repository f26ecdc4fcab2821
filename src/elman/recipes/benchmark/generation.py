"""Rows of generation: one stream, token by token, beside the best of three loops in torch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from elman.config.settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.benchmark.kernel_use import kernel_use
from elman.recipes.benchmark.machine import read_bandwidth
from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import SEED, ModelSizes
from elman.recipes.benchmark.timing import Contender, StopAskedError
from elman.recipes.benchmark.torch_generation import nats_below_best, torch_loops, torch_tokens
from elman.recipes.benchmark.torch_recurrences import without_onednn
from elman.recipes.benchmark.workbench import PlannedRow, Workbench
from elman.seeding import generator

Variant = Literal["float32"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
"""Number formats of the weights that generation is measured in; each makes a row of every model."""

NATS_TOLERANCE = 1e-3
"""A greedy token may be this much less likely than torch's own choice: a draw between equals."""

NEAR_POSITION = 10
FIRST_ID = 0


def generation_model(sizes: ModelSizes) -> RecurrentLanguageModel:
    """Return a new model of `sizes`, the same at every call."""
    settings = ModelSettings(
        kind="lstm",
        embedding_size=sizes.hidden_size,
        hidden_size=sizes.hidden_size,
        num_layers=sizes.num_layers,
    )
    drawn = generator(SEED, "initialisation")
    return RecurrentLanguageModel(settings, sizes.vocabulary_size, drawn)


def begun(
    model: RecurrentLanguageModel, variant: Variant, plan: KernelPlan, *, temperature: float = 1.0
) -> Generation:
    """Return a generation in the number format `variant` that has read its first id."""
    assert variant == "float32"
    made = Generation(model, SamplingSettings(temperature=temperature, seed=SEED), plan=plan)
    made.feed([FIRST_ID])
    return made


def weight_bytes(model: RecurrentLanguageModel) -> int:
    """Return the bytes that one token must read: all of the cells and of the output, one vector."""
    assert model.embedding is not None
    skipped = model.embedding.weight
    read = sum(weight.numel() for weight in model.parameters() if weight is not skipped)
    return 4 * (read + skipped.shape[1])


@dataclass(frozen=True)
class FarPosition:
    """The time of a token at `position` over that at the beginning, both measured in turns."""

    position: int
    time_ratio: float


def far_position(
    bench: Workbench, model: RecurrentLanguageModel, variant: Variant, plan: KernelPlan
) -> FarPosition:
    """Carry a state on as far as the time allows, then time tokens there and at the beginning."""
    programme, stopwatch = bench.programme, bench.stopwatch
    near, far = begun(model, variant, plan), begun(model, variant, plan)
    _make(near, NEAR_POSITION)
    started = stopwatch.clock()
    while (
        far.num_generated < programme.far_position
        and stopwatch.clock() - started < programme.carry_seconds
    ):
        if stopwatch.should_stop():
            raise StopAskedError
        _make(far, programme.tokens_per_call)
    position, near_state, far_state = far.num_generated, near.state(), far.state()

    def again(generation: Generation) -> Callable[[], object]:
        state = near_state if generation is near else far_state

        def make() -> None:
            generation.restore(state)
            _make(generation, programme.tokens_per_call)

        return make

    timings = stopwatch.interleaved({"near": Contender(again(near)), "far": Contender(again(far))})
    ratio = timings["far"].median_seconds / timings["near"].median_seconds
    return FarPosition(position, ratio)


def generation_row(bench: Workbench, sizes: ModelSizes, variant: Variant) -> BenchRow:
    """Measure tokens per second of one stream, drawn from the whole distribution."""
    programme = bench.programme
    model, plan = generation_model(sizes), KernelPlan()
    module, cells = torch_loops(model)
    greedy = list(begun(model, variant, plan, temperature=0.0).tokens(programme.checked_tokens))
    difference = nats_below_best(module, FIRST_ID, greedy)
    ours, count = begun(model, variant, plan), programme.tokens_per_call
    by_module, by_cells = torch_tokens(module, count), torch_tokens(cells, count)
    bench.tell("tokens per second")
    comparison = bench.stopwatch.compare(
        Contender(lambda: _make(ours, count)),
        {
            "nn.LSTM, oneDNN": Contender(by_module, torch.inference_mode),
            "nn.LSTM, no oneDNN": Contender(by_module, _inference_without_onednn),
            "nn.LSTMCell": Contender(by_cells, torch.inference_mode),
        },
    )
    bench.tell("how far the time of a token stays the same")
    far = far_position(bench, model, variant, plan)
    num_bytes = weight_bytes(model)
    bandwidth = read_bandwidth(bench.stopwatch, num_bytes)
    rate = count / comparison.ours.median_seconds
    return BenchRow(
        family="generation",
        subject=sizes.label,
        mode="generation",
        sizes={"L": sizes.num_layers, "H": sizes.hidden_size, "V": sizes.vocabulary_size},
        comparison=comparison,
        kernel=kernel_use(plan.record(), "generation", model.stack.cell(0).key),
        difference=difference,
        tolerance=NATS_TOLERANCE,
        figures={
            "variant": variant,
            "tokens_per_second": rate,
            "torch_tokens_per_second": count / comparison.theirs.median_seconds,
            "weight_bytes": num_bytes,
            "read_bytes_per_second": bandwidth,
            "share_of_bandwidth": rate * num_bytes / bandwidth,
            "far_position": far.position,
            "far_time_ratio": far.time_ratio,
            "greedy_tokens_compared": len(greedy),
        },
    )


def planned_generation(bench: Workbench) -> list[PlannedRow]:
    """Return a row for each size of model and each variant."""

    def measured(sizes: ModelSizes, variant: Variant) -> Callable[[], BenchRow]:
        return lambda: generation_row(bench, sizes, variant)

    return [
        PlannedRow("generation", f"generation {sizes.label} {variant}", measured(sizes, variant))
        for sizes in bench.programme.generation
        for variant in VARIANTS
    ]


def _make(generation: Generation, num_tokens: int) -> None:
    for _ in generation.tokens(num_tokens):
        pass


@contextmanager
def _inference_without_onednn() -> Iterator[None]:
    with torch.inference_mode(), without_onednn():
        yield
