"""`metrics.jsonl`: one line a row, in the order of the updates, added to while training runs."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from elman.atomic_files import read_whole, write_atomically
from elman.checkpoints.json_values import readable_json
from elman.errors import RunError


def append_row(path: Path, row: Mapping[str, object]) -> None:
    """Add `row`, which has the number of its update under "update", as one line at the end."""
    if not isinstance(row.get("update"), int):
        raise TypeError('a row of metrics has an int under "update"')
    try:
        with path.open("ab") as file:
            file.write((readable_json(row) + "\n").encode())
    except OSError as error:
        raise RunError(f"cannot write {path}", got=error.strerror or str(error)) from error


def read_rows(path: Path) -> list[dict[str, object]]:
    """Return all whole rows; a last line that a kill has cut short is left out.

    A file that is not there has no rows. Raises `RunError` for a broken line in the middle.
    """
    if not path.exists():
        return []
    lines = read_whole(path).splitlines(keepends=True)
    rows = [row for _, row in _valid_rows(lines)]
    if len(rows) < len(lines) - 1:
        raise RunError(f"{path} has a broken line", got=f"line {len(rows) + 1}")
    return rows


def keep_rows_until(path: Path, update: int) -> None:
    """Drop every row after `update`, and whatever follows a broken line: training begins there."""
    if not path.exists():
        return
    lines = read_whole(path).splitlines(keepends=True)
    kept = [line for line, row in _valid_rows(lines) if _update_of(row) <= update]
    if len(kept) != len(lines):
        write_atomically(path, b"".join(kept))


def sync_rows(path: Path) -> None:
    """Have the rows written so far flushed to the disk."""
    if path.exists():
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def _valid_rows(lines: list[bytes]) -> Iterator[tuple[bytes, dict[str, object]]]:
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not line.endswith(b"\n") or not isinstance(row, dict) or "update" not in row:
            return
        yield line, row


def _update_of(row: Mapping[str, object]) -> float:
    update = row["update"]
    return update if isinstance(update, int) else float("inf")
