"""Ctrl-C: the first asks for a stop at the next safe point, the second stops at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

EXIT_INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a process that was asked to stop, as shells have it."""


@contextmanager
def polite_interrupts(
    on_first: Callable[[], None], *, repeats: bool = False
) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether a stop was asked for (SIGINT or SIGTERM).

    The first signal calls `on_first` and sets the flag; a second SIGINT has its ordinary effect,
    unless one keystroke comes several times (`repeats`), as under `torchrun`, which hands it on.
    """
    asked = Event()

    def handle(number: int, frame: FrameType | None) -> None:
        first = not asked.is_set()
        asked.set()
        if not repeats:
            signal.signal(signal.SIGINT, before[signal.SIGINT])
        if first:
            on_first()

    watched = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, handle) for number in watched}
    try:
        yield asked.is_set
    finally:
        for number in watched:
            signal.signal(number, before[number])
