"""One process at a time writes in a run folder: a lock that ends with the process that holds it.

What locks is the system's own lock on the file `run.lock`; what is written in it only tells who.
A file that a killed process has left behind therefore holds nobody up.
"""

import errno
import json
import os
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from elman.errors import RunError

try:
    import fcntl
except ImportError:  # a system without such locks: nothing is locked there
    fcntl = None  # type: ignore[assignment]

LOCK = "run.lock"
MOST_TOLD = 4096
"""Bytes of a lock file that are read."""

_IS_HELD = (errno.EAGAIN, errno.EACCES)
_CANNOT_LOCK = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class RunLock:
    """Held from `take` until `release`, the end of a `with` block or the end of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, folder: str | Path) -> Self:
        """Lock the run folder, which is made where there is none.

        Raises `RunError` with the holder's process, machine and time where another process has it,
        and where the folder cannot be written in. File systems that cannot lock are not locked.
        """
        path = Path(folder) / LOCK
        while True:
            make_run_folder(path.parent)
            descriptor = _opened(path)
            try:
                _lock(path, descriptor)
                if _is_at(path, descriptor):
                    _tell_holder(descriptor)
                    return cls(path, descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # its last holder took the file away meanwhile

    def release(self) -> None:
        """Let others have the folder; what is released stays so."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            if _is_at(self.path, descriptor):
                self.path.unlink(missing_ok=True)
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def make_run_folder(folder: Path) -> None:
    """Make the folder of a run with all above it; raises `RunError` where that cannot be."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} must be a folder for the run", got="a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"cannot make the folder {folder}", got=error.strerror or str(error)
        ) from error


def _opened(path: Path) -> int:
    """Return a descriptor of the lock file; a link in its place is not followed."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        told = "a link in its place" if error.errno == errno.ELOOP else error.strerror
        raise RunError(f"cannot write {path}", got=told or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunError(f"cannot write {path}", got="something that is no file")
    return descriptor


def _lock(path: Path, descriptor: int) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _IS_HELD:
            raise RunError(
                f"{path.parent} is in use: one process at a time trains in it",
                got=_holder(descriptor),
                hint="wait until it has ended, or name another folder",
            ) from None
        if error.errno not in _CANNOT_LOCK:
            raise RunError(f"cannot lock {path}", got=error.strerror or str(error)) from error


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one that has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _tell_holder(descriptor: int) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = {"process": os.getpid(), "machine": socket.gethostname(), "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode() + b"\n", 0)


def _holder(descriptor: int) -> str:
    """Return who holds a lock, as its file tells."""
    try:
        told = json.loads(os.pread(descriptor, MOST_TOLD, 0))
        process, machine, since = (told[name] for name in ("process", "machine", "since"))
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return "another process, which has not told its number"
    return f"process {str(process)[:20]} on {str(machine)[:80]} since {str(since)[:40]}"
