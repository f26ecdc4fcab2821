"""What `torchrun` tells a process that it starts with others, in environment variables."""

import os
from dataclasses import dataclass

from elman.errors import SettingError


@dataclass(frozen=True)
class Launch:
    """One process of `size`, the number `rank` among them, after so many restarts of all."""

    rank: int = 0
    size: int = 1
    restarts: int = 0


def launch() -> Launch:
    """Return how this process was started: alone, unless the variables say otherwise.

    Raises `SettingError` where they do not say enough, or what cannot be.
    """
    size = _number("WORLD_SIZE", 1)
    if size <= 1:
        return Launch()
    if not {"MASTER_ADDR", "MASTER_PORT", "RANK"} <= os.environ.keys():
        raise SettingError(
            "WORLD_SIZE says that several processes train together, and nothing says how to meet",
            got=f"WORLD_SIZE = {size} without RANK, MASTER_ADDR and MASTER_PORT",
            hint="start them with torchrun --nproc-per-node N -m elman train …",
        )
    return Launch(_number("RANK", 0), size, _number("TORCHELASTIC_RESTART_COUNT", 0))


def require_one_process(what: str) -> None:
    """Raise `SettingError` where several processes were started to do `what`."""
    size = launch().size
    if size > 1:
        raise SettingError(
            f"one process {what}",
            got=f"{size} processes",
            hint="leave torchrun out",
        )


def _number(name: str, otherwise: int) -> int:
    given = os.environ.get(name, "")
    if given and not given.isdecimal():
        raise SettingError(f"the variable {name} must be a number >= 0", got=given)
    return int(given) if given else otherwise
