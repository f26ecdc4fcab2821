"""What a person sees while a model learns: one bar that moves, or a line now and then in a log."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0
SPEED_WINDOW_SECONDS = 5.0


class TrainingProgress:
    """Steps, tokens per second, smoothed training loss, held-out bits per character, time left.

    On a terminal this is a bar; elsewhere a line at most every ten seconds and at each validation.
    """

    def __init__(self, console: Console, total_updates: int) -> None:
        self._console = console
        self._total = total_updates
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("training"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                console=console,
                refresh_per_second=8,
            )
            self._task = self._bar.add_task("training", total=total_updates, figures="")
        self._bits = ""
        self._last_line = time.monotonic()
        self._marks: list[tuple[float, int]] = []
        self._tokens = 0

    @contextmanager
    def shown(self) -> Iterator["TrainingProgress"]:
        """Show the bar while the block runs."""
        if self._bar is None:
            yield self
            return
        with self._bar:
            yield self

    def updated(self, update: int, num_tokens: int, loss_nats: float) -> None:
        """Tell of one update: its number, its tokens and the smoothed loss in nats per token."""
        self._tokens += num_tokens
        figures = f"{self._speed():>7,.0f} tokens/s  loss {loss_nats:.3f} nats{self._bits}"
        if self._bar is not None:
            self._bar.update(self._task, completed=update, figures=figures)
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._line(f"update {update:,}/{self._total:,}  {figures.strip()}")

    def validated(self, update: int, bits_per_character: float, *, best: bool) -> None:
        """Tell of one validation: bits per character of the text held out for choosing."""
        self._bits = f"  valid {bits_per_character:.3f} bits/char"
        if self._bar is None:
            star = " (best so far)" if best else ""
            self._line(f"update {update:,}/{self._total:,} {self._bits}{star}")

    def training_done(self) -> None:
        """Tell that the held-out text is being scored exactly, which may take a moment."""
        if self._bar is not None:
            self._bar.stop()
        print("scoring the held-out text …", file=sys.stderr, flush=True)

    def _speed(self) -> float:
        """Return tokens per second over the last few seconds."""
        now = time.monotonic()
        self._marks.append((now, self._tokens))
        while len(self._marks) > 2 and now - self._marks[0][0] > SPEED_WINDOW_SECONDS:
            self._marks.pop(0)
        (first, before), (last, after) = self._marks[0], self._marks[-1]
        return (after - before) / (last - first) if last > first else 0.0

    def _line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self._last_line = time.monotonic()
