"""Curves of reach as a picture: the loss over how many tokens are kept, a line a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elman.evaluation.drawing import picture_bytes, picture_format, write_picture
from elman.evaluation.packages import metric_module
from elman.evaluation.reach import ReachCurve


def draw_reach(curves: Sequence[tuple[str, Sequence[ReachCurve]]], path: Path) -> None:
    """Write the picture of the named curves to `path`, which ends in .png or .svg.

    One panel a kind, the length kept on a scale of logarithms. Raises `SettingError` for another
    ending, `MissingPackageError` without matplotlib, `RunError` where the disk refuses.
    """
    kind = picture_format(path)
    write_picture(path, picture_bytes(lambda: _figure(curves), kind))


def _figure(curves: Sequence[tuple[str, Sequence[ReachCurve]]]) -> Any:
    figure_module = metric_module("matplotlib.figure", "draw pictures")
    kinds = [curve.kind for curve in curves[0][1]]
    figure = figure_module.Figure(figsize=(5.2 * len(kinds), 4.2), layout="constrained")
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, place in zip(panels, range(len(kinds)), strict=True):
        for name, each in curves:
            curve = each[place]
            axes.errorbar(
                curve.lengths, curve.nats, yerr=curve.half_widths, marker="o", ms=3, label=name
            )
        lengths = curves[0][1][place].lengths
        axes.set_xscale("log")
        axes.set_xticks(lengths, map(str, lengths))
        axes.minorticks_off()
        axes.set_xlabel("tokens kept as they are")
        axes.set_title(f"{kinds[place]} before that", loc="left")
        axes.grid(color="#dddddd", lw=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("nats per token (less is better)")
    panels[-1].legend(frameon=False)
    return figure
