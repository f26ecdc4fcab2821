"""What `elman inspect` refuses before any work: options that would come to nothing, bad places."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from elman.apps.cli.inspect_options import View, ViewOptions
from elman.apps.cli.options import require_at_least
from elman.errors import SettingError


class _Use(NamedTuple):
    """What an option is for: the views that heed it, and whether the page does."""

    told: str
    views: tuple[View, ...]
    on_page: bool = False


_USES: Mapping[str, _Use] = MappingProxyType(
    {
        "--layer": _Use("--layer is for traces and gradients", ("trace", "gradients"), True),
        "--unit": _Use("--unit names units of a trace", ("trace",)),
        "--top": _Use("--top is for a trace", ("trace",), True),
        "--csv": _Use("--csv writes a trace", ("trace",)),
        "--scalar": _Use("--scalar is asked of gradients", ("gradients",), True),
        "--at": _Use("--at is asked of gradients", ("gradients",)),
        "--positions": _Use("--positions are places of a horizon", ("horizon",)),
    }
)


def require_use(options: ViewOptions, others: Mapping[str, object]) -> None:
    """Raise `SettingError` for options out of range and for those that nothing would heed.

    `others` are the options beside those of views, by name; None: not given.
    """
    require_at_least("--top", options.num_top, 1)
    require_at_least("--positions", options.num_positions, 2)
    if others["--encoding"] is not None and others["--file"] is None:
        raise SettingError("--encoding says how --file is read", got="no --file")
    if options.since is not None or others["--compare"] is not None:
        return
    for name in options.given:
        use = _USES.get(name)
        if use is None or set(use.views) & set(options.views):
            continue
        if not (use.on_page and others["--html"] is not None):
            wanted = " or ".join(f"--show {view}" for view in use.views)
            raise SettingError(use.told, got=f"no {wanted}")
    if options.picture is not None and options.views == ("change",):
        raise SettingError("the views shown have no picture", got="--picture")


def require_only(
    what: str, given: Mapping[str, object], kept: Sequence[str], *, allowed: str
) -> None:
    """Raise `SettingError`, which begins with `what`, for given options that are not `kept`."""
    strange = [name for name, value in given.items() if value is not None and name not in kept]
    if strange:
        raise SettingError(what, got=", ".join(strange), allowed=allowed)


def require_places(options: ViewOptions, html: Path | None) -> None:
    """Raise for files that could not be written: a wrong ending, a folder that is not there.

    Raises `SettingError`, and `MissingPackageError` for a picture without matplotlib.
    """
    for name, path in (("--picture", options.picture), ("--csv", options.csv), ("--html", html)):
        if path is not None:
            _require_place(name, path)
    if options.picture is not None:
        from elman.evaluation.drawing import picture_format
        from elman.evaluation.packages import metric_module

        picture_format(options.picture)
        metric_module("matplotlib", "draw pictures")


def _require_place(name: str, path: Path) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # a device, such as /dev/stdout
    if path.is_dir():
        raise SettingError(f"{name} must be a file", got=f"{path}, a folder")
    folder = path.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise SettingError(
            f"{name} must be a file in a folder that is there and can be written to", got=str(path)
        )
