"""The panels of a page below its player: gates and curves, with what of the text each covers."""

from collections.abc import Mapping, Sequence

from elman.errors import DataError
from elman.recipes.inspecting.gate_view import LayerGates
from elman.recipes.inspecting.gradient_view import GradientView
from elman.recipes.inspecting.horizon_view import MOST_PROBED, horizon_view, memory_view
from elman.recipes.inspecting.language_subject import LanguageSubject

POSITIONS = 50
"""Places of the text at which the page asks for the horizon."""
LEAST_TOKENS = 200
"""Of a shorter text there is neither horizon nor memory: too few places to ask about."""

Panel = Mapping[str, object]
"""What the page draws: a title, a line that says what it covers, curves or rows of a table."""


def gates_panel(gates: Sequence[LayerGates], shown: int) -> Panel:
    """Return how open the gates are, a row each, and what the columns mean for those there are."""
    names = {gate.name for layer in gates for gate in layer.gates}
    read = gates[0].num_steps
    told = f"Over {_all_tokens(read)}{_shown_of(shown, read)}."
    for name, meaning in _MEANINGS:
        if (name in names) if name else names - {"candidate", "preactivation"}:
            told += f" {meaning}"
    return {
        "told": told,
        "rows": [row for one in gates for row in _gate_rows(one)],
        "carry": "; ".join(_carry(one) for one in gates),
    }


_MEANINGS = (
    ("", "Of a gate, low is below 0.1 and high above 0.9."),
    ("candidate", "Of a candidate, low is below −0.9 and high above 0.9."),
    (
        "preactivation",
        "A preactivation is the sum W x + W h′ + b that the activation function is taken of; it "
        "has no ends, and low and high are below −0.9 and above 0.9.",
    ),
)


def charts(
    subject: LanguageSubject, gradients: GradientView, layer: int, shown: int
) -> list[Panel]:
    """Return gradients, and of a text long enough the horizon and the memory too.

    `decades` are powers of ten that an axis has at most, 0: it goes from 0 to 1.
    """
    found = [_gradients_chart(subject, gradients, layer, shown)]
    if len(subject.ids_N) < LEAST_TOKENS:
        return found
    for chart in (_horizon_chart, _memory_chart):
        try:
            found.append(chart(subject))
        except DataError:  # too short for it, or all tokens alike: the page goes without
            continue
    return found


def _gradients_chart(subject: LanguageSubject, view: GradientView, layer: int, shown: int) -> Panel:
    count, reach = len(subject.ids_N), len(view.inputs_K)
    first = count - reach
    covered = "all tokens before the last one"
    if first > 1:
        covered = f"tokens {first:,} to {count - 1:,} of {count:,}"
        if first > shown:
            covered += ", none of which is among those shown above"
        elif count > shown:
            covered += f", of which those up to {shown:,} are shown above"
    told = (
        f"Over {covered}: the gradient of the {view.scalar} after the last token. Inputs up to "
        f"{view.reach} tokens back have a hundredth of the largest."
    )
    return {
        "name": "reach",
        "title": "On what the end depends",
        "told": told,
        "x": "tokens back",
        "log_x": False,
        "decades": 16,
        "curves": [
            _curve("by the input", range(reach), view.inputs_K),
            _curve(f"by the state of layer {layer + 1}", range(reach), view.states_K),
        ],
    }


def _horizon_chart(subject: LanguageSubject) -> Panel:
    view = horizon_view(subject, num_positions=POSITIONS)
    curves = []
    for name, values in (("another token", view.perturbed.nats), ("gradient", view.gradients)):
        most = max(values) or 1.0
        curves.append(_curve(name, view.backs, [value / most for value in values]))
    return {
        "name": "horizon",
        "title": "How far back the model looks",
        "told": f"At {view.perturbed.num_positions} places drawn from "
        f"{_all_tokens(len(subject.ids_N))}: {view.told}.",
        "x": "tokens back; each curve as a share of its largest",
        "log_x": True,
        "decades": 6,
        "rule": 0.01,
        "curves": curves,
    }


def _memory_chart(subject: LanguageSubject) -> Panel:
    probes = memory_view(subject)
    backs = [probe.back for probe in probes]
    count = len(subject.ids_N)
    covered = f"the first {MOST_PROBED:,} tokens" if count > MOST_PROBED else _all_tokens(count)
    return {
        "name": "memory",
        "title": "What the state still holds",
        "told": f"Over {covered}: how often a linear probe of the state names the token k back, "
        f"fitted on the first seven tenths and asked {probes[0].num_asked:,} times of the rest.",
        "x": "tokens back",
        "log_x": False,
        "decades": 0,
        "curves": [
            _curve("probe", backs, [probe.accuracy for probe in probes]),
            _curve("most frequent token", backs, [probe.most_frequent for probe in probes]),
        ],
    }


def _curve(name: str, xs: Sequence[int], ys: Sequence[float]) -> dict[str, object]:
    return {"name": name, "xs": list(xs), "ys": list(ys)}


def _all_tokens(count: int) -> str:
    return f"all {count:,} tokens of the text"


def _shown_of(shown: int, count: int) -> str:
    return f", of which the first {shown:,} are shown above" if shown < count else ""


def _gate_rows(layer: LayerGates) -> list[list[str]]:
    return [
        [
            f"{layer.layer + 1} ({layer.cell})",
            gate.name,
            f"{gate.mean:.3f}",
            f"{100 * gate.below:.1f} %",
            f"{100 * gate.above:.1f} %",
            f"{len(gate.stuck_units):,}",
        ]
        for gate in layer.gates
    ]


def _carry(layer: LayerGates) -> str:
    middle = layer.median_time_constant
    if not middle:
        return f"layer {layer.layer + 1} carries nothing past its product"
    return f"units of layer {layer.layer + 1} carry {middle:.1f} tokens in the median"
