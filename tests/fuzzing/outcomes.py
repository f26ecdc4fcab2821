"""What comes of an attempt, under limits: an answer, one line of refusal, or a fault."""

import contextlib
import os
import random
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Protocol

from elman.errors import ElmanError

MOST_SECONDS = 30
"""After this an attempt counts as hanging. It is a hundred times what a usual one takes."""
MORE_BYTES = 3 << 30
"""Address space that an attempt may take beside what the process has."""
LONGEST_LINE = 20_000


class Attempt(NamedTuple):
    """What was changed in an input, and the use of it."""

    changed: str
    use: Callable[[], object]


class Subject(Protocol):
    """What is fuzzed: something good, made once, of which each attempt spoils a copy."""

    name: str

    def prepare(self, scratch: Path) -> None:
        """Make what is good, once."""

    def attempt(self, draw: random.Random) -> Attempt:
        """Return one attempt, the same for the same draws."""


class Outcome(NamedTuple):
    """One of three ends: an answer, a refusal (told in one line), a fault (told at length)."""

    kind: str
    told: str = ""


class HangError(BaseException):
    """An attempt did not come to an end."""


def outcome_of(subject: Subject, seed: int, number: int) -> Outcome:
    """Return what comes of attempt `number` of a prepared subject."""
    attempt = subject.attempt(random.Random(f"{subject.name} {seed} {number}"))
    outcome = outcome_of_use(attempt.use)
    told = f"{attempt.changed}: {outcome.told}" if outcome.told else attempt.changed
    return outcome._replace(told=told)


def outcome_of_use(use: Callable[[], object], *, within_limits: bool = True) -> Outcome:
    """Return what comes of `use`, as a rule under the limits of this module."""
    try:
        with limited() if within_limits else contextlib.nullcontext(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use()
    except ElmanError as error:
        told = str(error)
        if len(told.splitlines()) == 1 and len(told) <= LONGEST_LINE:
            return Outcome("refused", told)
        return Outcome("fault", f"{len(told.splitlines())} lines, {len(told):,} characters")
    except (Exception, HangError) as error:
        where = "".join(traceback.format_tb(error.__traceback__)[-4:])
        return Outcome("fault", f"{type(error).__name__}: {str(error)[:300]}\n{where}")
    return Outcome("answered")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Hold what runs within to `MOST_SECONDS` and `MORE_BYTES`."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError(f"it did not end within {MOST_SECONDS} seconds")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:  # noqa: PTH123
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE_BYTES, hard))
    signal.alarm(MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
