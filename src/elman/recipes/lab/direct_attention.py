"""Attention reads every position directly: where a position stands changes nothing.

    context = Σ_j α_j v_j,   Σ_j α_j = 1

so that the order of the positions is no part of it, and the vector of a word after attention is
mixed with those of its neighbours. Beside it, how many words stand between two that must agree.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.layers.attention import MultiHeadAttention
from elman.layers.embedding import Embedding
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.over_seeds import over_seeds
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_SIZE, _STEPS = 16, 60
_SEEDS = tuple(range(1, 11))
_PAIRS = (("bank", ("river", "bank"), ("money", "bank")), ("good", ("not", "good"), ("so", "good")))
_WORDS = tuple(dict.fromkeys(itertools.chain(*(one + other for _, one, other in _PAIRS))))


def _run() -> Iterator[Measured]:
    """Yield sums and reach of the weights, and the change by neighbours."""
    found = [_of_last(seed) for seed in _SEEDS]
    sums, moved = max(off for off, _, _ in found), max(moved for _, _, moved in found)
    least = min(weight for _, weight, _ in found)
    told = f"|1 − Σ α| ≤ {sums:.1g}; least α {least:.2g}; context moves {moved:.1g} as inputs swap"
    within = [sums < 1e-12, least > 0.0, moved < 1e-12]
    yield Measured("002-38", within, told, tuple(found))
    changes = [min(_change(*pair, seed) for pair in _PAIRS) for seed in _SEEDS]
    mean = over_seeds(changes).told()
    told = f"least change of a word's vector by its neighbour, over its length; mean {mean}"
    yield Measured("002-48", min(changes), told, tuple(changes))


def _attention(seed: int) -> MultiHeadAttention:
    attention = MultiHeadAttention(_SIZE, _SIZE, _SIZE, 1).double()
    attention.initialise(generator(seed, "initialisation"))
    return attention


def _of_last(seed: int) -> tuple[float, float, float]:
    """Return |1 − Σ α|, the least α, and how the context moves when the others change places."""
    attention, draw = _attention(seed), generator(seed, "sampling")
    x_1TE = torch.randn(1, _STEPS, _SIZE, generator=draw, dtype=torch.float64)
    order_T = torch.randperm(_STEPS, generator=draw)
    valid_1T = torch.ones(1, _STEPS, dtype=torch.bool)
    with torch.no_grad():
        one, other = (
            attention.attend(x_1TE[:, -1], attention.prepare(read_1TE, valid_1T))
            for read_1TE in (x_1TE, x_1TE[:, order_T])
        )
    off = (one.weights_BTS.sum() - 1.0).abs().item()
    moved = (one.context_BTC - other.context_BTC).abs().max().item()
    return off, one.weights_BTS.min().item(), moved


def _change(word: str, one: Sequence[str], other: Sequence[str], seed: int) -> float:
    """Return ‖a − b‖ / ‖a‖ of the word's vectors in two texts, the table's being the same."""
    first_C, second_C = (_mixed(text, seed)[text.index(word)] for text in (one, other))
    change: float = ((first_C - second_C).norm() / first_C.norm()).item()
    return change


def _mixed(text: Sequence[str], seed: int) -> Tensor:
    """Return the vectors of a text after each word has attended to all: [T, C]."""
    embedding = Embedding(len(_WORDS), _SIZE).double()
    embedding.initialise(generator(seed, "sampling"))
    ids_1T = torch.tensor([[_WORDS.index(word) for word in text]])
    attention = _attention(seed)
    with torch.no_grad():
        x_1TE = embedding(ids_1T)
        memory = attention.prepare(x_1TE, torch.ones(1, len(text), dtype=torch.bool))
        context_TC: Tensor = attention.attend(x_1TE, memory).context_BTC[0]
    return context_TC


def _draw(path: Path) -> None:
    """Draw the weights of the last of sixty positions, and the change by neighbours."""
    draw_panels(path, [_last_weights, _changes])


def _last_weights(axes: Any) -> None:
    x_1TE = torch.randn(1, _STEPS, _SIZE, generator=generator(1, "sampling"), dtype=torch.float64)
    attention = _attention(1)
    with torch.no_grad():
        memory = attention.prepare(x_1TE, torch.ones(1, _STEPS, dtype=torch.bool))
        weights_S = attention.attend(x_1TE[:, -1], memory).weights_BTS[0]
    axes.bar(range(1, _STEPS + 1), weights_S.tolist(), color="tab:red")
    axes.axhline(1.0 / _STEPS, color="grey", linestyle=":", label="1/60")
    axes.set(xlabel="position", ylabel="weight", title="What the last position reads")


def _changes(axes: Any) -> None:
    for word, one, other in _PAIRS:
        changes = [_change(word, one, other, seed) for seed in _SEEDS]
        axes.plot(_SEEDS, changes, marker="o", label=f"{word}: {' '.join(one)}, {' '.join(other)}")
    axes.set(xlabel="seed of the weights", ylabel="change, of its length", ylim=(0.0, None))
    axes.set_title("One word beside two neighbours")


DIRECT_ATTENTION = Experiment(
    "direct-attention",
    "attention reads every position directly, and mixes a word with its neighbours",
    "document 002, attention; A. Vaswani et al., arXiv:1706.03762",
    _run,
    _draw,
)
