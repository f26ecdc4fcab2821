"""Files that are either the old ones or the new ones, whatever happens while they are written."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from elman.errors import RunError

LEFTOVER_SUFFIX = ".tmp"
DEVICES = Path("/dev")
STANDARD_OUTPUT = DEVICES / "stdout"
# What file systems answer that cannot flush a folder; the rename itself has happened by then.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path`, as `writing_bytes` does."""
    with writing_bytes(path) as file:
        file.write(content)


@contextmanager
def writing_bytes(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write: at every moment a reader finds the old file or the new one, whole.

    The bytes go to a temporary name in the same folder and to the disk; then that file takes the
    name of the old one, and the folder goes to the disk. A write that fails leaves the old file and
    no other; a process killed meanwhile may leave a file ending in `.tmp`, which nothing reads and
    `remove_leftovers` deletes. Raises `RunError` where the disk is full or refuses.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{LEFTOVER_SUFFIX}")
    try:
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105 — the call that is atomic, by its own name
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"cannot write {path}", got=_reason(error)) from error


@contextmanager
def writing_atomically(path: Path) -> Iterator[TextIO]:
    """Give a text file to write piece by piece; it takes the name `path` if the block ends well.

    A block that fails leaves the file that was there before, and no other. A link is followed.
    /dev/stdout is this process's own standard output; another device is written to directly. Raises
    `RunError` where the disk is full or refuses.
    """
    if path == STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        path = path.resolve()
        direct = DEVICES in path.parents or (path.exists() and not path.is_file())
        target = path if direct else path.with_name(f"{path.name}.{os.getpid()}{LEFTOVER_SUFFIX}")
        try:
            with target.open("w", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                if not direct:
                    os.fsync(file.fileno())
            if not direct:
                os.replace(target, path)  # noqa: PTH105 — the call that is atomic, by its own name
        except BaseException:
            if not direct:
                target.unlink(missing_ok=True)
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(f"cannot write {path}", got=_reason(error)) from error


def sync_folder(folder: Path) -> None:
    """Have the names in `folder` written to the disk, where the system can do that."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def leftovers(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the temporary files in `folder` that a killed write of one of `names` has left."""
    return sorted(
        path
        for name in names
        for path in folder.glob(f"{name}*{LEFTOVER_SUFFIX}")
        if path.is_file()
    )


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Delete what `leftovers` returns. Only for the one process that writes in `folder`."""
    for path in leftovers(folder, names):
        path.unlink(missing_ok=True)


def require_file(path: Path) -> None:
    """Raise `RunError` where something is at `path` that is no file, nor a link to one.

    Reading a pipe waits for who writes to it, and a device may have no end.
    """
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise RunError(f"{path} is not a file", got=what, hint="put the file itself there")


def read_whole(path: Path) -> bytes:
    """Return the bytes of the file at `path`; raises `RunError` where it cannot be read."""
    require_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {path}", got=_reason(error)) from error


def read_utf8(path: Path) -> str:
    """Return the text of the file at `path`; raises `RunError` where it is not UTF-8."""
    try:
        return read_whole(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RunError(
            f"{path} is not UTF-8 text, so it was altered",
            got=f"byte {error.object[error.start]:#04x} at {error.start}",
        ) from None


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
