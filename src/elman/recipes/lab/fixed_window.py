"""What a fixed number of last tokens cannot show: n-grams and the window model.

    p(x_t | x_1 … x_{t−1})  →  p(x_t | x_{t−k} … x_{t−1})

A change further back than k changes no prediction, not by little but not at all; every distance
has weights of its own, W [H, k E], so that parameters grow with k as a straight line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import SmoothingOptions, estimate
from elman.models.ngram_model import NgramLanguageModel
from elman.models.window import WindowLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.text.words import split_words

_SUBJECT = "keys"
_SENTENCE = (
    "the keys that I left on the kitchen counter yesterday afternoon {0} next to the mail {0}"
)
"""What stands before the verb, with a place for a comma where one is a token."""
_WIDTH = 16
_IDS = 6


def _run() -> Iterator[Measured]:
    """Yield how far counts and windows see, and what a window costs."""
    orders = (2, 3, 4, 5)
    seen = [_farthest(_counted(order), 8) for order in orders]
    yield Measured("004-01", seen, f"farthest token whose change is seen by n-grams, n of {orders}")
    found = []
    for comma in ("", ","):
        (words,) = split_words(_SENTENCE.format(comma), "line")
        found += [len(words) - words.index(_SUBJECT) - 1, _smallest_window(words)]
    how = "tokens between subject and verb, the smallest window that sees the subject; with commas"
    yield Measured("004-02", found, how)
    rows, columns = _window(5).weight.shape[1], _window(5).weight[:, 0].numel()
    yield Measured(
        "004-03",
        [rows, columns, [_blocks_reached(5, distance) for distance in range(1, 6)]],
        f"matrix of a window of 5 over vectors of {_WIDTH}; blocks that a token so far back meets",
    )
    sizes = [_window(k).weight.numel() for k in (4, 8, 16)]
    yield Measured("004-04", [sizes[1] / sizes[0], sizes[2] / sizes[1]], "windows of 4, 8 and 16")


def _window(length: int, vocabulary_size: int = _IDS) -> WindowLanguageModel:
    model = _learnt("window", length, vocabulary_size)
    assert isinstance(model, WindowLanguageModel)
    return model


def _learnt(kind: str, length: int, vocabulary_size: int = _IDS) -> LanguageModel:
    """Return a new model of float64; `length` says how far a window sees."""
    settings = ModelSettings(
        kind=kind,  # type: ignore[arg-type]  # one of two literals
        embedding_size=_WIDTH,
        hidden_size=_WIDTH,
        context_length=length,
    )
    return new_language_model(settings, vocabulary_size, generator(1, "initialisation")).double()


def _counted(order: int) -> NgramLanguageModel:
    """Return n-grams of a random text, in which every context of that length occurs."""
    ids = np.random.default_rng(1).integers(0, _IDS, 40_000)
    grams = count_grams(joined([ids], _IDS), order=order, vocabulary_size=_IDS)
    tables = estimate(grams, _IDS, SmoothingOptions("witten_bell")).tables
    return NgramLanguageModel(ModelSettings(kind="ngram", order=order), tables)


def _farthest(model: LanguageModel, length: int) -> int:
    """Return the distance of the farthest of `length` tokens that the next prediction depends on.

    The newest token is at distance 1.
    """
    changes_D = _changes(model, np.arange(length) % _IDS)
    return max((d for d, change in enumerate(changes_D.tolist(), 1) if change > 0.0), default=0)


def _changes(model: LanguageModel, ids: np.ndarray) -> Tensor:
    """Return for each distance 1, 2 … the largest change of a logit when that token is another."""
    ids_BT = torch.from_numpy(np.tile(ids, (len(ids) + 1, 1)))
    for distance in range(1, len(ids) + 1):
        ids_BT[distance, -distance] = (ids_BT[distance, -distance] + 1) % model.vocabulary_size
    logits_BV = _last_logits(model, ids_BT)
    return (logits_BV[1:] - logits_BV[0]).abs().amax(1)


def _last_logits(model: LanguageModel, ids_BT: Tensor) -> Tensor:
    """Return the logits after each row, each read by itself: beside others it rounds otherwise."""
    rows = []
    with torch.no_grad():
        for ids_T in ids_BT:
            output = model(ids_T.unsqueeze(0), plan=KernelPlan("reference"))
            rows.append(output.readout(output.states_BTH[0, -1]))
    return torch.stack(rows)


def _smallest_window(words: list[str]) -> int:
    """Return the smallest window whose next prediction differs when the subject is singular."""
    names = sorted({*words, "key"})
    one_T = [names.index(word) for word in words]
    other_T = [names.index("key" if word == _SUBJECT else word) for word in words]
    ids_BT = torch.tensor([one_T, other_T])
    for length in range(1, len(words) + 1):
        one_V, other_V = _last_logits(_window(length, len(names)), ids_BT)
        if not torch.equal(one_V, other_V):
            return length
    return 0


def _blocks_reached(length: int, distance: int) -> list[int]:
    """Return the blocks, by distance from 1, that learn from a token so far back alone."""
    model = _window(length)
    with torch.no_grad():
        model.embedding.weight[1:] = 0.0  # the other token says nothing
    ids_BT = torch.ones(1, length, dtype=torch.int64)
    ids_BT[0, -distance] = 0
    output = model(ids_BT, plan=KernelPlan("reference"))
    (slope_NHE,) = torch.autograd.grad(output.states_BTH[0, -1].sum(), model.weight)
    return [block for block, slope_HE in enumerate(slope_NHE, 1) if bool(slope_HE.any())]


def _draw(path: Path) -> None:
    """Draw how far a change is seen, and what seeing costs."""
    draw_panels(path, [_reach_panel, _cost_panel])


def _reach_panel(axes: Any) -> None:
    ids = np.random.default_rng(2).integers(0, _IDS, 20)
    kinds: tuple[tuple[str, LanguageModel], ...] = (
        ("trigram", _counted(3)),
        ("window of 8", _window(8)),
        ("LSTM", _learnt("lstm", 0)),
    )
    for label, model in kinds:
        changes = _changes(model, ids).numpy()
        shown = np.where(changes > 0.0, changes, np.nan)
        axes.plot(range(1, len(ids) + 1), shown, marker="o", markersize=3.5, label=label)
    axes.set(yscale="log", xlabel="tokens back", ylabel="change of the next logits")
    axes.set(xticks=range(0, len(ids) + 1, 4))
    axes.set_title("beyond the window nothing is seen")


def _cost_panel(axes: Any) -> None:
    lengths = range(1, 65)
    axes.plot(lengths, [_window(k).parameter_count() for k in lengths], label="window of k")
    recurrent = _learnt("lstm", 0).parameter_count()
    axes.plot(lengths, [recurrent for _ in lengths], label="LSTM, any length")
    axes.set(xlabel="tokens seen, k", ylabel="parameters", ylim=(0, None))
    axes.set_title("seeing further costs a block for each distance")


FIXED_WINDOW = Experiment(
    "fixed-window",
    "what a fixed number of last tokens cannot show",
    "document 004, opening and 1",
    _run,
    _draw,
)
