"""A run goes through its families in order, stops where it is asked to, and leaves no trace."""

import json

import pytest
import torch
from tiny_bench import TINY

from elman.errors import SettingError
from elman.recipes.benchmark.report import BenchRow, SkippedFamily
from elman.recipes.benchmark.rows import FULL, QUICK, Family, Shape
from elman.recipes.benchmark.running import (
    BenchRequest,
    Listener,
    families_named,
    run_bench,
)


def test_families_are_named_with_commas_and_come_in_their_own_order() -> None:
    assert families_named("word, recurrences,") == ("recurrences", "word")
    for text in ("words", "", " , "):
        with pytest.raises(SettingError, match="recurrences, ragged, word"):
            families_named(text)


def test_a_run_measures_every_row_of_its_families() -> None:
    seen: list[BenchRow] = []
    begun: list[int] = []
    request = BenchRequest(TINY, ("recurrences", "ragged", "generation"), quick=True)
    report = run_bench(
        request, Listener(on_begin=lambda _, count: begun.append(count), on_row=seen.append)
    )
    assert report.complete
    assert list(report.rows) == seen
    assert begun == [len(seen)] == [4 * 2 * 2 + 3 * 2 + 3]
    assert not report.wrong
    assert [peak.dtype for peak in report.peaks] == ["float32"]
    assert {mean.subject for mean in report.means} == {row.subject for row in seen[:16]}
    json.dumps(report.to_json(), allow_nan=False)


def test_a_stop_keeps_the_rows_that_are_done() -> None:
    seen: list[BenchRow] = []
    report = run_bench(
        BenchRequest(TINY, ("recurrences",)),
        Listener(on_row=seen.append),
        should_stop=lambda: len(seen) >= 2,
    )
    assert not report.complete
    assert list(report.rows) == seen
    assert len(seen) == 2


def test_threads_are_as_asked_while_it_runs_and_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    during: list[int] = []
    listener = Listener(on_begin=lambda machine, _: during.append(machine.threads))
    run_bench(BenchRequest(TINY, ("gpu",), threads=before + 1), listener)
    assert during == [before + 1]
    assert torch.get_num_threads() == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, so nothing is skipped")
def test_without_a_gpu_its_rows_are_skipped_with_the_reason() -> None:
    skipped: list[SkippedFamily] = []
    report = run_bench(BenchRequest(TINY, ("gpu",)), Listener(on_skipped=skipped.append))
    assert report.complete
    assert report.rows == []
    assert list(report.skipped) == skipped
    assert "no GPU" in skipped[0].reason


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_on_a_gpu_the_recurrences_run_through_cudnn() -> None:
    report = run_bench(BenchRequest(TINY, ("gpu",)))
    assert len(report.rows) == 16
    assert not report.wrong
    assert all("cuDNN" in row.comparison.setting for row in report.rows)


def test_the_full_programme_has_every_shape_that_is_spoken_of() -> None:
    spoken_of = (
        (35, 20, 200),
        (35, 20, 650),
        (70, 80, 400),
        (64, 32, 128),
        (16, 256, 128),
        (128, 32, 512),
        (12, 64, 64),
        (35, 20, 1500),
    )
    assert {Shape(*sizes) for sizes in spoken_of} <= set(FULL.shapes)
    assert any(shape.batch_size == 1 for shape in FULL.shapes)
    assert any(shape.num_steps == 1 for shape in FULL.shapes)
    assert any(shape.hidden_size % 2 for shape in FULL.shapes)
    assert set(QUICK.shapes) <= set(FULL.shapes)


def test_rows_of_the_word_family_compare_losses_and_memory() -> None:
    families: tuple[Family, ...] = ("word",)
    (row,) = run_bench(BenchRequest(TINY, families)).rows
    assert row.agrees
    assert row.figures["updates_compared"] == TINY.loss_steps
    ours, theirs = row.figures["peak_bytes"], row.figures["torch_peak_bytes"]
    assert isinstance(ours, int)
    assert isinstance(theirs, int)
    assert row.figures["share_of_torch_memory"] == ours / theirs
