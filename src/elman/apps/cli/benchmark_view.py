"""A benchmark as a person watches it: the machine, each row as it comes, and what it comes to."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from elman.apps.cli.benchmark_cells import (
    SUBJECTS,
    TITLES,
    WIDE,
    columns_of,
    detail_lines,
    group_of,
    heading_line,
    layout_of,
    row_line,
)
from elman.apps.cli.options import duration_text
from elman.apps.cli.progress import ProgressLine
from elman.recipes.benchmark.machine import MachineFacts, MatrixPeak
from elman.recipes.benchmark.report import BenchReport, BenchRow, Mean, SkippedFamily
from elman.recipes.benchmark.running import Listener

BUSY = 0.25
"""Load for each core, from other work, that is worth a word before figures are believed."""

_SUFFIXES: Mapping[str, str] = MappingProxyType({"bfloat16": ", bf16", "gpu": ", GPU"})


class BenchView:
    """Prints on `out` as a run goes on, and shows how far it is on `err`.

    Where both are one terminal, rows go above the bar.
    """

    def __init__(self, out: Console, err: Console) -> None:
        self._out, self._err = out, err
        self._above_bar = err.is_terminal and out.is_terminal
        self._progress: ProgressLine | None = None
        self._shown = ExitStack()
        self._place: tuple[str, str] = ("", "")
        self._group = ""
        self._num_rows = self._num_done = 0
        self._wide = out.width >= WIDE

    @contextmanager
    def watching(self) -> Iterator[Listener]:
        """Yield the listener to hand to the run; the bar goes when the block ends."""
        with self._shown:
            yield Listener(self._begin, self._skip, self._stage, self._row)

    def say(self, text: str | Text | Table) -> None:
        """Print a line, which a terminal breaks between words, or a table."""
        self._print(text, no_wrap=False)

    def _print(self, shown: str | Text | Table, *, no_wrap: bool) -> None:
        console = self._err if self._above_bar else self._out
        overflow: Literal["ellipsis"] | None = "ellipsis" if no_wrap else None
        console.print(shown, highlight=False, markup=False, no_wrap=no_wrap, overflow=overflow)
        self._out.file.flush()

    def _begin(self, machine: MachineFacts, num_rows: int) -> None:
        facts = Table.grid(padding=(0, 2, 0, 0))
        facts.add_column(style="bright_black", no_wrap=True)
        for name, told in machine_lines(machine):
            facts.add_row(name, told)
        self.say("")
        self.say(facts)
        self.say("")
        self.say("ratio: torch's time over Elman's, medians of samples in turns; above 1 is faster")
        self._num_rows = num_rows
        self._progress = ProgressLine(self._err, "", num_rows, "row")
        self._shown.enter_context(self._progress.shown())

    def _skip(self, skipped: SkippedFamily) -> None:
        self.say(f"skipped: {skipped.family}: {skipped.reason}")

    def _stage(self, done: int, title: str) -> None:
        if self._progress is not None:
            room = max(20, self._err.width - 40)
            self._progress.at(done, title if len(title) <= room else f"{title[: room - 1]}…")

    def _row(self, row: BenchRow) -> None:
        layout = layout_of(row)
        columns = columns_of(layout, wide=self._wide)
        if (row.family, layout) != self._place:
            if row.family != self._place[0]:
                self.say("")
                self.say(Text(TITLES[row.family], style="bold"))
            heading = heading_line(columns)
            heading.stylize("bright_black")
            self._line(heading)
            self._place, self._group = (row.family, layout), ""
        if group_of(row) != self._group:
            self._group = group_of(row)
            self.say(self._group)
        self._line(row_line(row, columns))
        for detail in detail_lines(row):
            self.say(Text(f"    {detail}", style="bright_black"))
        self._num_done += 1
        if self._progress is not None and self._num_done == self._num_rows:
            self._progress.at(self._num_done, "done")

    def _line(self, line: Text) -> None:
        self._print(line, no_wrap=True)

    def summary(self, report: BenchReport) -> None:
        """Print what the rows come to: peaks, geometric means, fallbacks, rows that are wrong."""
        if report.means:
            self.say("")
            self.say(Text("Geometric means of the ratios that count", style="bold"))
            self.say(means_table(report.means))
        lines = [*fallback_lines(report), *map(peak_line, report.peaks)]
        if lines:
            self.say("")
        for line in lines:
            self.say(line)
        for row in report.wrong:
            told = f"wrong values: {row.family}, {row.subject}, {row.mode}, {dict(row.sizes)}: "
            told += f"differs by {row.difference:.1e}, allowed {row.tolerance:.0e}"
            self.say(Text(told, style="bold red"))
        self.say("")
        ending = "" if report.complete else "; interrupted, so that later rows are missing"
        taken = duration_text(report.elapsed_seconds)
        self.say(f"{_rows(len(report.rows))} in {taken}{ending}")


def machine_lines(machine: MachineFacts) -> list[tuple[str, str]]:
    """Return name and text of each line about the machine."""
    lines = [
        (
            "processor",
            f"{machine.processor}: {machine.cores} cores, {machine.threads} threads used, "
            f"{machine.capability}",
        ),
        ("system", f"{machine.system}"),
        ("versions", f"elman {machine.elman}, torch {machine.torch}, Python {machine.python}"),
        ("native", ("" if machine.native_present else "not in use: ") + machine.native),
    ]
    if machine.gpu:
        lines.append(("gpu", machine.gpu))
    if machine.kernels_forced:
        lines.append(("forced", f"ELMAN_KERNELS={machine.kernels_forced}"))
    load = machine.load_average
    if load is not None and load > BUSY * machine.cores:
        lines.append(("load", f"{load:.2f} before the start: other work spoils times and ratios"))
    return lines


def means_table(means: Sequence[Mean]) -> Table:
    """Return a line for each family and cell: mean and least ratio and rows counted, by mode."""
    table = Table(box=None, pad_edge=False, header_style="bright_black", padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for title in ("forward", "least", "counted", "training", "least", "counted"):
        table.add_column(title, justify="right", no_wrap=True)
    found = {(mean.family, mean.subject, mean.mode): mean for mean in means}
    for family, subject in dict.fromkeys((mean.family, mean.subject) for mean in means):
        name = SUBJECTS.get(subject, subject)
        cells = [
            cell
            for mode in ("forward", "training")
            for cell in _mean_cells(found.get((family, subject, mode)))
        ]
        table.add_row(f"  {name}{_SUFFIXES.get(family, '')}", *cells)
    return table


def _mean_cells(mean: Mean | None) -> list[str | Text]:
    if mean is None:
        return ["", "", ""]
    style = "" if mean.ratio is None else "bold green" if mean.ratio >= 1.0 else "bold yellow"
    counted = f"{mean.num_counted} of {mean.num_rows}"
    return [Text(_times(mean.ratio), style=style), _times(mean.least), counted]


def fallback_lines(report: BenchReport) -> list[str]:
    """Return each reason for which rows did not run natively, and how many there are."""
    reasons = Counter(
        (row.kernel.standing, row.kernel.told)
        for row in report.rows
        if row.agrees and row.kernel.standing != "native"
    )
    return [
        f"{standing}, {_rows(count)}: {reason}" for (standing, reason), count in reasons.items()
    ]


def peak_line(peak: MatrixPeak) -> str:
    """Return the measured peak of products as one line."""
    others = ", ".join(f"{name} {rate:,.0f}" for name, rate in peak.tried.items())
    return (
        f"peak of {peak.dtype} products here: {peak.gflops_per_second:,.0f} GFLOP/s at "
        f"{peak.size}³ ({others})"
    )


def bench_consoles(*, as_json: bool) -> tuple[Console, Console]:
    """Return the console for rows and the one for progress.

    With --json standard output is kept for the object. The file is named, as a bar replaces
    `sys.stdout` while it is shown.
    """
    err = Console(stderr=True, highlight=False)
    if as_json:
        return err, err
    return Console(file=sys.stdout, highlight=False), err


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}×"
