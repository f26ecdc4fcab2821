"""Temperature: a power of the probabilities, and a knob on their entropy.

    p_τ(i) ∝ exp(z_i / τ) ∝ p(i)^{1/τ},   τ → 0 the argmax, 1 the model, ∞ uniform

The weights exp(log p / τ) sum to less than 1 below τ = 1 and to more above; a draw compares a
uniform number with their running sum times their total, so that nothing has to be divided.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elman.decoding.filters import SamplingSettings, apply_filters, scale_temperature
from elman.decoding.sampling import draw
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels

_Row: TypeAlias = npt.NDArray[np.float64]

_SEEDS = range(1, 11)
_IDS = 6
_DRAWS = 2000
_TEMPERATURES = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)


def _run() -> Iterator[Measured]:
    """Yield limits, powers and sums of the weights, and how well draws fit them."""
    entropies = [[_entropy(_drawn_at(_logits(seed), t)) for t in _TEMPERATURES] for seed in _SEEDS]
    rises = all(bool((np.diff(row) > 0.0).all()) for row in entropies)
    logits = _logits(1)
    model = np.exp(logits) / np.exp(logits).sum()
    yield Measured(
        "004-20",
        [
            float(_drawn_at(logits, 1e-3)[logits.argmax()]),
            float(np.abs(_drawn_at(logits, 1.0) - model).max()),
            rises,
            _entropy(_drawn_at(logits, 1e6)) / math.log(_IDS),
        ],
        "probability of the likeliest at τ = 0.001; difference from softmax at 1; whether the "
        f"entropy rises over τ of {_TEMPERATURES} for ten drawn rows; its share of ln V at 10^6",
    )
    halves = np.log([1 / 2, 1 / 4, 1 / 8, 1 / 8])
    yield Measured(
        "004-36", _drawn_at(halves, 0.5).tolist(), "1/2, 1/4, 1/8, 1/8 at a temperature of 1/2"
    )
    sums = [[_sum_of_weights(_log_probs(seed), t) for t in (0.5, 1.0, 2.0)] for seed in _SEEDS]
    below, above = max(row[0] for row in sums), min(row[2] for row in sums)
    yield Measured(
        "004-37",
        [below < 1.0, max(abs(row[1] - 1.0) for row in sums), above > 1.0],
        "whether exp(log p / τ) of ten drawn rows sum to less than 1 at τ = 0.5; their largest "
        "distance from 1 at 1; whether they sum to more at 2",
        by_seed=tuple(row[0] for row in sums),
    )
    misfits = [_misfit(seed, 0.5) for seed in _SEEDS]
    yield Measured(
        "004-38",
        max(misfits),
        f"χ² of {_DRAWS:,} draws at τ = 0.5 against p², the largest of ten rows of {_IDS}",
        by_seed=tuple(misfits),
    )


def _logits(seed: int) -> _Row:
    return np.random.default_rng(seed).normal(0.0, 1.0, _IDS)


def _log_probs(seed: int) -> _Row:
    logits = _logits(seed)
    log_probs: _Row = logits - np.log(np.exp(logits).sum())
    return log_probs


def _sum_of_weights(log_probs_V: _Row, temperature: float) -> float:
    """Return Σ exp(log p / τ), with the largest exponent put back that scaling takes out."""
    scaled_V = scale_temperature(log_probs_V, temperature)
    return float(np.exp(scaled_V + log_probs_V.max() / temperature).sum())


def _drawn_at(logits_V: _Row, temperature: float) -> _Row:
    """Return the distribution that is drawn from at a temperature."""
    weights_V = np.exp(apply_filters(logits_V, SamplingSettings(temperature=temperature)))
    probs_V: _Row = weights_V / weights_V.sum()
    return probs_V


def _entropy(probs_V: _Row) -> float:
    """Return −Σ p ln p in nats."""
    some = probs_V[probs_V > 0.0]
    return float(-(some * np.log(some)).sum())


def _misfit(seed: int, temperature: float) -> float:
    """Return χ² = Σ (n_i − N p_i)² / (N p_i) of N draws against p^{1/τ} over its sum."""
    log_probs_V = _log_probs(seed)
    settings = SamplingSettings(temperature=temperature, seed=seed)
    ids = [draw(log_probs_V, settings, position) for position in range(_DRAWS)]
    counts_V = np.bincount(ids, minlength=_IDS)
    powers_V = np.exp(log_probs_V) ** (1.0 / temperature)
    expected_V = _DRAWS * powers_V / powers_V.sum()
    return float(((counts_V - expected_V) ** 2 / expected_V).sum())


def _draw(path: Path) -> None:
    """Draw one distribution at four temperatures, and entropy against temperature."""
    draw_panels(path, [_bar_panel, _entropy_panel])


def _bar_panel(axes: Any) -> None:
    logits_V = np.sort(_logits(3))[::-1]
    shown = (0.25, 0.5, 1.0, 4.0)
    for place, temperature in enumerate(shown):
        offsets = np.arange(_IDS) + (place - 1.5) * 0.2
        axes.bar(offsets, _drawn_at(logits_V, temperature), 0.2, label=f"τ = {temperature:g}")
    axes.set(xlabel="tokens, likeliest first", ylabel="probability", xticks=range(_IDS))
    axes.set_title("one row of logits, four temperatures")


def _entropy_panel(axes: Any) -> None:
    temperatures = np.logspace(-1.5, 1.5, 80)
    for seed in _SEEDS:
        entropies = [_entropy(_drawn_at(_logits(seed), float(t))) for t in temperatures]
        axes.plot(temperatures, entropies, color="#1f77b4", alpha=0.45, linewidth=1.2)
    axes.axhline(math.log(_IDS), color="0.5", linestyle=":", label="ln V, uniform")
    axes.axvline(1.0, color="0.7", linewidth=0.8, label="the model itself")
    axes.set(xscale="log", xlabel="temperature τ", ylabel="entropy, nats")
    axes.set_title("entropy rises with τ, ten rows")


TEMPERATURE = Experiment(
    "temperature",
    "temperature as a power of the probabilities",
    "document 004, 4 and 7.4",
    _run,
    _draw,
)
