"""Room on the disk, asked for before it is needed: a run that cannot be saved is not begun."""

import shutil
from pathlib import Path

from elman.errors import RunError

MEGABYTE = 1e6


def require_space(folder: Path, needed_bytes: int, what: str) -> None:
    """Raise `RunError` where the disk of `folder` has less room than `what` will take."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise RunError(
            f"there is too little room in {folder} for {what}",
            got=f"{free / MEGABYTE:,.1f} MB free",
            allowed=f"{needed_bytes / MEGABYTE:,.1f} MB",
            hint="make room there, or name a folder on another disk with --out",
        )
