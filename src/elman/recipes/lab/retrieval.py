"""Attention retrieves another mixture for each question from the same stored states.

    e_j = q · h_j;  α_j = exp(e_j) / Σ_k exp(e_k);  c = Σ_j α_j h_j

Scores are dot products as they are, not divided by √D, and the softmax runs over source positions:
dimension 1 of scores laid out as B × S × U, the last one of B × U × S.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from elman.layers.attention import (
    Attended,
    Attention,
    AttentionKind,
    DotAttention,
    ProjectedAttention,
    build_attention,
)
from elman.recipes.lab.experiment import Experiment, Measured, Value
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_STATES = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
_QUERIES = ((2.0, 0.0), (0.0, 2.0))
_SOURCE, _TARGET, _WIDTH = 5, 3, 4


def _run() -> Iterator[Measured]:
    """Yield sums of weights, two questions to one memory, the axis, and the scale."""
    kinds = get_args(AttentionKind)
    sums = [_most_from_one(kind) for kind in kinds]
    yield Measured(
        "000-20",
        max(sums),
        f"{', '.join(kinds)} of random weights, {_SOURCE} source and {_TARGET} target positions: "
        "greatest distance of a target's sum of weights from 1",
    )
    how = "three states of two numbers, asked by q = ({:g}, {:g}): scores above the lowest (from "
    how += "the logarithms of the weights), weights, context"
    yield Measured("000-21", _asked(_QUERIES[0]), how.format(*_QUERIES[0]))
    memory = [[*state] for state in _STATES]
    both = _attended(torch.tensor(_QUERIES, dtype=torch.float64)).weights_BTS
    yield Measured(
        "000-22",
        [*_asked(_QUERIES[1]), _stored() == memory, both.max().item()],
        how.format(*_QUERIES[1]) + "; whether the memory is as it was; the greatest weight",
    )
    yield Measured(
        "000-24",
        _axes_apart(),
        "scores as B × S × U with a softmax over dimension 1, turned, less the weights B × U × S "
        "of the layer: greatest difference",
    )
    plain, scaled = (DotAttention(_WIDTH, _WIDTH, scale=scale) for scale in ("none", "width"))
    projected = ProjectedAttention(_WIDTH, _WIDTH).double()
    with torch.no_grad():
        projected.weight.copy_(torch.eye(_WIDTH))
    yield Measured(
        "000-25",
        [_score_of_ones(attention) for attention in (plain, projected, scaled)],
        f"the score of a key of ones above that of zeros, asked by ones, D = {_WIDTH}: dot, "
        "projected by the identity, and the kind that divides by √D",
    )


def _attended(query_TH: Tensor) -> Attended:
    """Ask the three states, which are keys and values, all questions at once."""
    states_BSK = torch.tensor([_STATES], dtype=torch.float64)
    attention = DotAttention(2, 2)
    memory = attention.prepare(states_BSK, torch.ones(1, len(_STATES), dtype=torch.bool))
    return attention.attend(query_TH.unsqueeze(0), memory)


def _stored() -> list[list[float]]:
    """Return what is in a memory after both questions."""
    attention = DotAttention(2, 2)
    states_BSK = torch.tensor([_STATES], dtype=torch.float64)
    memory = attention.prepare(states_BSK, torch.ones(1, len(_STATES), dtype=torch.bool))
    for query in _QUERIES:
        attention.attend(torch.tensor([query], dtype=torch.float64), memory)
    values: list[list[float]] = memory.values_BSK[0].tolist()
    return values


def _asked(query: Sequence[float]) -> list[Value]:
    """Return scores above the lowest, weights, context."""
    found = _attended(torch.tensor([query], dtype=torch.float64))
    weights_S = found.weights_BTS[0, 0]
    scores_S = weights_S.log() - weights_S.log().min()
    return [scores_S.tolist(), weights_S.tolist(), found.context_BTC[0, 0].tolist()]


def _most_from_one(kind: AttentionKind) -> float:
    attention, keys_BSK, query_BTH = _random(kind)
    valid_BS = torch.tensor([[True] * _SOURCE, [True] * 2 + [False] * (_SOURCE - 2)])
    weights_BTS = attention.attend(query_BTH, attention.prepare(keys_BSK, valid_BS)).weights_BTS
    return (weights_BTS.sum(dim=2) - 1.0).abs().max().item()


def _axes_apart() -> float:
    attention, keys_BSK, query_BTH = _random("dot")
    memory = attention.prepare(keys_BSK, torch.ones(2, _SOURCE, dtype=torch.bool))
    weights_BUS = attention.attend(query_BTH, memory).weights_BTS
    weights_BSU = torch.softmax(torch.bmm(keys_BSK, query_BTH.transpose(1, 2)), dim=1)
    return (weights_BSU.transpose(1, 2) - weights_BUS).abs().max().item()


def _random(kind: AttentionKind) -> tuple[Attention, Tensor, Tensor]:
    """Return attention of random weights, keys [2, S, D] and queries [2, U, D]."""
    attention = build_attention(kind, _WIDTH, _WIDTH).double()
    attention.initialise(generator(1, "initialisation"))
    draw = generator(1, "sampling")
    keys_BSK = torch.randn(2, _SOURCE, _WIDTH, generator=draw, dtype=torch.float64)
    return attention, keys_BSK, torch.randn(2, _TARGET, _WIDTH, generator=draw).double()


def _score_of_ones(attention: Attention) -> float:
    ones_1D = torch.ones(1, _WIDTH, dtype=torch.float64)
    keys_1SD = torch.stack((ones_1D, 0.0 * ones_1D), dim=1)
    memory = attention.prepare(keys_1SD, torch.ones(1, 2, dtype=torch.bool))
    with torch.no_grad():
        logs_S = attention.attend(ones_1D, memory).weights_BTS[0].log()
    return (logs_S[0] - logs_S[1]).item()


def _draw(path: Path) -> None:
    """Draw the states, both questions and what each retrieves, and the weights side by side."""
    draw_panels(
        path,
        [lambda axes: _plane(axes, _QUERIES[0]), lambda axes: _plane(axes, _QUERIES[1]), _bars],
    )


def _plane(axes: Any, query: Sequence[float]) -> None:
    found = _attended(torch.tensor([query], dtype=torch.float64))
    context, weights = found.context_BTC[0, 0].tolist(), found.weights_BTS[0, 0].tolist()
    for number, (state, weight) in enumerate(zip(_STATES, weights, strict=True), 1):
        axes.plot(*zip(context, state, strict=True), color="C0", alpha=0.5, linewidth=9 * weight)
        axes.scatter(*state, s=60 + 900 * weight, color="C0", zorder=3)
        axes.annotate(f"h{number}: {weight:.4f}", state, (12, 12), textcoords="offset points")
    axes.annotate("", query, (0, 0), arrowprops={"arrowstyle": "->", "color": "C1", "lw": 1.8})
    axes.annotate(f" q = ({query[0]:g}, {query[1]:g})", query, color="C1", va="bottom")
    axes.scatter(*context, marker="*", s=220, color="C3", zorder=4, edgecolor="white")
    axes.set(xlim=(-0.35, 2.75), ylim=(-0.35, 2.4), aspect="equal")
    axes.set_title(f"retrieved: c = ({context[0]:.4f}, {context[1]:.4f})", color="C3")


def _bars(axes: Any) -> None:
    places = range(len(_STATES))
    for number, query in enumerate(_QUERIES):
        weights = _attended(torch.tensor([query], dtype=torch.float64)).weights_BTS[0, 0].tolist()
        left = [place + 0.4 * (number - 0.5) for place in places]
        label = f"q = ({query[0]:g}, {query[1]:g})"
        bars = axes.bar(left, weights, 0.38, label=label, color=f"C{number + 1}")
        axes.bar_label(bars, fmt="%.4f", fontsize=8)
    axes.set_xticks(places, [f"h{place + 1}" for place in places])
    axes.set(ylim=(0, 0.62), ylabel="weight", title="one memory, two questions")


RETRIEVAL = Experiment(
    "retrieval",
    "two questions to the same three states, and over which axis the weights sum to one",
    "document 000, Attention retrieves a different context, figure 3; Follow the tensor axes",
    _run,
    _draw,
)
