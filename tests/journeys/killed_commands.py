"""Commands that are killed before the n-th thing that they do to the files of a folder.

What is counted: a file opened for writing, flushed to the disk, renamed or taken away, and a folder
made or taken away. The process sends itself SIGKILL, so that nothing of it runs after.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

LOADED = (
    *("torch", "torch._dynamo", "elman.apps.cli.main"),
    *("elman.recipes.language_model", "elman.recipes.classify"),
)
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")


class KillableCommands:
    """Runs commands in children of a process that has loaded torch and runs nothing else."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(LOADED))

    def run(self, arguments: Sequence[str | Path], folder: Path, *, kill_at: int = 0) -> int:
        """Run `elman` until it is about to do the `kill_at`-th thing to `folder` (0: to its end).

        Returns how many things it did where it came to its end, and 0 where it was killed.
        """
        reading, writing = self._context.Pipe(duplex=False)
        given = (list(map(str, arguments)), str(folder), kill_at, writing)
        process = self._context.Process(target=_be_killed, args=given)
        process.start()
        writing.close()
        try:
            done, status = reading.recv()
        except EOFError:
            process.join()
            assert process.exitcode == -signal.SIGKILL, process.exitcode
            return 0
        process.join()
        assert status in (0, None), f"elman {' '.join(given[0])} ended with {status}"
        return int(done)


def _be_killed(arguments: list[str], folder: str, kill_at: int, told: Connection) -> None:
    """Be the command, in this process."""
    from elman.apps.cli.entry import main

    done = 0

    def about_to(path: object) -> None:
        nonlocal done
        if isinstance(path, str | os.PathLike) and str(path).startswith(folder):
            done += 1
            if done == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, given: tuple[object, ...]) -> None:
        is_written = event == "open" and isinstance(given[2], int) and given[2] & os.O_ACCMODE
        if is_written or event in CHANGES:
            about_to(given[0])

    flush = os.fsync

    def flushed(descriptor: int) -> None:
        about_to(folder)
        flush(descriptor)

    sys.addaudithook(heard)
    os.fsync = flushed
    sys.argv = ["elman", *arguments]
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    status: object = 0
    try:
        main()
    except SystemExit as leaving:
        status = leaving.code
    told.send((done, status))
