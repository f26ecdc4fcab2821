"""What a decoder attended to, as a picture: a row for each target token, a column for each source
token."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.errors import DataError
from elman.evaluation.drawing import DOTS_PER_INCH
from elman.evaluation.packages import metric_module
from elman.evaluation.picture_labels import token_label

INCHES_A_TOKEN = 0.32
MOST_INCHES = 24.0
LEAST_INCHES = 3.0
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
        min(max(LEAST_INCHES, INCHES_A_TOKEN * count + beside), MOST_INCHES)
        for count, beside in zip(weights_TS.shape, (1.5, 2.5), strict=True)
    )
    figure = figure_module.Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(weights_TS, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    if len(source_tokens) <= MOST_NAMED:
        turned = 90 if max(map(len, source_tokens), default=0) > 2 else 0
        axes.set_xticks(range(len(source_tokens)), map(token_label, source_tokens), rotation=turned)
    if len(target_tokens) <= MOST_NAMED:
        axes.set_yticks(range(len(target_tokens)), map(token_label, target_tokens))
    axes.set_xlabel("source token")
    axes.set_ylabel("target token")
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    figure.colorbar(image, ax=axes, label="weight (a row sums to 1)", pad=0.02)
    figure.suptitle("where each target token looks", fontsize=11)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.savefig(path, dpi=DOTS_PER_INCH)
    return not any("Glyph" in str(each.message) for each in told)
