"""Rows of generation: one stream, token by token, beside the best of three loops in torch."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import torch

from elman.config.model_settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.decoding.packing import pack_for_generation
from elman.decoding.rounding import RoundedLanguageModel
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import NativeGenerator, WeightPrecision
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.benchmark.kernel_use import KernelUse, kernel_use
from elman.recipes.benchmark.machine import read_bandwidth
from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import SEED, ModelSizes
from elman.recipes.benchmark.timing import Contender, StopAskedError
from elman.recipes.benchmark.torch_generation import nats_below_best, torch_loops, torch_tokens
from elman.recipes.benchmark.torch_recurrences import without_onednn
from elman.recipes.benchmark.workbench import PlannedRow, Workbench
from elman.seeding import generator

NATS_TOLERANCES: Mapping[WeightPrecision, float] = MappingProxyType(
    {"float32": 1e-4, "bfloat16": 0.02, "int8": 0.02}
)
"""Precision of the weights → how many nats less likely than torch's own choice, in float32, a
greedy token may be. Each precision makes a row of every model."""

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


@dataclass(frozen=True)
class GenerationSide:
    """Elman's side of a row: a model in one precision of its weights, packed where that can be."""

    model: RecurrentLanguageModel
    packed: NativeGenerator | None
    how: str
    plan: KernelPlan

    @classmethod
    def of(cls, model: RecurrentLanguageModel, precision: WeightPrecision) -> Self:
        """Return `model` in `precision`; where nothing is packed, for the readable loop."""
        plan = KernelPlan()
        packed, how = pack_for_generation(model, plan, precision)
        if precision != "float32":
            model = RoundedLanguageModel(model, precision, packed)
        return cls(model, packed, how, plan)

    def begun(self, *, temperature: float = 1.0) -> Generation:
        """Return a generation that has read its first id."""
        sampling = SamplingSettings(temperature=temperature, seed=SEED)
        made = Generation(self.model, sampling, plan=self.plan, packed=self.packed)
        made.feed([FIRST_ID])
        return made

    @property
    def weight_bytes(self) -> int:
        """The bytes of weights that one token reads: the cells, the output, one vector.

        What is packed knows them; the readable loop reads float32.
        """
        if self.packed is not None:
            return self.packed.weight_bytes
        assert self.model.embedding is not None
        skipped = self.model.embedding.weight
        read = sum(weight.numel() for weight in self.model.parameters() if weight is not skipped)
        return 4 * (read + skipped.shape[1])

    @property
    def kernel(self) -> KernelUse:
        """How tokens are made."""
        return kernel_use({"choice": self.plan.choice, "generation": self.how}, "generation")


@dataclass(frozen=True)
class FarPosition:
    """The time of a token at `position` over that at the beginning, both measured in turns."""

    position: int
    time_ratio: float


def far_position(bench: Workbench, side: GenerationSide) -> FarPosition:
    """Carry a state on as far as the time allows, then time tokens there and at the beginning."""
    programme, stopwatch = bench.programme, bench.stopwatch
    near, far = side.begun(), side.begun()
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


def generation_row(bench: Workbench, sizes: ModelSizes, precision: WeightPrecision) -> BenchRow:
    """Measure tokens per second of one stream, drawn from the whole distribution."""
    programme = bench.programme
    model = generation_model(sizes)
    side = GenerationSide.of(model, precision)
    module, cells = torch_loops(model)
    greedy = _ids(side.begun(temperature=0.0), programme.checked_tokens)
    difference = nats_below_best(module, FIRST_ID, greedy)
    ours, count = side.begun(), programme.tokens_per_call
    few = programme.torch_tokens_per_call
    by_module, by_cells = torch_tokens(module, few), torch_tokens(cells, few)
    bench.tell("tokens per second")
    comparison = bench.stopwatch.compare(
        Contender(lambda: _make(ours, count), pieces=count),
        {
            "nn.LSTM, oneDNN": Contender(by_module, torch.inference_mode, few),
            "nn.LSTM, no oneDNN": Contender(by_module, _inference_without_onednn, few),
            "nn.LSTMCell": Contender(by_cells, torch.inference_mode, few),
        },
    )
    bench.tell("how far the time of a token stays the same")
    far = far_position(bench, side)
    num_bytes = side.weight_bytes
    bandwidth = read_bandwidth(bench.stopwatch, num_bytes)
    rate = 1.0 / comparison.ours.median_seconds
    return BenchRow(
        family="generation",
        subject=sizes.label,
        mode="generation",
        sizes={"L": sizes.num_layers, "H": sizes.hidden_size, "V": sizes.vocabulary_size},
        comparison=comparison,
        kernel=side.kernel,
        difference=difference,
        tolerance=NATS_TOLERANCES[precision],
        figures={
            "precision": precision,
            "tokens_per_second": rate,
            "torch_tokens_per_second": 1.0 / comparison.theirs.median_seconds,
            "weight_bytes": num_bytes,
            "read_bytes_per_second": bandwidth,
            "share_of_bandwidth": rate * num_bytes / bandwidth,
            "far_position": far.position,
            "far_time_ratio": far.time_ratio,
            "greedy_tokens_compared": len(greedy),
        },
    )


def planned_generation(bench: Workbench) -> list[PlannedRow]:
    """Return a row for each size of model and each precision of its weights."""

    def measured(sizes: ModelSizes, precision: WeightPrecision) -> Callable[[], BenchRow]:
        return lambda: generation_row(bench, sizes, precision)

    return [
        PlannedRow("generation", f"generation {sizes.label} {name}", measured(sizes, name))
        for sizes in bench.programme.generation
        for name in NATS_TOLERANCES
    ]


def _make(generation: Generation, num_tokens: int) -> None:
    """Write tokens as a person's program would: told of each as it comes."""
    generation.run(num_tokens, lambda token: False)


def _ids(generation: Generation, num_tokens: int) -> list[int]:
    ids: list[int] = []

    def keep(token: int) -> bool:
        ids.append(token)
        return False

    generation.run(num_tokens, keep)
    return ids


@contextmanager
def _inference_without_onednn() -> Iterator[None]:
    with torch.inference_mode(), without_onednn():
        yield
