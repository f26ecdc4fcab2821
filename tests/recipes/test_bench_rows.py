"""Rows of every family on tiny shapes: their structure, what they check, what they call a miss."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
import torch
from tiny_bench import ONCE, TINY, HandClock, tiny_bench
from torch import Tensor

from elman.cells.cell import Cell, CellState
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import WeightPrecision
from elman.layers.recurrence import recur
from elman.recipes.benchmark import recurrences, word, word_training
from elman.recipes.benchmark.generation import (
    FIRST_ID,
    GenerationSide,
    far_position,
    generation_model,
    generation_row,
)
from elman.recipes.benchmark.memory import peak_bytes_of
from elman.recipes.benchmark.ragged import ragged_row, uniform_lengths
from elman.recipes.benchmark.recurrences import operations, recurrence_row
from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import RECURRENT_KEYS, Mode, ModelSizes, Shape
from elman.recipes.benchmark.timing import Stopwatch
from elman.recipes.benchmark.torch_generation import nats_below_best, torch_loops
from elman.recipes.benchmark.torch_word_model import TorchWordTraining
from elman.recipes.benchmark.word import loss_difference
from elman.recipes.benchmark.word_training import zipf_ids
from elman.recipes.benchmark.workbench import Workbench
from elman.training.loop import Trainer

CPU = torch.device("cpu")
SMALL = Shape(3, 2, 5)
MODEL = ModelSizes(2, 6, 11)
MODES: tuple[Mode, Mode] = ("forward", "training")


@pytest.fixture(autouse=True)
def _no_forced_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELMAN_KERNELS", raising=False)


def recurrence(key: str, shape: Shape = SMALL, mode: Mode = "forward") -> BenchRow:
    return recurrence_row(tiny_bench(), "recurrences", key, shape, mode, CPU)


def pretend_native(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Tensor], Tensor] = lambda states: states
) -> None:
    """Let recurrences hand on what `change` makes of their states, and call that native."""

    def changed(
        cell: Cell,
        x_BTE: Tensor,
        state: CellState | None,
        lengths_B: Tensor | None,
        *,
        plan: KernelPlan,
    ) -> tuple[Tensor, CellState]:
        states_BTH, last = recur(cell, x_BTE, state, lengths_B, plan=plan)
        return change(states_BTH), last

    record = {"choice": "auto"} | dict.fromkeys(RECURRENT_KEYS, "native: pretended")
    monkeypatch.setattr(recurrences, "recur", changed)
    monkeypatch.setattr(KernelPlan, "record", lambda plan: record)


@pytest.mark.parametrize("key", RECURRENT_KEYS)
@pytest.mark.parametrize("mode", MODES)
def test_a_recurrence_is_compared_in_time_and_in_values(key: str, mode: Mode) -> None:
    row = recurrence(key, mode=mode)
    assert row.agrees
    assert row.ratio == row.comparison.theirs.median_seconds / row.comparison.ours.median_seconds
    assert set(row.comparison.tried) == {
        f"{layout}, {onednn}"
        for layout in ("batch first", "time first")
        for onednn in ("oneDNN", "no oneDNN")
    }
    rate, done = row.figures["gflops_per_second"], operations(key, SMALL, mode)
    assert rate == pytest.approx(done / row.comparison.ours.median_seconds / 1e9)
    assert row.sizes == {"T": 3, "B": 2, "H": 5}
    json.dumps(row.to_json(), allow_nan=False)


def test_operations_are_those_of_the_products() -> None:
    # T·B = 6; each step and row multiplies [3·5, 5] by x and by h: 2 · 15 · 10 operations.
    assert operations("gru/after/keep", SMALL, "forward") == 6 * 2 * 15 * 10
    assert operations("gru/after/keep", SMALL, "training") == 3 * 6 * 2 * 15 * 10


def test_the_readable_loop_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMAN_KERNELS", "reference")
    row = recurrence("lstm")
    assert row.agrees
    assert row.kernel.standing == "miss"
    assert row.kernel.told == "reference: asked for"
    assert row.counted_ratio is None


def test_torch_that_was_asked_for_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMAN_KERNELS", "torch")
    assert recurrence("lstm").counted_ratio is None


def test_a_native_kernel_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_native(monkeypatch)
    row = recurrence("gru/after/keep", mode="training")
    assert row.kernel.standing == "native"
    assert row.counted_ratio == row.ratio is not None


@pytest.mark.parametrize("key", RECURRENT_KEYS)
@pytest.mark.parametrize("mode", MODES)
def test_a_wrong_kernel_is_caught_however_fast(
    monkeypatch: pytest.MonkeyPatch, key: str, mode: Mode
) -> None:
    pretend_native(monkeypatch, lambda states_BTH: states_BTH * 1.02)
    row = recurrence(key, mode=mode)
    assert not row.agrees
    assert row.ratio is None
    assert row.counted_ratio is None


@pytest.mark.parametrize("key", RECURRENT_KEYS)
def test_a_wrong_gradient_is_caught_where_values_are_right(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    # The values as they are, and nine tenths of the gradient.
    pretend_native(monkeypatch, lambda states_BTH: states_BTH * 0.9 + states_BTH.data * 0.1)
    assert recurrence(key, mode="forward").agrees
    assert not recurrence(key, mode="training").agrees


def test_rows_in_bfloat16_are_compared_with_float32_values() -> None:
    row = recurrence_row(
        tiny_bench(), "bfloat16", "lstm", SMALL, "training", CPU, precision="bfloat16"
    )
    assert row.agrees
    assert row.difference > 1e-6  # the products were made in bfloat16
    assert "bfloat16, batch first" in row.comparison.tried
    assert "float32, time first, oneDNN" in row.comparison.tried


def test_half_of_the_positions_of_a_ragged_batch_are_padding() -> None:
    for shape in (Shape(400, 32, 256), Shape(64, 20, 8), Shape(6, 4, 5)):
        lengths_B = uniform_lengths(shape)
        share = float(lengths_B.sum()) / (shape.num_steps * shape.batch_size)
        assert share == pytest.approx(0.5, abs=0.5 / shape.num_steps)
        assert lengths_B.min() >= 1
        assert lengths_B.max() <= shape.num_steps


@pytest.mark.parametrize("mode", MODES)
def test_a_ragged_row_is_set_beside_padding_and_beside_packing(mode: Mode) -> None:
    row = ragged_row(tiny_bench(), "lstm", Shape(6, 4, 5), mode)
    assert row.agrees
    padded = row.comparison.beside["padded"].median_seconds
    assert row.figures["share_of_padded"] == row.comparison.ours.median_seconds / padded
    assert set(row.comparison.tried) == {"packed, oneDNN", "packed, no oneDNN"}


def test_a_kernel_that_leaves_something_at_the_padding_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend_native(monkeypatch, lambda states_BTH: states_BTH + 1e-3 * (states_BTH == 0.0))
    assert not ragged_row(tiny_bench(), "lstm", Shape(6, 4, 5), "forward").agrees


def test_losses_of_both_sides_are_the_same_over_many_updates() -> None:
    assert loss_difference(MODEL, 50) < 1e-5


def test_updates_that_are_a_hundredth_too_long_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = word.torch_training

    def too_long(trainer: Trainer, *, dropout: float) -> TorchWordTraining:
        own = trainer.settings
        trainer.settings = replace(own, learning_rate=1.01 * own.learning_rate)
        made = right(trainer, dropout=dropout)
        trainer.settings = own
        return made

    monkeypatch.setattr(word, "torch_training", too_long)
    assert loss_difference(MODEL, 50) > word.LOSS_TOLERANCE


def test_words_of_the_made_up_text_are_unevenly_frequent() -> None:
    ids_N = zipf_ids(50)
    counts_V = torch.bincount(torch.from_numpy(ids_N), minlength=50)
    expected_V = 1.0 / (torch.arange(1, 51) + word_training.ZIPF_SHIFT)
    expected_V *= len(ids_N) / expected_V.sum()
    assert float((counts_V - expected_V).abs().div(expected_V.sqrt()).max()) < 5.0
    assert (len(ids_N) - 1) % (word_training.BATCH_SIZE * word_training.WINDOW) == 0


def test_peak_memory_is_that_of_a_process_of_its_own() -> None:
    here = torch.ones(32 << 20)  # 128 MiB that are none of the other process's
    small = peak_bytes_of("elman", MODEL, 1, "float32")
    wide = peak_bytes_of("torch", ModelSizes(1, 64, 40_000), 1, "float32")
    assert small.peak_bytes is not None
    assert small.before_bytes is not None
    assert wide.peak_bytes is not None
    assert small.before_bytes <= small.peak_bytes
    # Two matrices of weights, their gradients and all logits of 700 rows: 96 MB at the least.
    assert wide.peak_bytes - small.peak_bytes > 96e6
    assert here.numel() == 32 << 20


def test_greedy_tokens_are_those_of_every_loop_of_torch() -> None:
    model = generation_model(MODEL)
    tokens = list(GenerationSide.of(model, "float32").begun(temperature=0.0).tokens(30))
    for loop in torch_loops(model):
        assert nats_below_best(loop, FIRST_ID, tokens) < 1e-5


def test_a_wrong_token_is_as_many_nats_off_as_torch_says() -> None:
    model = generation_model(MODEL)
    loop, _ = torch_loops(model)
    with torch.inference_mode():
        logits_V = loop.logits(torch.tensor([[FIRST_ID]]))[0]
    worst = int(logits_V.argmin())
    apart = float(logits_V.max() - logits_V.min())
    assert nats_below_best(loop, FIRST_ID, [worst]) == pytest.approx(apart)


@pytest.mark.parametrize("precision", get_args(WeightPrecision))
def test_a_generation_row_has_rates_bandwidth_and_how_far_it_came(
    precision: WeightPrecision,
) -> None:
    row = generation_row(tiny_bench(), MODEL, precision)
    assert row.agrees
    assert row.figures["far_position"] == TINY.far_position
    rate, num_bytes = row.figures["tokens_per_second"], row.figures["weight_bytes"]
    assert isinstance(rate, float)
    assert rate == pytest.approx(1.0 / row.comparison.ours.median_seconds)
    share = rate * num_bytes / row.figures["read_bytes_per_second"]  # type: ignore[operator]
    assert row.figures["share_of_bandwidth"] == pytest.approx(share)
    json.dumps(row.to_json(), allow_nan=False)


def test_a_token_of_the_loop_reads_all_weights_and_one_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Two cells of 4·6 rows by 6 + 6 and two biases, the output of 11 rows, one embedding of 6.
    cells, output = 2 * 24 * (6 + 6 + 2), 11 * (6 + 1)
    monkeypatch.setenv("ELMAN_KERNELS", "reference")
    side = GenerationSide.of(generation_model(MODEL), "float32")
    assert side.weight_bytes == 4 * (cells + output + 6)
    assert side.kernel.standing == "miss"


def test_a_state_is_carried_no_longer_than_the_time_allows() -> None:
    clock = HandClock()

    def ticking() -> float:
        clock.now += 1000.0
        return clock.now

    bench = Workbench(TINY, Stopwatch(ONCE, ticking))
    far = far_position(bench, GenerationSide.of(generation_model(MODEL), "float32"))
    assert far.position == 3 * TINY.tokens_per_call  # 3,600 s at 1,000 s a look at the clock
    assert far.time_ratio == 1.0
