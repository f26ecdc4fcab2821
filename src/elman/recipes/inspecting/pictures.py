"""The views as pictures: a panel each, of the same numbers as are told."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from elman.evaluation.picture_labels import not_mathematics, token_label
from elman.inspection.probes import Probe
from elman.recipes.inspecting.answer_gradients import AnswerGradients
from elman.recipes.inspecting.gate_view import LayerGates
from elman.recipes.inspecting.gradient_view import GradientView
from elman.recipes.inspecting.horizon_view import HorizonView
from elman.recipes.inspecting.pooling_view import PoolingView
from elman.recipes.inspecting.subject import Subject
from elman.recipes.inspecting.tracing import TracedToken
from elman.recipes.panels import Plot, WidePlot

MOST_TOKENS = 60
"""Tokens that a picture of a trace has room for: the first of a longer text."""
MOST_LETTERS = 16
"""Of a token under its column; the end of a longer one is cut off."""
TOKEN_INCHES, LETTER_INCHES = 0.18, 0.1
"""Wide: a column of a heat map, and a letter of a title."""
LEAST_LETTERS = 32
"""On a line of the title of the narrowest panel."""
NAMED_BACKS = (0, 1, 2, 5, 10, 20, 50, 100, 200)


def trace_plots(subject: Subject, rows: Sequence[TracedToken], layer: int) -> list[Plot]:
    """Return a heat map of the units shown over the text, one for each direction of the layer."""
    ways = dict.fromkeys(unit.direction for unit in rows[0].units)
    return [_trace_plot(subject, rows, layer, way) for way in ways]


def _trace_plot(subject: Subject, rows: Sequence[TracedToken], layer: int, direction: str) -> Plot:
    shown = rows[:MOST_TOKENS]
    places = [n for n, unit in enumerate(shown[0].units) if unit.direction == direction]
    part = list(shown[0].units[places[0]].after)[-1]
    states = [[row.units[place].after[part] for row in shown] for place in places]
    covered = _covered(len(shown), len(rows))

    def plot(axes: Any) -> None:
        most = max(abs(value) for line in states for value in line) or 1.0
        image = axes.imshow(states, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)
        name = f"layer {layer + 1} {direction}".rstrip()
        scale = axes.figure.colorbar(image, ax=axes, pad=0.01)
        scale.ax.set_title(part, fontsize=9)
        units = [str(shown[0].units[place].unit + 1) for place in places]
        axes.set_yticks(range(len(units)), units, fontsize=8)
        _name_tokens(axes, [row.token for row in shown])
        axes.set(xlabel=f"token read{covered}", ylabel=f"unit of {name}")
        _bars_above(axes, subject, shown)

    return _as_wide(plot, len(shown))


def _bars_above(axes: Any, subject: Subject, shown: Sequence[TracedToken]) -> None:
    """Draw what is said of each token as bars over the columns of `axes`, under the title."""
    marks = [(at + subject.mark_shift, row.said.mark) for at, row in enumerate(shown)]
    known = [(at, mark) for at, mark in marks if mark is not None and at < len(shown)]
    bars = axes.inset_axes([0.0, 1.05, 1.0, 0.25])
    bars.bar([at for at, _ in known], [mark for _, mark in known], color="#7a5195")
    bars.set(xlim=axes.get_xlim(), ylim=(0.0, None), xticks=[])
    bars.tick_params(axis="y", labelsize=8)
    for side in ("top", "right"):
        bars.spines[side].set_visible(False)
    letters = max(LEAST_LETTERS, round(len(shown) * TOKEN_INCHES / LETTER_INCHES))
    title = f"{subject.mark_title}, and the state after it"
    bars.set_title(textwrap.fill(title, letters), loc="left")


def gates_plot(layers: Sequence[LayerGates]) -> Plot:
    """Return the time constants of the units of each layer, the longest first.

    Of cells that carry nothing past their product: how often each gate is at either end.
    """
    if not any(layer.median_time_constant for layer in layers):
        return _ends_plot(layers)

    def plot(axes: Any) -> None:
        for layer in layers:
            finite = [tau for tau in layer.time_constants if 0.0 < tau < float("inf")]
            axes.plot(
                range(1, len(finite) + 1),
                sorted(finite, reverse=True),
                label=f"layer {layer.name}",
            )
        axes.set(yscale="log", xlabel="units, the longest first", ylabel="tokens carried (τ)")
        axes.yaxis.get_major_locator().set_params(subs=(1.0, 2.0, 5.0))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.minorticks_off()
        axes.set_title("how long units carry", loc="left")

    return plot


def _ends_plot(layers: Sequence[LayerGates]) -> Plot:
    gates = [
        (f"{gate.name},\nlayer {layer.name}", gate) for layer in layers for gate in layer.gates
    ]

    def plot(axes: Any) -> None:
        places = range(len(gates))
        low = [gate.below for _, gate in gates]
        axes.bar(places, low, width=0.5, color="#4477aa", label="low: below −0.9")
        high = [gate.above for _, gate in gates]
        axes.bar(places, high, 0.5, bottom=low, color="#cc6677", label="high: above 0.9")
        axes.set_xticks(places, [name for name, _ in gates])
        axes.set(xlim=(-0.7, len(gates) - 0.3), ylim=(0.0, 1.25), ylabel="share of units and steps")
        axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
        axes.set_title("how often units are at an end (none carries)", loc="left")
        axes.legend(frameon=False, loc="upper left", ncols=2)

    return plot


def gradients_plot(view: GradientView, layer: int) -> Plot:
    """Return norms of gradients by how far back, on a scale of logarithms."""

    def plot(axes: Any) -> None:
        axes.plot(view.inputs_K, label="by the input")
        axes.plot(view.states_K, label=f"by the state of layer {layer + 1}")
        axes.set(yscale="log", xlabel="tokens back", ylabel=f"gradient of the {view.scalar}")
        axes.set_title("on what the end depends", loc="left")

    return plot


def answer_gradients_plot(view: AnswerGradients, tokens: Sequence[str], layer: int) -> Plot:
    """Return norms of gradients over the text, by inputs as bars and by states as lines."""
    shown = tokens[:MOST_TOKENS]

    def plot(axes: Any) -> None:
        places = range(len(shown))
        axes.bar(places, view.inputs_T[: len(shown)], color="#bbbbbb", label="by the input")
        for way, norms in view.states.items():
            label = f"by the state of layer {layer + 1} {way}".rstrip()
            axes.plot(places, norms[: len(shown)], marker="o", ms=3, label=label)
        _name_tokens(axes, shown)
        covered = _covered(len(shown), len(tokens))
        axes.set(xlabel=f"token read{covered}", ylabel=f"gradient of the {view.scalar}")
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
        axes.set_ylim(0.0, 1.3 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize=8, loc="upper left")
        answer = not_mathematics(view.answer)
        axes.set_title(f"on what the answer depends: {answer}", loc="left")

    return _as_wide(plot, len(shown))


def pooling_plot(view: PoolingView) -> Plot:
    """Return the weight of each state in the pooled one."""
    shown = view.tokens[:MOST_TOKENS]

    def plot(axes: Any) -> None:
        axes.bar(range(len(shown)), view.weights_T[: len(shown)], color="#4477aa")
        _name_tokens(axes, shown)
        covered = _covered(len(shown), len(view.tokens))
        axes.set(xlabel=f"token read{covered}", ylabel="weight", ylim=(0.0, None))
        axes.set_title("attention of the pooling", loc="left")

    return _as_wide(plot, len(shown))


def horizon_plot(view: HorizonView) -> Plot:
    """Return the effect of another token k back, beside gradients of the same scale.

    The axis goes by ln(1 + k), which has a place for 0.
    """

    def plot(axes: Any) -> None:
        curve, most = view.perturbed, max(view.perturbed.nats) or 1.0
        axes.errorbar(
            curve.backs,
            [nats / most for nats in curve.nats],
            yerr=[error / most for error in curve.errors],
            marker="o",
            ms=3,
            label="another token",
        )
        largest = max(view.gradients) or 1.0
        scaled = [norm / largest for norm in view.gradients]
        axes.plot(view.backs, scaled, marker="o", ms=3, label="gradient")
        axes.axhline(0.01, color="#999999", lw=0.8, ls=":")
        axes.set_xlim(-0.15, 1.1 * max(curve.backs))
        axes.set_xscale("function", functions=(_places_of, np.expm1))
        named = [back for back in NAMED_BACKS if back <= max(curve.backs)]
        axes.set_xticks(named, map(str, named))
        axes.set_yscale("log")
        axes.set(ylim=(1e-5, 2.0), xlabel="tokens back", ylabel="share of the largest effect")
        axes.set_title(f"horizon: {curve.horizon + 1} tokens", loc="left")

    return plot


def _places_of(backs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.log1p(np.maximum(backs, -0.9))


def memory_plot(probes: Sequence[Probe]) -> Plot:
    """Return how often a linear probe names the token k back."""

    def plot(axes: Any) -> None:
        backs = [probe.back for probe in probes]
        axes.plot(backs, [probe.accuracy for probe in probes], marker="o", ms=3, label="probe")
        often = [probe.most_frequent for probe in probes]
        axes.plot(backs, often, color="#999999", ls=":", label="most frequent token")
        axes.set_xticks(backs, map(str, backs))
        axes.set(ylim=(0.0, 1.02), xlabel="tokens back", ylabel="share named rightly")
        axes.set_title("what the state still holds", loc="left")

    return plot


def _as_wide(plot: Plot, count: int) -> Plot:
    """Return a plot with room for the names of `count` tokens."""
    return WidePlot(plot, TOKEN_INCHES * count + 2.0)


def _covered(shown: int, count: int) -> str:
    """Return which tokens a panel has, "" where it has all of them."""
    return f" (1 to {shown} of {count:,})" if shown < count else ""


def _name_tokens(axes: Any, tokens: Sequence[str]) -> None:
    """Put a token under each place; words stand upright."""
    ticks = [token_label(token, MOST_LETTERS) for token in tokens]
    turned = 90 if max(map(len, ticks)) > 3 else 0
    axes.set_xticks(range(len(ticks)), ticks, fontsize=8, rotation=turned)
