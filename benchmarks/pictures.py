"""How the pictures of the benchmarks look: one panel, a pale grid, a legend without a frame."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def panel(path: Path) -> Iterator[Any]:
    """Hand over axes to draw on, and write them to `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    yield axes
    axes.grid(color="#dddddd", lw=0.6)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
