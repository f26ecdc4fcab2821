"""Two comparisons over seeds, on a text that every Python carries: GRU and LSTM, tied and untied.

Each model is trained for the same number of updates on the same tokens; what counts is the best
loss on text held out, in nats per token. The differences are paired: one seed draws both models.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from elman.config.model_settings import ModelSettings
from elman.config.text_settings import TextSettings
from elman.config.training_settings import TrainingSettings
from elman.data.corpora import language_reference
from elman.data.streams import StreamBatches
from elman.evaluation.language import validation_loss
from elman.kernels.dispatch import KernelPlan
from elman.models.language_models import new_language_model
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.over_seeds import over_seeds
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.text.building import learn_and_encode
from elman.training.fitting import fit
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

_SEEDS = tuple(range(1, 11))
_SIZES = (4_000, 32_000)
"""Words that are learnt from: little text, and eight times as much."""
_CHARACTERS = 55_000
_HELD_OUT = slice(55_000, 58_000)
"""Tokens of either level that are held out, behind all that is learnt from."""
_WORDS = 1_000
"""Entries of the vocabulary of words; the others are unknown."""
_WIDTH = 48
_LONG, _SHORT = 400, 150
"""Updates of the models of characters, and of those of words."""


class _Text(NamedTuple):
    """Ids to learn from, ids held out, and how many entries the vocabulary has."""

    train_N: npt.NDArray[np.integer]
    held_out_N: npt.NDArray[np.integer]
    vocabulary_size: int


def _run() -> Iterator[Measured]:
    """Yield how a GRU compares with an LSTM, and what tying gains on little and on more text."""
    ratios = _ratios(_SEEDS)
    middle, off = over_seeds([math.log(ratio) for ratio in ratios])
    yield Measured(
        "004-18",
        math.exp(middle),
        f"loss of a GRU over that of an LSTM, {_WIDTH} units each, {_CHARACTERS:,} characters, "
        f"{_LONG} updates; geometric mean of ten seeds, 95 % from "
        f"{math.exp(middle - off):.4f} to {math.exp(middle + off):.4f}",
        by_seed=tuple(ratios),
    )
    little, more = (_gains(size, _SEEDS) for size in _SIZES)
    (gain, off), (other, other_off) = over_seeds(little), over_seeds(more)
    yield Measured(
        "004-28",
        [gain - off > 0.0, gain > other],
        f"nats per word that tying gains, ten seeds: {gain:.3f} ± {off:.3f} on {_SIZES[0]:,} "
        f"words, {other:.3f} ± {other_off:.3f} on {_SIZES[1]:,}; whether the first is above 0, and "
        "above the second (by seed: the first)",
        by_seed=tuple(little),
    )


def _ratios(seeds: Sequence[int]) -> list[float]:
    """Return the best loss of a GRU over that of an LSTM, for each seed."""
    text = _text("char", _CHARACTERS)
    gru, lstm = (
        ModelSettings(kind=kind, embedding_size=16, hidden_size=_WIDTH) for kind in ("gru", "lstm")
    )
    return [
        _best_nats(text, gru, seed, _LONG) / _best_nats(text, lstm, seed, _LONG) for seed in seeds
    ]


def _gains(num_words: int, seeds: Sequence[int]) -> list[float]:
    """Return by how much less a tied model loses than an untied one, for each seed."""
    text = _text("word", num_words)
    untied, tied = (
        ModelSettings(embedding_size=_WIDTH, hidden_size=_WIDTH, tie_weights=is_tied)
        for is_tied in (False, True)
    )
    return [
        _best_nats(text, untied, seed, _SHORT) - _best_nats(text, tied, seed, _SHORT)
        for seed in seeds
    ]


def _text(level: Literal["char", "word"], size: int) -> _Text:
    """Return `size` tokens of the built-in text, and those held out, which are always the same."""
    size_of_vocabulary = _WORDS if level == "word" else 0
    settings = TextSettings(level=level, unit="stream", vocabulary_size=size_of_vocabulary)
    tokenizer, chunks = learn_and_encode([language_reference()], settings)
    ids_N = np.concatenate(chunks)
    return _Text(ids_N[:size], ids_N[_HELD_OUT], len(tokenizer.vocabulary))


def _best_nats(text: _Text, model_settings: ModelSettings, seed: int, updates: int) -> float:
    """Return the best loss on the text held out of a new model, in nats per token."""
    settings = TrainingSettings(
        batch_size=16,
        window=20,
        optimizer="adamw",
        learning_rate=0.01,
        warmup_updates=15,
        evaluate_every=updates // 5,
        seed=seed,
    )
    model = new_language_model(
        model_settings, text.vocabulary_size, generator(seed, "initialisation")
    )
    plan = KernelPlan()
    source = StreamBatches(text.train_N, batch_size=settings.batch_size, window=settings.window)
    held_out = StreamBatches(text.held_out_N, batch_size=30, window=100)
    trainer = Trainer(
        LanguageObjective(model, settings), source, settings, plan, total_updates=updates
    )
    report = fit(trainer, validate=partial(validation_loss, model, held_out, plan=plan))
    return math.nan if report.best_nats is None else report.best_nats


def _draw(path: Path) -> None:
    """Draw both comparisons, seed by seed, for three seeds."""
    draw_panels(path, [_ratio_panel, _gain_panel])


def _ratio_panel(axes: Any) -> None:
    ratios = _ratios(_SEEDS[:3])
    axes.axhline(1.0, color="0.6", linewidth=0.8)
    axes.plot([str(seed) for seed in _SEEDS[:3]], ratios, "o")
    axes.set(xlabel="seed", ylabel="loss of the GRU / of the LSTM", ylim=(0.9, 1.1))
    axes.set_title("a GRU does about as well")


def _gain_panel(axes: Any) -> None:
    for place, size in enumerate(_SIZES):
        gains = _gains(size, _SEEDS[:3])
        axes.plot([place + 0.05 * step for step in (-1, 0, 1)], gains, "o")
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    axes.set_xticks(range(len(_SIZES)), [f"{size:,} words" for size in _SIZES])
    axes.set(ylabel="gain of tying, nats per word")
    axes.set_title("what tying gains")


SMALL_COMPARISONS = Experiment(
    "small-comparisons",
    "GRU and LSTM, tied and untied, on little text",
    "document 004, 3.3 and 7.2",
    _run,
    _draw,
    takes="minutes",
)
