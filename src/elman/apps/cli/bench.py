"""`elman bench`: speed beside PyTorch on this machine, as ratios measured in one run."""

import os
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from elman.apps.cli.interrupts import polite_interrupts
from elman.apps.cli.options import Json, WholeOrNone
from elman.apps.cli.output import print_json, say
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.recipes.benchmark.running import BenchRequest

ALL_ROWS = "recurrences,ragged,word,generation,bfloat16,gpu"
MOST_THREADS, MOST_REPEATS = 1024, 10_000

EXIT_WRONG_VALUES = 1
"""Exit status where a row's values are not those of torch."""


def bench(
    *,
    quick: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="A few rows of each family, in under a minute."
        ),
    ] = False,
    rows: Annotated[
        str, Parameter(help="Families of rows to measure, with commas between.")
    ] = ALL_ROWS,
    threads: Annotated[
        WholeOrNone, Parameter(help="CPU threads of both sides. [default: as torch decides]")
    ] = None,
    repeats: Annotated[
        WholeOrNone,
        Parameter(help="Samples of each time. [default: as many as fit into a moment]"),
    ] = None,
    out: Annotated[Path | None, Parameter(help="Write the JSON object to this file too.")] = None,
    json: Json = False,
) -> int:
    """Measure speed beside PyTorch on this machine: each row's times, ratio and kernel.

    Both sides do the same work in one process, in turns, with the same threads, and torch in its
    best setting; their values are compared as well. Ctrl-C keeps what is done. docs/bench.md says
    what each row means.
    """
    request = _request(quick, rows, threads, repeats)
    _check_out(out)
    return _measure(request, out, as_json=json)


def _request(quick: bool, rows: str, threads: int | None, repeats: int | None) -> "BenchRequest":
    """Return the options as a request; `SettingError` where one of them cannot be used."""
    _check_count("--threads", threads, MOST_THREADS)
    _check_count("--repeats", repeats, MOST_REPEATS)
    from elman.recipes.benchmark.rows import FULL, QUICK
    from elman.recipes.benchmark.running import BenchRequest, families_named

    families = families_named(rows)
    programme = QUICK if quick else FULL
    if repeats is not None:
        effort = replace(programme.effort, least_repeats=repeats, most_repeats=repeats)
        programme = replace(programme, effort=effort)
    return BenchRequest(programme, families, threads or 0, quick)


def _measure(request: "BenchRequest", out: Path | None, *, as_json: bool) -> int:
    from elman.apps.cli.benchmark_view import BenchView, bench_consoles
    from elman.atomic_files import write_atomically
    from elman.recipes.benchmark.running import run_bench

    view = BenchView(*bench_consoles(as_json=as_json))
    with polite_interrupts(lambda: None) as asked:
        with view.watching() as listener:
            report = run_bench(request, listener, should_stop=asked)
        view.summary(report)
        figures = report.to_json()
        if out is not None:
            content = dumps(figures, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
            write_atomically(out, content.encode())
            say(f"written: {out}")
        if as_json:
            print_json(figures)
    if not report.complete:
        raise KeyboardInterrupt
    return EXIT_WRONG_VALUES if report.wrong else 0


def _check_count(name: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise SettingError(
            f"{name} must be a whole number", got=str(value), allowed=f"1 to {most:,}"
        )


def _check_out(out: Path | None) -> None:
    """Refuse a file that could not be written, before anything is measured."""
    if out is None:
        return
    if out.is_dir():
        raise SettingError("--out must be a file", got=f"{out}, a folder")
    if not os.access(out.parent, os.W_OK):
        raise SettingError("--out must be a file in a folder that can be written to", got=str(out))
