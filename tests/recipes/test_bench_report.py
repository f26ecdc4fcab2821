"""What counts towards a mean, what does not, and what JSON holds of it."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elman.recipes.benchmark.kernel_use import KernelUse, Standing, kernel_use
from elman.recipes.benchmark.machine import MatrixPeak, machine_facts
from elman.recipes.benchmark.report import (
    BenchReport,
    BenchRow,
    SkippedFamily,
    largest_difference,
    means,
    relative_distance,
)
from elman.recipes.benchmark.timing import Comparison, Timing

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "bench.md"


def row(ratio: float, standing: Standing, subject: str = "gru/after/keep") -> BenchRow:
    ours, theirs = Timing(1.0, 1.0, 3, 1), Timing(ratio, ratio, 3, 1)
    return BenchRow(
        family="recurrences",
        subject=subject,
        mode="training",
        sizes={"T": 3, "B": 2, "H": 5},
        comparison=Comparison(ours, theirs, "batch first, oneDNN", {"batch first, oneDNN": ratio}),
        kernel=KernelUse(standing, {subject: f"{standing}: because"}),
        difference=0.0,
        tolerance=1e-4,
        figures={"gflops_per_second": 1.0, "share_of_peak": 0.5},
    )


def report(*rows: BenchRow) -> BenchReport:
    return BenchReport(
        quick=True,
        complete=True,
        started_at="2026-01-01T00:00:00+0000",
        elapsed_seconds=1.0,
        machine=machine_facts(),
        peaks=[MatrixPeak("float32", "cpu", 16, 1.0, "mm", {"mm": 1.0})],
        rows=rows,
        skipped=[SkippedFamily("gpu", "none here")],
    )


@pytest.mark.parametrize(
    ("record", "standing"),
    [
        ({"choice": "auto", "lstm": "native: AVX-512"}, "native"),
        ({"choice": "auto", "lstm": "torch: the fused operator"}, "given to torch"),
        ({"choice": "torch", "lstm": "torch: the fused operator"}, "miss"),
        ({"choice": "auto", "lstm": "reference: asked for"}, "miss"),
        ({"choice": "auto", "lstm": "scan: all at once"}, "miss"),
        ({"choice": "auto", "lstm, one step": "native: AVX2"}, "native"),
        ({"choice": "auto", "lstm": "native: a", "lstm, one step": "reference: b"}, "miss"),
        ({"choice": "auto", "lstm": "native: a", "lstm 3,4": "torch: b"}, "given to torch"),
        ({"choice": "auto", "lstm+coupled": "native: another cell"}, "miss"),
        ({"choice": "auto"}, "miss"),
    ],
)
def test_how_a_row_ran_is_read_from_the_record_of_its_plan(
    record: dict[str, str], standing: Standing
) -> None:
    assert kernel_use(record, "lstm").standing == standing


def test_only_native_rows_count_and_an_lstm_given_to_torch_as_one() -> None:
    assert row(3.0, "native").counted_ratio == 3.0
    assert row(0.5, "native").counted_ratio == 0.5
    assert row(0.9, "given to torch", "lstm").counted_ratio == 1.0
    assert row(0.9, "given to torch").counted_ratio is None
    assert row(5.0, "miss").counted_ratio is None
    assert row(5.0, "miss", "lstm").counted_ratio is None


def test_wrong_values_have_no_ratio_however_fast() -> None:
    for difference in (2e-4, math.inf, math.nan):
        wrong = replace(row(100.0, "native"), difference=difference)
        assert not wrong.agrees
        assert wrong.ratio is None
        assert wrong.counted_ratio is None
        assert wrong.to_json()["standing"] == "wrong values"
        json.dumps(wrong.to_json(), allow_nan=False)


def test_a_geometric_mean_is_over_the_rows_that_count() -> None:
    wrong = replace(row(100.0, "native"), difference=1.0)
    (mean,) = means([row(2.0, "native"), row(8.0, "native"), row(9.0, "miss"), wrong])
    assert mean.ratio == pytest.approx(4.0)
    assert mean.least == 2.0
    assert (mean.num_counted, mean.num_missed, mean.num_wrong, mean.num_rows) == (2, 1, 1, 4)


def test_no_row_that_counts_gives_no_mean() -> None:
    (mean,) = means([row(9.0, "miss"), row(9.0, "given to torch")])
    assert mean.ratio is None
    assert mean.least is None
    assert mean.to_json()["num_given_to_torch"] == 1


def test_differences_are_shares_of_the_largest_value_and_catch_what_is_no_number() -> None:
    theirs = [torch.tensor([1.0, -4.0]), torch.zeros(2)]
    assert largest_difference(theirs, theirs) == 0.0
    assert largest_difference([theirs[0] + 0.5, theirs[1]], theirs) == pytest.approx(0.125)
    assert largest_difference([theirs[0], theirs[1] + 0.25], theirs) == 0.25  # b is 0: absolute
    assert largest_difference([torch.full((2,), math.nan), theirs[1]], theirs) == math.inf
    assert largest_difference(theirs[:1], theirs) == math.inf
    assert largest_difference([theirs[0][:1], theirs[1]], theirs) == math.inf


def test_a_relative_distance_is_of_root_sums_of_squares() -> None:
    theirs = [torch.tensor([3.0, 4.0])]
    assert relative_distance([torch.tensor([3.0, 4.5])], theirs) == pytest.approx(0.1)


def test_the_json_object_holds_what_its_document_lists() -> None:
    made = report(row(2.0, "native"))
    told = made.to_json()
    json.dumps(told, allow_nan=False)
    listed = set(re.findall(r"`([a-z_A-Z]+)`", DOCUMENT.read_text(encoding="utf-8")))
    (one_row,), (mean,) = told["rows"], told["means"]  # type: ignore[misc]
    machine: dict[str, object] = told["machine"]  # type: ignore[assignment]
    for name in (*told, *one_row, *mean, *machine, *made.peaks[0].to_json()):
        assert name in listed, name


def test_rows_of_models_have_no_mean() -> None:
    word = replace(row(2.0, "native"), family="word")
    assert report(word).means == []
