"""The views as pictures: a panel each, of the same numbers as are told."""

from collections.abc import Sequence
from typing import Any

from elman.inspection.probes import Probe
from elman.recipes.inspecting.answer_gradients import AnswerGradients
from elman.recipes.inspecting.gate_view import LayerGates
from elman.recipes.inspecting.gradient_view import GradientView
from elman.recipes.inspecting.horizon_view import HorizonView
from elman.recipes.inspecting.pooling_view import PoolingView
from elman.recipes.inspecting.subject import Subject
from elman.recipes.inspecting.tracing import TracedToken
from elman.recipes.panels import Plot
from elman.text.vocabulary import SPECIALS

MOST_TOKENS = 60
"""Tokens that a picture of a trace has room for: the first of a longer text."""


def trace_plots(subject: Subject, rows: Sequence[TracedToken], layer: int) -> list[Plot]:
    """Return a heat map of the units shown over the text, one for each direction of the layer."""
    ways = dict.fromkeys(unit.direction for unit in rows[0].units)
    return [_trace_plot(subject, rows[:MOST_TOKENS], layer, way) for way in ways]


def _trace_plot(subject: Subject, shown: Sequence[TracedToken], layer: int, direction: str) -> Plot:
    places = [n for n, unit in enumerate(shown[0].units) if unit.direction == direction]
    part = list(shown[0].units[places[0]].after)[-1]
    states = [[row.units[place].after[part] for row in shown] for place in places]

    def plot(axes: Any) -> None:
        most = max(abs(value) for line in states for value in line) or 1.0
        image = axes.imshow(states, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)
        name = f"layer {layer + 1} {direction}".rstrip()
        axes.figure.colorbar(image, ax=axes, label=f"{part} of {name}", pad=0.01)
        units = [str(shown[0].units[place].unit + 1) for place in places]
        axes.set_yticks(range(len(units)), units)
        _name_tokens(axes, [row.token for row in shown])
        axes.set(xlabel="token read", ylabel="unit")
        for place, row in enumerate(shown):
            at = place + subject.mark_shift
            if at < len(shown):
                text = row.said.mark
                axes.text(at, -0.7, text, ha="center", fontsize=7, color="#555555")
        axes.set_title(f"{subject.mark_title},\nand the state after it\n", loc="left")

    return plot


def gates_plot(layers: Sequence[LayerGates]) -> Plot:
    """Return the time constants of the units of each layer, the longest first."""

    def plot(axes: Any) -> None:
        for layer in layers:
            finite = [tau for tau in layer.time_constants if 0.0 < tau < float("inf")]
            axes.plot(
                range(1, len(finite) + 1),
                sorted(finite, reverse=True),
                label=f"layer {layer.name}",
            )
        axes.set(yscale="log", xlabel="units, the longest first", ylabel="tokens carried (τ)")
        axes.set_title("how long units carry", loc="left")

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
        axes.set(xlabel="token read", ylabel=f"gradient of the {view.scalar}")
        axes.set_title(f"on what the answer depends: {view.answer}", loc="left")

    return plot


def pooling_plot(view: PoolingView) -> Plot:
    """Return the weight of each state in the pooled one."""
    shown = view.tokens[:MOST_TOKENS]

    def plot(axes: Any) -> None:
        axes.bar(range(len(shown)), view.weights_T[: len(shown)], color="#4477aa")
        _name_tokens(axes, shown)
        axes.set(xlabel="token read", ylabel="weight", ylim=(0.0, None))
        axes.set_title("attention of the pooling", loc="left")

    return plot


def horizon_plot(view: HorizonView) -> Plot:
    """Return the effect of another token k back, beside gradients of the same scale."""

    def plot(axes: Any) -> None:
        curve, most = view.perturbed, max(view.perturbed.nats) or 1.0
        places = range(len(curve.backs))
        axes.errorbar(
            places,
            [nats / most for nats in curve.nats],
            yerr=[error / most for error in curve.errors],
            marker="o",
            ms=3,
            label="another token",
        )
        largest = max(view.gradients) or 1.0
        scaled = [norm / largest for norm in view.gradients]
        axes.plot(places, scaled, marker="o", ms=3, label="gradient")
        axes.axhline(0.01, color="#999999", lw=0.8, ls=":")
        axes.set_xticks(places, map(str, curve.backs))
        axes.set_yscale("log")
        axes.set(ylim=(1e-5, 2.0), xlabel="tokens back", ylabel="share of the largest effect")
        axes.set_title(f"horizon: {curve.horizon + 1} tokens", loc="left")

    return plot


def memory_plot(probes: Sequence[Probe]) -> Plot:
    """Return how often a linear probe names the token k back."""

    def plot(axes: Any) -> None:
        places = range(len(probes))
        axes.plot(places, [probe.accuracy for probe in probes], marker="o", ms=3, label="probe")
        often = [probe.most_frequent for probe in probes]
        axes.plot(places, often, color="#999999", ls=":", label="most frequent token")
        axes.set_xticks(places, [str(probe.back) for probe in probes])
        axes.set(ylim=(0.0, 1.02), xlabel="tokens back", ylabel="share named rightly")
        axes.set_title("what the state still holds", loc="left")

    return plot


def _name_tokens(axes: Any, tokens: Sequence[str]) -> None:
    """Put a token under each place; words stand upright."""
    ticks = [_tick(token) for token in tokens]
    turned = 90 if max(map(len, ticks)) > 2 else 0
    axes.set_xticks(range(len(ticks)), ticks, fontsize=8, rotation=turned)


def _tick(token: str) -> str:
    """Return a token short enough to stand under a column; blanks and line ends are seen."""
    if token in SPECIALS:
        return token.replace(" ", "")
    seen = token.replace("\n", "⏎").replace(" ", "␣").replace("\t", "⇥")
    return seen if len(seen) <= 6 else f"{seen[:5]}…"
