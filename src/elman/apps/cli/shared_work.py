"""A command that several processes do together: the first one speaks, the others are silent."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from elman.errors import SettingError
from elman.recipes.launching import launch
from elman.text.raw_files import is_standard_input

if TYPE_CHECKING:
    from elman.processes import Processes


@contextmanager
def shared_work(names: Sequence[str]) -> Iterator["Processes"]:
    """Give the processes that `torchrun` started, connected, or this one alone.

    All but the first write nothing to standard output and standard error meanwhile. `names` are
    what is read: all of them have to read it.
    """
    from elman.processes import Processes

    size = launch().size
    if size == 1:
        yield Processes()
        return
    if any(map(is_standard_input, names)):
        raise SettingError(
            "standard input can be read by one process",
            got=f"- and {size} processes",
            hint="name a file that all of them can read",
        )
    from elman.recipes.joining import joined_team

    with joined_team() as team, ExitStack() as silence:
        processes = team.connected()
        if team.rank:
            nowhere = silence.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            silence.enter_context(redirect_stdout(nowhere))
            silence.enter_context(redirect_stderr(nowhere))
        yield processes


def of_the_first(path: Path | None, processes: "Processes") -> Path | None:
    """Return the file to write, which is None in all processes but the first."""
    return None if processes.rank else path
