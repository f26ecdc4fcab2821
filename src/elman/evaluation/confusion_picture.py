"""A confusion matrix as a picture: PNG or SVG, readable with two classes and with 150.

Rows are gold labels, columns predicted ones; the shade is the share of the row, right ones in blue,
wrong ones in orange, on a scale of square roots so that single mistakes can be seen. Numbers are
rows of the data.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from elman.errors import one_line
from elman.evaluation.drawing import PictureFormat, picture_bytes, picture_format, write_picture
from elman.evaluation.labels import LabelScores
from elman.evaluation.packages import metric_module
from elman.evaluation.picture_labels import not_mathematics

MOST_DRAWN_LABELS = 160
MOST_LABEL_CHARACTERS = 28
_PURPOSE = "draw pictures"
_POINTS_PER_INCH = 72
# Cells get smaller as labels get more, within what can be read: a two-digit number in 4 points.
_LARGEST_CELL_INCHES, _SMALLEST_CELL_INCHES, _MATRIX_INCHES = 0.6, 0.125, 9.0
_MOST_LABELS_ON_TWO_SIDES = 40
_LEGEND = "number: rows   shade: share of the gold label\nblue: right   orange: wrong"
# DejaVu comes with matplotlib; the others are taken for scripts it lacks, where installed.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
)


def draw_confusion(scores: LabelScores, path: Path, *, title: str = "") -> None:
    """Write the picture to `path`, which ends in .png or .svg and is overwritten.

    Raises `SettingError` for another ending, `MissingPackageError` without matplotlib, `RunError`
    where the disk refuses.
    """
    kind = picture_format(path)
    write_picture(path, confusion_picture(scores, kind=kind, title=title))


def confusion_picture(
    scores: LabelScores, *, kind: PictureFormat = "png", title: str = ""
) -> bytes:
    """Return the picture as the bytes of a file, the same for the same scores.

    Of more than 160 labels the most confused ones are drawn, the rest joined as `(others)`.
    Characters that no installed font has are written as their code points. Raises
    `MissingPackageError` without matplotlib.
    """
    metric_module("matplotlib", _PURPOSE)
    scores = scores.narrowed(MOST_DRAWN_LABELS)
    fonts = _installed_fonts()
    covered = frozenset().union(*(characters for _, characters in fonts))
    written = _told_apart([_drawable(label, covered) for label in scores.labels])
    shown = _drawable(title, covered) if title else ""
    return picture_bytes(
        lambda: _figure(scores, written, shown),
        kind,
        fonts=[name for name, _ in fonts],
    )


def _figure(scores: LabelScores, names: list[str], title: str) -> Any:
    size = max(1, len(names))
    cell = min(_LARGEST_CELL_INCHES, max(_SMALLEST_CELL_INCHES, _MATRIX_INCHES / size))
    points = min(10.0, 0.62 * cell * _POINTS_PER_INCH)
    side = cell * size
    figure = metric_module("matplotlib.figure", _PURPOSE).Figure(figsize=(side, side))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    counts_CC = scores.confusion()
    support_C = counts_CC.sum(axis=1, keepdims=True)
    shares_CC = counts_CC / np.maximum(support_C, 1)
    right_CC = np.eye(len(names), dtype=bool)
    colors = metric_module("matplotlib.colors", _PURPOSE)
    for shades, mask_CC in (("Blues", ~right_CC), ("Oranges", right_CC)):
        axes.imshow(
            np.ma.masked_array(shares_CC, mask_CC | (counts_CC == 0)),
            cmap=shades,
            norm=colors.PowerNorm(0.5, vmin=0.0, vmax=1.0),
            interpolation="nearest",
        )
    _write_counts(axes, counts_CC, shares_CC, points, cell * _POINTS_PER_INCH)
    _write_axes(axes, names, points)
    if title:
        axes.set_title(title, fontsize=max(9.0, 1.2 * points), pad=10)
    return figure


def _write_counts(
    axes: Any, counts_CC: Any, shares_CC: Any, points: float, cell_points: float
) -> None:
    for row, column in zip(*np.nonzero(counts_CC), strict=True):
        count = int(counts_CC[row, column])
        axes.text(
            column,
            row,
            str(count),
            ha="center",
            va="center",
            # A digit is 0.64 of its size wide: a longer number would run into its neighbours.
            fontsize=min(points, 0.9 * cell_points / (0.64 * len(str(count)))),
            color="white" if shares_CC[row, column] > 0.35 else "black",
        )


def _write_axes(axes: Any, names: list[str], points: float) -> None:
    places = range(len(names))
    axes.set_xticks(places, labels=names, rotation=90, fontsize=points)
    axes.set_yticks(places, labels=names, fontsize=points)
    everywhere = len(names) > _MOST_LABELS_ON_TWO_SIDES
    axes.tick_params(
        length=2, top=everywhere, labeltop=everywhere, right=everywhere, labelright=everywhere
    )
    axes.set_xticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#dddddd", linewidth=0.4)
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel(f"predicted\n\n{_LEGEND}", fontsize=max(9.0, points))
    axes.set_ylabel("gold", fontsize=max(9.0, points))


def _drawable(text: str, covered: frozenset[int]) -> str:
    """Return the text on one line, without its middle where it is long, in characters of fonts.

    Long labels often begin alike: their ends tell them apart.
    """
    shown = "".join(
        c if ord(c) in covered else c.encode("unicode_escape").decode() for c in one_line(text)
    )
    if len(shown) > MOST_LABEL_CHARACTERS:
        tail = MOST_LABEL_CHARACTERS // 3
        shown = shown[: MOST_LABEL_CHARACTERS - 1 - tail] + "…" + shown[-tail:]
    return not_mathematics(shown) or "''"


def _told_apart(names: list[str]) -> list[str]:
    """Return the names with the numbers of their rows before those that are written alike."""
    counts = Counter(names)
    return [
        f"({number}) {name}" if counts[name] > 1 else name for number, name in enumerate(names, 1)
    ]


def _installed_fonts() -> list[tuple[str, frozenset[int]]]:
    """Return the fonts to draw with, and the characters that each of them has."""
    manager = metric_module("matplotlib.font_manager", _PURPOSE)
    installed: Iterable[str] = set(manager.get_font_names())
    found = []
    for name in _FONTS:
        if name in installed:
            font = manager.get_font(manager.findfont(name))
            found.append((name, frozenset(font.get_charmap())))
    return found
