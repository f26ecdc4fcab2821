"""Pictures as bytes: the same for the same figures, whatever a person's own settings are."""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from elman.atomic_files import write_atomically
from elman.errors import SettingError
from elman.evaluation.packages import metric_module

PictureFormat = Literal["png", "svg"]

DOTS_PER_INCH = 150
_EMPTY_METADATA: Mapping[PictureFormat, Mapping[str, str | None]] = MappingProxyType(
    {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
)


def picture_format(path: Path) -> PictureFormat:
    """Return the format that the ending of `path` names. Raises `SettingError` for another one."""
    ending = path.suffix.lower()
    if ending not in {".png", ".svg"}:
        raise SettingError("a picture must be a .png or .svg file", got=str(path))
    return "svg" if ending == ".svg" else "png"


def picture_bytes(
    build: Callable[[], Any], kind: PictureFormat, *, fonts: Sequence[str] = ()
) -> bytes:
    """Return the figure that `build` makes as the bytes of a file, drawn with `fonts` if any.

    Raises `MissingPackageError` without matplotlib.
    """
    matplotlib = metric_module("matplotlib", "draw pictures")
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A user's matplotlibrc must not change the picture; missing glyphs are dealt with.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "elman"
        if fonts:
            matplotlib.rcParams["font.family"] = list(fonts)
        buffer = io.BytesIO()
        build().savefig(
            buffer,
            format=kind,
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            metadata=dict(_EMPTY_METADATA[kind]),
        )
    return buffer.getvalue()


def write_picture(path: Path, picture: bytes) -> None:
    """Write `picture` to `path`. Raises `RunError` where the disk refuses."""
    write_atomically(path.resolve(), picture)
