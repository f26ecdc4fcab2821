"""Pictures of panels side by side, those of the laboratory and of a run, all in one hand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elman.evaluation.drawing import picture_bytes, picture_format, write_picture
from elman.evaluation.packages import metric_module

Plot = Callable[[Any], None]
"""Draws on matplotlib's axes."""

PANEL_INCHES = (5.2, 4.0)


@dataclass(frozen=True)
class WidePlot:
    """A plot that has its own width, at least that of other panels."""

    draw: Plot
    inches: float

    def __call__(self, axes: Any) -> None:
        """Draw on matplotlib's axes."""
        self.draw(axes)


def draw_panels(path: Path, plots: Sequence[Plot]) -> None:
    """Write a picture with one panel for each of `plots`, with a legend where lines have labels.

    Raises `SettingError` for an ending other than .png and .svg, `MissingPackageError` without
    matplotlib, `RunError` where the disk refuses.
    """
    kind = picture_format(path)
    write_picture(path, picture_bytes(lambda: _figure(plots), kind))


def _figure(plots: Sequence[Plot]) -> Any:
    usual, height = PANEL_INCHES
    widths = [max(usual, plot.inches) if isinstance(plot, WidePlot) else usual for plot in plots]
    figure_module = metric_module("matplotlib.figure", "draw pictures")
    figure = figure_module.Figure(figsize=(sum(widths), height), layout="constrained")
    figure.get_layout_engine().set(wspace=0.1)
    panels = figure.subplots(1, len(plots), squeeze=False, width_ratios=widths)[0]
    for axes, plot in zip(panels, plots, strict=True):
        plot(axes)
        if axes.get_legend_handles_labels()[1] and axes.get_legend() is None:
            axes.legend(frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure
