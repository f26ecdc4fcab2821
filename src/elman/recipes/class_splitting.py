"""How a vocabulary is split into classes: what its tokens' counts say, and what it then costs."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.data.token_array import LINES_AT_ONCE, LineArray
from elman.errors import SettingError
from elman.layers.class_split import ClassSplit
from elman.models.language import LanguageModel
from elman.recipes.prepared_text import PreparedText

LEAST_VOCABULARY = 1000
"""Below it there is nothing to gain: the product of the whole output is as small as one of its
parts, and three of them take three calls."""

LARGE_VOCABULARY = 10_000
"""From this many tokens on `model.softmax` "auto" splits the output."""

HEAD_SHARE = 0.8
"""Share of the training text whose words stand in the head, where nothing is lost to narrowness."""

IDS_AT_ONCE = 1 << 20


def token_counts(prepared: PreparedText) -> npt.NDArray[np.int64]:
    """Return counts_V, how often each id is to be predicted in the training part.

    The stop mark is once in each line; a stream's first token counts too, which is one too many.
    """
    vocabulary, ids = prepared.tokenizer.vocabulary, prepared.parts["train"].ids
    counts_V = np.zeros(len(vocabulary), dtype=np.int64)
    if isinstance(ids, LineArray):
        for start in range(0, len(ids), LINES_AT_ONCE):
            lines = map(ids.line, range(start, min(start + LINES_AT_ONCE, len(ids))))
            counts_V += np.bincount(np.concatenate(list(lines)), minlength=len(counts_V))
        assert vocabulary.boundary_id is not None
        counts_V[vocabulary.boundary_id] += len(ids)
        return counts_V
    for start in range(0, len(ids), IDS_AT_ONCE):
        counts_V += np.bincount(ids[start : start + IDS_AT_ONCE], minlength=len(counts_V))
    return counts_V


def with_cutoffs(settings: Settings, prepared: PreparedText) -> Settings:
    """Return `settings` with the kind of softmax and its cutoffs chosen, where they were left open.

    Raises `SettingError` for a vocabulary that is too small for a choice to gain anything.
    """
    model = settings.model
    if model.softmax == "auto":
        large = len(prepared.tokenizer.vocabulary) >= LARGE_VOCABULARY
        model = replace(model, softmax="adaptive" if large else "full")
        settings = replace(settings, model=model)
    if model.softmax != "adaptive" or model.cutoffs:
        return settings
    counts_V = token_counts(prepared)
    if len(counts_V) < LEAST_VOCABULARY:
        raise SettingError(
            'model.softmax = "adaptive" is for large vocabularies',
            got=f"{len(counts_V):,} tokens",
            allowed=f"{LEAST_VOCABULARY:,} and more",
            hint='set model.softmax = "full", or model.cutoffs by hand',
        )
    return replace(settings, model=replace(model, cutoffs=cheapest_cutoffs(counts_V, model)))


def order_readout(model: LanguageModel, prepared: PreparedText) -> None:
    """Give a split output of a new model the order of the counts; another output has none."""
    if isinstance(model.readout, ClassSplit):
        model.readout.order_by(torch.from_numpy(token_counts(prepared)))


def cheapest_cutoffs(counts_V: npt.NDArray[np.int64], model: ModelSettings) -> tuple[int, int]:
    """Return c_1 < c_2: the head covers `HEAD_SHARE` of all tokens, the rest is cheapest.

        Σ_i P(class i) · F_i (H + n_i)  is least

    with n_i words in class i, F_i the width it is seen through and P its share of all tokens; tied
    to the embedding every class is seen through E, and H + n_i is n_i. Two
    classes, as more gain little (E. Grave et al., arXiv:1609.04309, section 4.3). The head is not
    chosen by cost: fewest multiplications would leave a few dozen words in it, and see every other
    one through a quarter of the units. Counts come in the order of ids.
    """
    width = model.projection_size or model.hidden_size
    narrow = [max(1, int(width / model.tail_divisor**place)) for place in (1, 2)]
    if model.tie_weights:
        narrow = [model.embedding_size] * 2
        width = 0  # nothing is narrowed first
    size = len(counts_V)
    # One more for each word, so that those unseen are not free.
    share = np.cumsum(np.sort(counts_V)[::-1] + 1.0) / (counts_V.sum() + size)
    first = min(int(np.searchsorted(share, HEAD_SHARE)) + 1, size - 2)
    second = np.arange(first + 1, size)
    in_second = share[second - 1] - share[first - 1]
    cost = in_second * narrow[0] * (width + second - first)
    cost += (1.0 - share[second - 1]) * narrow[1] * (width + size - second)
    return first, int(second[cost.argmin()])
