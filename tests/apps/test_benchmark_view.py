"""What a person sees of a benchmark: lines that fit a terminal, and nothing that flatters."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from elman.apps.cli.benchmark_cells import time_text
from elman.apps.cli.benchmark_view import BenchView
from elman.recipes.benchmark.kernel_use import KernelUse
from elman.recipes.benchmark.machine import MatrixPeak, machine_facts
from elman.recipes.benchmark.report import BenchReport, BenchRow, SkippedFamily
from elman.recipes.benchmark.rows import Family
from elman.recipes.benchmark.timing import Comparison, Timing

NATIVE = KernelUse("native", {"lstm": "native: AVX-512, rows split over two threads"})
GIVEN = KernelUse("given to torch", {"lstm": "torch: the fused operator"})
MISS = KernelUse("miss", {"lstm": "reference: no fused operator has these equations"})


def comparison() -> Comparison:
    setting = "batch first, no oneDNN"
    ours, theirs = Timing(0.0426, 0.04, 3, 1), Timing(0.109, 0.1, 3, 1)
    return Comparison(ours, theirs, setting, {setting: 0.109})


RECURRENCE = BenchRow(
    "recurrences",
    "lstm",
    "training",
    {"T": 128, "B": 256, "H": 1500},
    comparison(),
    NATIVE,
    3e-7,
    1e-4,
    {"gflops_per_second": 12345.6, "share_of_peak": 0.85},
)
WORD = BenchRow(
    "word",
    "2×200, V 33,278",
    "training",
    {"L": 2, "H": 200, "V": 33278},
    comparison(),
    GIVEN,
    3e-7,
    1e-4,
    {
        "tokens_per_second": 12345.0,
        "torch_tokens_per_second": 1887.0,
        "updates_compared": 100,
        "peak_bytes": 528_000_000,
        "torch_peak_bytes": 1_758_000_000,
        "share_of_torch_memory": 0.3,
        "bytes_before_model": 238_000_000,
    },
)


def shown(*rows: BenchRow, width: int = 80, complete: bool = True) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    view = BenchView(console, Console(file=io.StringIO(), width=width))
    with view.watching() as told:
        told.on_begin(machine_facts(), len(rows))
        told.on_skipped(SkippedFamily("gpu", "no GPU here"))
        for row in rows:
            told.on_stage(0, row.subject)
            told.on_row(row)
    peak = MatrixPeak("float32", "cpu", 2048, 210.0, "oneDNN", {"mm": 172.0, "oneDNN": 210.0})
    view.summary(
        BenchReport(
            quick=False,
            complete=complete,
            started_at="",
            elapsed_seconds=75.0,
            machine=machine_facts(),
            peaks=[peak],
            rows=rows,
            skipped=[],
        )
    )
    return out.getvalue()


def every_kind() -> list[BenchRow]:
    families: tuple[Family, ...] = ("recurrences", "bfloat16", "gpu")
    rows = [replace(RECURRENCE, family=family, kernel=k) for family in families for k in (NATIVE,)]
    ragged = replace(RECURRENCE, family="ragged", figures={"share_of_padded": 0.55})
    generation = replace(
        WORD,
        family="generation",
        mode="generation",
        figures={
            "tokens_per_second": 12345.0,
            "torch_tokens_per_second": 3564.0,
            "weight_bytes": 29_300_000,
            "read_bytes_per_second": 141_000_000_000.0,
            "share_of_bandwidth": 0.75,
            "far_position": 1_000_000,
            "far_time_ratio": 1.02,
        },
    )
    return [*rows, ragged, WORD, generation]


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_the_terminal(width: int) -> None:
    text = shown(*every_kind(), width=width)
    assert max(map(len, text.splitlines())) <= width


def test_a_wide_terminal_shows_the_setting_of_torch_and_a_narrow_one_does_not() -> None:
    assert "batch first, no oneDNN" in shown(RECURRENCE, width=120)
    assert "batch first, no oneDNN" not in shown(RECURRENCE, width=80)


def test_a_row_has_times_ratio_rate_share_difference_and_kernel() -> None:
    (line,) = [line for line in shown(RECURRENCE).splitlines() if "128,256,1500" in line]
    words = line.split()
    assert words[1:6] == ["42.6", "ms", "109", "ms", "2.56×"]
    assert words[6:10] == ["12,346", "85", "%", "3e-07"]
    assert words[10].startswith("native")


def test_a_fallback_is_told_with_its_reason_and_enters_no_mean() -> None:
    miss = replace(RECURRENCE, subject="gru/after/keep", kernel=MISS)
    text = shown(miss, miss)
    assert "miss, 2 rows: reference: no fused operator has these equations" in text
    assert "0 of 2" in text


def test_wrong_values_show_no_ratio_and_are_told_again_at_the_end() -> None:
    wrong = replace(RECURRENCE, difference=0.5)
    text = shown(wrong)
    assert "2.56×" not in text
    assert "differs by 5.0e-01, allowed 1e-04" in text.replace("\n", " ")


def test_a_mean_stands_beside_its_least_ratio_and_its_count() -> None:
    text = shown(RECURRENCE, replace(RECURRENCE, kernel=GIVEN))
    (line,) = [line for line in text.splitlines() if line.startswith("  LSTM")]
    assert line.split() == ["LSTM", "1.60×", "1.00×", "2", "of", "2"]


def test_an_interrupted_run_says_so() -> None:
    assert "1 row in 1 min 15 s; interrupted" in shown(RECURRENCE, complete=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.5, "2.50 s"),
        (0.109, "109 ms"),
        (0.0426, "42.6 ms"),
        (9.99e-4, "999 µs"),
        (5e-8, "50 ns"),
    ],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert time_text(seconds) == text
