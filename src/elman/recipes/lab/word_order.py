"""The same words in another order: one average, but other states.

    mean  (x_1 + … + x_T) / T          whatever the order
    h_t = tanh(W_ih x_t + W_hh h_{t−1} + b)   another state for another order

The mean and the bag are those that classifiers are trained with; the state is that of a plain cell.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from elman.cells.elman import ElmanCell
from elman.data.rise_and_fall import rise_and_fall
from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import Embedding
from elman.layers.pooling import Pooling, PoolingKind
from elman.layers.recurrence import recur
from elman.models.bag_of_words import BagOfWords
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.over_seeds import over_seeds
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_BITE = (("dog", "bites", "man"), ("man", "bites", "dog"))
_GOOD = (("not", "good"), ("good", "not"))
_WORDS = tuple(dict.fromkeys(word for pair in (*_BITE, *_GOOD) for word in pair))
_INPUTS, _UNITS = 4, 3
_SEEDS = tuple(range(1, 11))
_NUM_SERIES = 20
_APART = 0.12
"""Of two names in the picture, one above the other."""
_LOOKS: Mapping[PoolingKind, tuple[str, str]] = MappingProxyType(
    {"mean": ("s", "tab:orange"), "final": ("o", "tab:blue")}
)


def _run() -> Iterator[Measured]:
    """Yield what averages and bags say of two orders, and what states say of them."""
    averaged = [_cosine(_BITE, "mean", seed) for seed in _SEEDS]
    yield Measured(
        "002-01",
        [_bags_are_equal(_BITE), min(averaged)],
        "a bag of words' probabilities of both are equal; least cosine of their averages, 10 seeds",
        tuple(averaged),
    )
    told = "largest distance of two averages: two words, and 20 pairs of series that turn once"
    yield Measured("002-44", max(_of_words(_GOOD), _of_series()), told)
    states = [_cosine(_BITE, "final", seed) for seed in _SEEDS]
    told = f"greatest cosine of the two final states; mean {over_seeds(states).told()}"
    yield Measured("002-10", max(states), told, tuple(states))


def _bags_are_equal(pair: Sequence[Sequence[str]]) -> bool:
    """Return whether a model of single words gives both orders the very same probabilities."""
    bag = BagOfWords.fit(pair, ["first", "second"], kind="naive_bayes")
    first, second = bag.log_probs(pair)
    return bag.is_order_blind and bool((first == second).all())


def _cosine(pair: Sequence[Sequence[str]], kind: PoolingKind, seed: int) -> float:
    """Return the cosine between two texts, averaged or read by a cell, in float64."""
    first_H, second_H = _vectors(pair, kind, seed)
    return cosine_similarity(first_H, second_H, dim=0).item()


def _vectors(texts: Sequence[Sequence[str]], kind: PoolingKind, seed: int) -> Tensor:
    """Return a vector for each text [B, ·]: the mean of embeddings, or the final state."""
    draw = generator(seed, "initialisation")
    embedding, cell = Embedding(len(_WORDS), _INPUTS).double(), ElmanCell(_INPUTS, _UNITS).double()
    embedding.initialise(draw)
    cell.initialise(draw)
    ids_BT = torch.tensor([[_WORDS.index(word) for word in text] for text in texts])
    lengths_B = torch.tensor([len(text) for text in texts])
    with torch.no_grad():
        read_BTE = embedding(ids_BT)
        if kind != "mean":
            read_BTE, _ = recur(cell, read_BTE, None, lengths_B, plan=KernelPlan("reference"))
        pooled_BE: Tensor = Pooling(kind, read_BTE.shape[2])(read_BTE, lengths_B)
    return pooled_BE


def _of_words(pair: Sequence[Sequence[str]]) -> float:
    """Return the largest distance between the averages of both orders, over seeds."""
    averages = [_vectors(pair, "mean", seed) for seed in _SEEDS]
    largest: float = max((one_E - other_E).abs().max().item() for one_E, other_E in averages)
    return largest


def _of_series() -> float:
    """Return the largest distance between the averages of series with the same readings."""
    pooling, largest = Pooling("mean", 1), 0.0
    rows = [torch.tensor(row.values, dtype=torch.float64) for row in rise_and_fall(_NUM_SERIES)]
    for rising_T, falling_T in zip(rows[::2], rows[1::2], strict=True):
        both_BT1 = torch.stack((rising_T, falling_T)).unsqueeze(2)
        first_1, second_1 = pooling(both_BT1, torch.tensor([len(rising_T)] * 2))
        largest = max(largest, (first_1 - second_1).abs().item())
    return largest


def _draw(path: Path) -> None:
    """Draw the two orders as averages and as states, and the cosine of every seed."""
    draw_panels(path, [_plane, _cosines])


def _plane(axes: Any) -> None:
    orders = list(permutations(_BITE[0]))
    for kind, (marker, colour) in _LOOKS.items():
        vectors_BE = _vectors(orders, kind, 1)
        label = "average of embeddings" if kind == "mean" else "final state"
        axes.scatter(vectors_BE[:, 0], vectors_BE[:, 1], marker=marker, color=colour, label=label)
        if kind == "final":
            _name_points(axes, [" ".join(order) for order in orders], vectors_BE[:, :2].tolist())
    axes.set(xlabel="first number", ylabel="second number", title="Six orders of three words")
    axes.margins(y=0.2)
    axes.legend(frameon=False, loc="upper left", fontsize=9)


def _name_points(axes: Any, names: Sequence[str], points: Sequence[Sequence[float]]) -> None:
    """Write each name in a column to the right of all points, a line leading to its own."""
    right = max(x for x, _ in points) + 0.35
    lowest = -math.inf
    for (x, y), name in sorted(zip(points, names, strict=True), key=lambda one: one[0][1]):
        lowest = max(y, lowest + _APART)
        line = {"arrowstyle": "-", "color": "grey", "linewidth": 0.5}
        axes.annotate(name, (x, y), (right, lowest), fontsize=8, va="center", arrowprops=line)
    axes.set_xlim(-1.2, right + 1.1)


def _cosines(axes: Any) -> None:
    for kind, (marker, colour) in _LOOKS.items():
        cosines = [_cosine(_BITE, kind, seed) for seed in _SEEDS]
        axes.scatter(_SEEDS, cosines, marker=marker, color=colour)
    axes.set(xlabel="seed of the weights", ylabel="cosine of the two orders", ylim=(-1.1, 1.1))
    axes.set(title="dog bites man, man bites dog")


WORD_ORDER = Experiment(
    "word-order",
    "an average cannot tell two orders of the same words apart, a state can",
    "document 002, order and recurrence",
    _run,
    _draw,
)
