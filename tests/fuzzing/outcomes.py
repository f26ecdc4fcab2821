"""What comes of an attempt, under limits: an answer, one line of refusal, or a fault."""

import contextlib
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import FrameType

from elman.errors import ElmanError

MOST_SECONDS = 60
"""After this an attempt counts as hanging. It is a hundred times what the slowest one takes."""
MORE_BYTES = 3 << 30
"""Address space that an attempt may take beside what the process has."""


class HangError(BaseException):
    """An attempt did not come to an end."""


def fault_of(attempt: Callable[[], object]) -> str:
    """Return "" where `attempt` works or refuses in one line; otherwise what is wrong."""
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt()
    except ElmanError as error:
        told = str(error)
        if len(told.splitlines()) != 1 or len(told) > 20_000:
            return f"a refusal of {len(told.splitlines())} lines, {len(told)} characters: {told[:200]!r}"
        return ""
    except (Exception, HangError) as error:
        where = "".join(traceback.format_tb(error.__traceback__)[-3:])
        return f"{type(error).__name__}: {str(error)[:300]}\n{where}"
    return ""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Hold what runs within to `MOST_SECONDS` and `MORE_BYTES`."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError("it did not end")

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
