"""What a person sees while a model learns: one bar that moves, or a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from elman.apps.cli.options import duration_text

SECONDS_BETWEEN_LINES = 10.0
SPEED_WINDOW_SECONDS = 5.0
SECONDS_BETWEEN_MARKS = 0.2
TIME_LEFT_CELLS = 7
"""Cells of a terminal that the time left takes: 1:23:45."""
BAR_WIDTH, NARROW_BAR_WIDTH, WIDE_CONSOLE = 24, 6, 100
SECONDS_BEFORE_JUDGING = 10.0
BEHIND = 0.25
"""A run that will take this share more than its budget is worth a word."""

Clock = Callable[[], float]


@contextmanager
def stages(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that tells a person at a terminal what is being done; a log needs none."""
    if not console.is_terminal:
        yield lambda stage: None
        return
    with console.status("") as status:
        yield status.update


class _Figures(ProgressColumn):
    """The figures, as many as leave the count and the time left their room on the terminal."""

    def __init__(self, console: Console, label: str, total: int | None, bar_width: int) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        counted = 0 if total is None else bar_width + 2 * len(str(total)) + 1 + TIME_LEFT_CELLS + 3
        self._console, self._taken = console, counted + (cell_len(label) + 1 if label else 0)

    def render(self, task: Task) -> Text:
        """Return the figures that fit."""
        return Text(fitted_figures(task.fields["figures"], self._console.width - self._taken))


def fitted_figures(figures: str, room: int) -> str:
    """Return the beginning of `figures` that fits into `room` cells, cut between two of them.

    Figures are parted by two blanks, and their parts by a comma and a blank.
    """
    while cell_len(figures) > room:
        cut = max(figures.rfind("  "), figures.rfind(", "), 0)
        figures = figures[:cut].rstrip()
    return figures


class ProgressLine:
    """How far a count has come: a bar on a terminal, elsewhere a line every ten seconds at most.

    `label` stands before the bar; without a `total` only the figures are shown, which the caller
    words. `unit` begins a line where there is no bar.
    """

    def __init__(self, console: Console, label: str, total: int | None, unit: str) -> None:
        self._console, self._label, self._total, self._unit = console, label, total, unit
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._last_line = time.monotonic()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar while the block runs; outside of it nothing is shown."""
        if not self._console.is_terminal:
            yield
            return
        width = BAR_WIDTH if self._console.width >= WIDE_CONSOLE else NARROW_BAR_WIDTH
        counted = [
            BarColumn(bar_width=width, table_column=Column(no_wrap=True)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
        ]
        left = TimeRemainingColumn(
            compact=True, elapsed_when_finished=True, table_column=Column(no_wrap=True)
        )
        self._bar = Progress(
            *([TextColumn(self._label)] if self._label else []),
            *(counted if self._total else []),
            _Figures(self._console, self._label, self._total, width),
            *([left] if self._total else []),
            console=self._console,
            refresh_per_second=8,
            transient=self._total is None,
        )
        self._task = self._bar.add_task(self._label, total=self._total, figures="")
        try:
            with self._bar:
                yield
        finally:
            self._bar = None

    def at(self, done: int, figures: str, *, at_once: bool = False) -> None:
        """Tell that `done` of the total are done; `at_once` even if a line was written just now."""
        of = f"/{self._total:,}" if self._total else ""
        line = f"{self._unit} {done:,}{of}  {figures.strip()}".rstrip()
        self._show(done, figures, line, at_once=at_once)

    def at_words(self, words: str) -> None:
        """Tell what is being done where that is not counted in the unit of the line."""
        self._show(0, words, words, at_once=False)

    def _show(self, done: int, figures: str, line: str, *, at_once: bool) -> None:
        """Show the figures beside the bar, or the line where there is none."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, figures=figures)
            return
        now = time.monotonic()
        if at_once or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self.tell(line)
            self._last_line = now

    def tell(self, message: str) -> None:
        """Write a message above the bar."""
        if self._bar is not None:
            self._bar.console.print(message, highlight=False, markup=False)
        else:
            print(message, file=sys.stderr, flush=True)


@dataclass
class Speed:
    """Counts per second over the last few seconds.

    Answers of one batch are counted one after the other in no time, and the first after all that
    came before: a speed is that between the beginnings of two such bursts, and no speed is known
    before the second.
    """

    clock: Clock = time.monotonic
    _marks: list[tuple[float, int]] = field(default_factory=list)

    def at(self, count: int) -> float:
        """Return the speed now that `count` is reached; 0 where it is not yet known."""
        now = self.clock()
        if not self._marks or now - self._marks[-1][0] >= SECONDS_BETWEEN_MARKS:
            self._marks.append((now, count))
        while len(self._marks) > 2 and now - self._marks[0][0] > SPEED_WINDOW_SECONDS:
            self._marks.pop(0)
        (first, before), (last, after) = self._marks[0], self._marks[-1]
        return (after - before) / (last - first) if last > first else 0.0

    def told(self, count: int, unit: str) -> str:
        """Return the speed with its unit, now that `count` is reached; "" where it is unknown."""
        speed = self.at(count)
        return f"{speed:,.0f} {unit}/s" if speed else ""


@dataclass
class Pace:
    """Whether a run keeps its time: from `started` to `deadline`, both of the monotonic clock."""

    total_updates: int
    started: float
    deadline: float
    clock: Clock = time.monotonic
    _first: tuple[float, int] | None = None
    _told: bool = False

    def lateness(self, update: int) -> str | None:
        """Return one sentence, once, where the run will end far behind its deadline."""
        now = self.clock()
        if self._first is None:
            self._first = (now, update)
        begun, before = self._first
        if self._told or update <= before or now - begun < SECONDS_BEFORE_JUDGING:
            return None
        end = now + (self.total_updates - update) * (now - begun) / (update - before)
        asked = self.deadline - self.started
        if end - self.started <= asked * (1 + BEHIND):
            return None
        self._told = True
        return (
            f"note: at this pace the run takes {duration_text(end - self.started)}, not the "
            f"{duration_text(asked)} asked for: the machine is busier than when it was measured. "
            "Ctrl-C saves; --resume goes on"
        )


@contextmanager
def scoring(console: Console, unit: str = "tokens") -> Iterator[Callable[[int], None]]:
    """Yield a function that tells how many tokens of a text of unknown length are scored."""
    line, speed = ProgressLine(console, "scoring", None, "scored"), Speed()

    def tell(done: int) -> None:
        # A line in a log begins with the count.
        count = f"{done:,} {unit}" if console.is_terminal else ""
        line.at(done, ", ".join(filter(None, (count, speed.told(done, unit)))))

    with line.shown():
        yield tell


@contextmanager
def fitting_and_scoring(
    console: Console,
) -> Iterator[tuple[Callable[[str, int], None], Callable[[int], None]]]:
    """Yield what tells of fitting (in words, with tokens read), and `scoring` for what follows."""
    line = ProgressLine(console, "", None, "scored")
    stage, speed = "", Speed()

    def fitted(now: str, done: int) -> None:
        nonlocal stage, speed
        if now != stage:
            stage, speed = now, Speed()
        count = f"{done:,} tokens" if done else ""
        line.at_words(", ".join(filter(None, (now, count, speed.told(done, "tokens")))))

    def scored(done: int) -> None:
        nonlocal stage, speed
        if stage != "scoring":
            stage, speed = "scoring", Speed()
        count = f"scoring {done:,} tokens" if console.is_terminal else ""
        line.at(done, ", ".join(filter(None, (count, speed.told(done, "tokens")))))

    with line.shown():
        yield fitted, scored


class TrainingProgress:
    """Steps, tokens per second, smoothed training loss, held-out figure, time left; then scoring.

    `num_scored` is the number of held-out answers that are scored at the end; `unit` is what
    training counts and `scored_unit` what scoring counts, in the plural.
    """

    def __init__(
        self,
        console: Console,
        total_updates: int,
        *,
        num_scored: int,
        pace: Pace | None = None,
        unit: str = "tokens",
        scored_unit: str = "tokens",
    ) -> None:
        self._console, self._unit, self._scored_unit = console, unit, scored_unit
        self._training = ProgressLine(console, "", total_updates, "update")
        self._scoring = ProgressLine(console, "scoring", num_scored or None, "scored")
        self._shown = self._training
        self._pace, self._speed = pace, Speed()
        self._held_out = ""
        self._tokens = 0

    @contextmanager
    def shown(self) -> Iterator["TrainingProgress"]:
        """Show the bar of training while the block runs."""
        with self._training.shown():
            yield self

    @contextmanager
    def scoring(self) -> Iterator["TrainingProgress"]:
        """Show the bar of scoring exactly what is held out, while the block runs."""
        self._shown, self._speed = self._scoring, Speed()
        if not self._console.is_terminal:
            self.tell("scoring what is held out …")
        with self._scoring.shown():
            yield self

    def updated(self, update: int, num_tokens: int, figure: str) -> None:
        """Tell of one update: its number, its tokens and the smoothed figure of its loss."""
        self._tokens += num_tokens
        speed = self._speed.told(self._tokens, self._unit)
        figures = filter(None, (speed, f"train {figure}", self._held_out))
        self._training.at(update, "  ".join(figures))
        late = self._pace.lateness(update) if self._pace is not None else None
        if late is not None:
            self.tell(late)

    def validated(self, update: int, figure: str, *, best: bool) -> None:
        """Tell of one validation: the figure of what is held out for choosing."""
        self._held_out = f"valid {figure}"
        star = "  (best so far)" if best else ""
        self._training.at(update, self._held_out + star, at_once=True)

    def scored(self, num_tokens: int) -> None:
        """Tell how many of the held-out answers are scored by now."""
        self._scoring.at(num_tokens, self._speed.told(num_tokens, self._scored_unit))

    def tell(self, message: str) -> None:
        """Write a message above the bar."""
        self._shown.tell(message)
