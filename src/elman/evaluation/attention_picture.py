"""What a decoder attended to, as a picture: a row for each target token, a column for each source
token."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.errors import DataError
from elman.evaluation.packages import metric_module

INCHES_A_TOKEN = 0.28
MOST_INCHES = 24.0
LEAST_INCHES = 2.5
MOST_NAMED = 120
"""Tokens on an axis that are named; of more only their numbers are."""


def draw_attention(
    weights_TS: npt.NDArray[np.floating],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: Path,
) -> bool:
    """Draw weights_TS, darker where larger, to a .png, .svg or .pdf file.

    Return whether the font has every character; the others are drawn as boxes. Raises `DataError`
    where the weights are not of these tokens, `MissingPackageError` without matplotlib.
    """
    if weights_TS.shape != (len(target_tokens), len(source_tokens)):
        raise DataError(
            "attention must have a row for each target and a column for each source token",
            got=f"{weights_TS.shape} for {len(target_tokens)} and {len(source_tokens)}",
        )
    figure_module = metric_module("matplotlib.figure", "draw attention")
    height, width = (
        min(max(LEAST_INCHES, INCHES_A_TOKEN * count + 1.0), MOST_INCHES)
        for count in weights_TS.shape
    )
    figure = figure_module.Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(weights_TS, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    if len(source_tokens) <= MOST_NAMED:
        turned = 90 if max(map(len, source_tokens), default=0) > 2 else 0
        axes.set_xticks(range(len(source_tokens)), map(_plain, source_tokens), rotation=turned)
    if len(target_tokens) <= MOST_NAMED:
        axes.set_yticks(range(len(target_tokens)), map(_plain, target_tokens))
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.savefig(path, dpi=100)
    return not any("Glyph" in str(each.message) for each in told)


def _plain(token: str) -> str:
    """Return a token as a label: blanks and controls seen, nothing taken for mathematics."""
    seen = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in token
    )
    return seen.replace(" ", "␣").replace("$", r"\$")
