"""One run of the benchmark: its families in order, row by row, as far as a person lets it go."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

import torch

from elman.errors import SettingError
from elman.recipes.benchmark.generation import planned_generation
from elman.recipes.benchmark.machine import MachineFacts, machine_facts
from elman.recipes.benchmark.ragged import planned_ragged
from elman.recipes.benchmark.recurrences import (
    planned_bfloat16,
    planned_gpu,
    planned_recurrences,
)
from elman.recipes.benchmark.report import BenchReport, BenchRow, SkippedFamily
from elman.recipes.benchmark.rows import FAMILIES, FULL, Family, Programme
from elman.recipes.benchmark.timing import Clock, StopAskedError, Stopwatch
from elman.recipes.benchmark.word import planned_bfloat16_word, planned_word
from elman.recipes.benchmark.workbench import PlannedRow, Workbench
from elman.recipes.sizing import has_bfloat16_products

PLANNERS: Mapping[Family, Callable[[Workbench], list[PlannedRow]]] = MappingProxyType(
    {
        "recurrences": planned_recurrences,
        "ragged": planned_ragged,
        "word": planned_word,
        "generation": planned_generation,
        "bfloat16": lambda bench: planned_bfloat16(bench) + planned_bfloat16_word(bench),
        "gpu": planned_gpu,
    }
)


def _ignore(*told: object) -> None:
    """Take no notice."""


@dataclass(frozen=True)
class Listener:
    """Whom a run tells of what happens: the machine, its length, each row before and after."""

    on_begin: Callable[[MachineFacts, int], None] = _ignore
    on_skipped: Callable[[SkippedFamily], None] = _ignore
    on_stage: Callable[[int, str], None] = _ignore
    on_row: Callable[[BenchRow], None] = _ignore


@dataclass(frozen=True)
class BenchRequest:
    """What to measure: families of a programme, with so many threads (0: as torch decides)."""

    programme: Programme = FULL
    families: tuple[Family, ...] = FAMILIES
    threads: int = 0
    quick: bool = False
    clock: Clock = field(default=time.perf_counter)


def run_bench(
    request: BenchRequest,
    listener: Listener | None = None,
    *,
    should_stop: Callable[[], bool] = bool,
) -> BenchReport:
    """Measure every row of the request's families, in the order of `FAMILIES`.

    `should_stop` is asked between two samples; the row under way is then given up and the report
    holds those before it. A family that this machine cannot measure is skipped with its reason.
    Both sides use the same threads; torch's own number is put back at the end.
    """
    told = listener or Listener()
    begun, started_at = time.perf_counter(), f"{datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z}"
    stopwatch = Stopwatch(request.programme.effort, request.clock, should_stop)
    with _threads(request.threads):
        machine = machine_facts()
        bench = Workbench(request.programme, stopwatch)
        planned, skipped = _planned(bench, request.families)
        told.on_begin(machine, len(planned))
        for family in skipped:
            told.on_skipped(family)
        rows = _measured(bench, planned, told)
    return BenchReport(
        quick=request.quick,
        complete=len(rows) == len(planned),
        started_at=started_at,
        elapsed_seconds=time.perf_counter() - begun,
        machine=machine,
        peaks=bench.peaks,
        rows=rows,
        skipped=skipped,
    )


def families_named(text: str) -> tuple[Family, ...]:
    """Return the families in the comma-separated `text`, in the order of `FAMILIES`.

    Raises `SettingError` for a name that is none, and for no name at all.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in FAMILIES]
    if unknown or not names:
        raise SettingError(
            "--rows must name families of rows, with commas between",
            got=", ".join(unknown) or "none",
            allowed=", ".join(FAMILIES),
        )
    return tuple(family for family in FAMILIES if family in names)


def _measured(bench: Workbench, planned: Sequence[PlannedRow], told: Listener) -> list[BenchRow]:
    rows: list[BenchRow] = []
    try:
        for done, row in enumerate(planned):
            told.on_stage(done, row.title)
            bench.tell = _telling(told, done, row.title)
            measured = row.measure()
            rows.append(measured)
            told.on_row(measured)
    except StopAskedError:
        pass
    return rows


def _telling(told: Listener, done: int, title: str) -> Callable[[str], None]:
    return lambda stage: told.on_stage(done, f"{title}: {stage}")


def _planned(
    bench: Workbench, families: Sequence[Family]
) -> tuple[list[PlannedRow], list[SkippedFamily]]:
    planned: list[PlannedRow] = []
    skipped: list[SkippedFamily] = []
    for family in families:
        reason = _why_skipped(family)
        if reason:
            skipped.append(SkippedFamily(family, reason))
        else:
            planned += PLANNERS[family](bench)
    return planned, skipped


def _why_skipped(family: Family) -> str:
    """Return why this machine cannot measure `family`, or an empty string where it can."""
    if family == "gpu" and not torch.cuda.is_available():
        return "torch finds no GPU here (torch.cuda.is_available() is False)"
    if family == "bfloat16" and not has_bfloat16_products():
        return "this processor has no products in bfloat16 (AVX-512 BF16 or AMX)"
    return ""


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
