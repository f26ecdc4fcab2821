"""A comparison as a picture: bits per byte of each model, with its interval."""

import math
from pathlib import Path
from typing import Any

from elman.evaluation.comparison import ModelComparison
from elman.evaluation.drawing import picture_bytes, picture_format, write_picture
from elman.evaluation.packages import metric_module

_ROW_INCHES, _WIDTH_INCHES = 0.42, 7.0
_ABOVE_INCHES = 1.3


def draw_comparison(comparison: ModelComparison, path: Path, *, title: str = "") -> None:
    """Write the picture to `path`, which ends in .png or .svg and is overwritten.

    Rows are in the order of the comparison, from above; the bar is the 95 % interval. Raises
    `SettingError` for another ending, `MissingPackageError` without matplotlib, `RunError` where
    the disk refuses.
    """
    kind = picture_format(path)
    write_picture(path, picture_bytes(lambda: _figure(comparison, title), kind))


def _figure(comparison: ModelComparison, title: str) -> Any:
    figure_module = metric_module("matplotlib.figure", "draw pictures")
    rows = [row for row in comparison.rows if row.compared.score.bits_per_byte is not None]
    height = _ABOVE_INCHES + _ROW_INCHES * len(rows)
    figure = figure_module.Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        bits = row.compared.score.bits_per_byte
        if bits is None or math.isinf(bits):
            axes.annotate(
                "infinite", (0.02, place), xycoords=("axes fraction", "data"), va="center"
            )
            continue
        if row.interval is not None:
            axes.plot([row.interval.low, row.interval.high], [place, place], color="#4c78a8", lw=3)
        axes.plot([bits], [place], "o", color="#1f3a5f", ms=6)
        shown = f"{bits:.3f}" + ("*" if row.compared.is_too_low else "")
        axes.annotate(shown, (bits, place), textcoords="offset points", xytext=(0, 7), ha="center")
    axes.set_yticks(range(len(rows)), [row.compared.name for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.12)
    low = any(row.compared.is_too_low for row in rows)
    axes.set_xlabel(
        "bits per byte (less is better)"
        + ("\n* too low: much of the text is unknown to it and costs little" if low else "")
    )
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if title:
        axes.set_title(title, loc="left")
    return figure
