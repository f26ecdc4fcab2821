"""What `elman inspect` shows a person: a table a view, and one sentence where there is one."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from elman.apps.cli.inspect_cells import (
    BAR,
    MOST_ROWS,
    log_bar,
    plain_token,
    shown_token,
    view_table,
)
from elman.apps.cli.output import output_console

if TYPE_CHECKING:
    from elman.inspection.changes import ParameterChange
    from elman.inspection.probes import Probe
    from elman.inspection.trace import Divergence
    from elman.recipes.inspecting.attention_view import AttentionView
    from elman.recipes.inspecting.gate_view import LayerGates
    from elman.recipes.inspecting.gradient_view import GradientView
    from elman.recipes.inspecting.horizon_view import HorizonView
    from elman.recipes.inspecting.language_subject import LanguageSubject


def show_gates(over_text: Sequence["LayerGates"], vocabulary: Sequence["LayerGates"]) -> None:
    """Show how open the gates of each layer are, and how long its units carry."""
    console = output_console()
    table = view_table(
        "layer", "gate", "mean", "low", "high", "stuck", "over vocabulary", left=(0, 1)
    )
    means = [f"{gate.mean:.3f}" for layer in vocabulary for gate in layer.gates]
    over_tokens = iter(means or ["–"] * sum(len(layer.gates) for layer in over_text))
    for layer in over_text:
        for gate in layer.gates:
            table.add_row(
                f"{layer.name} {layer.cell}",
                gate.name,
                f"{gate.mean:.3f}",
                f"{100 * gate.below:.1f} %",
                f"{100 * gate.above:.1f} %",
                f"{len(gate.stuck_units):,}",
                next(over_tokens),
            )
    console.print(table)
    console.print("low, high: below 0.1 and above 0.9 of a gate, beyond ±0.9 of a candidate")
    for layer in over_text:
        middle = layer.median_time_constant
        if not middle:
            console.print(f"layer {layer.name}: nothing is carried past its product")
            continue
        longest = ", ".join(f"{unit + 1} ({_tokens(tau)})" for unit, tau in layer.longest)
        console.print(
            f"layer {layer.name}: units carry {_tokens(middle)} tokens in the median; longest "
            f"{longest}; {len(layer.dead_units):,} dead"
        )


def show_gradients(subject: "LanguageSubject", layer: int, view: "GradientView") -> None:
    """Show norms of gradients by how far back, on a scale of logarithms."""
    console = output_console()
    table = view_table("back", "read", "by input", "by state", "", left=(1, 4))
    largest = max(view.inputs_K)
    for back, norm in list(enumerate(view.inputs_K))[:MOST_ROWS]:
        token = subject.shown[len(subject.shown) - 2 - back]
        state = f"{view.states_K[back]:.2e}"
        table.add_row(str(back), shown_token(token), f"{norm:.2e}", state, log_bar(norm, largest))
    console.print(table)
    left = len(view.inputs_K) - MOST_ROWS
    if left > 0:
        console.print(f"… and {left:,} steps further back (--json has all)")
    console.print(
        f"{view.scalar} after the last token: {view.value:.4f}; inputs up to {view.reach} tokens "
        "back have a hundredth of the largest gradient"
    )
    if view.products is not None:
        exponent, factors = view.exponents[0], len(view.products.of_product_K)
        product, bound = view.products.of_product_K[-1], view.products.of_bound_K[-1]
        console.print(
            f"layer {layer + 1}, the last {factors:,} Jacobians: the product has the norm "
            f"{_of_log(float(product))}, the product of norms, its bound, {_of_log(float(bound))}; "
            f"largest Lyapunov exponent {exponent:+.3f} nats a token"
        )


def show_horizon(view: "HorizonView") -> None:
    """Show the effect of a change k tokens back, and the conclusion."""
    console = output_console()
    table = view_table("back", "change, nats", "±", "gradient", "", left=(4,))
    largest = max(view.perturbed.nats)
    rows = zip(view.backs, view.perturbed.nats, view.perturbed.errors, view.gradients, strict=True)
    for back, nats, error, gradient in rows:
        bar = log_bar(nats, largest)
        table.add_row(str(back), f"{nats:.4f}", f"{error:.4f}", f"{gradient:.2e}", bar)
    console.print(table)
    console.print(view.told)


def show_memory(probes: Sequence["Probe"]) -> None:
    """Show how often a linear probe names the token k back."""
    console = output_console()
    table = view_table("back", "right", "most frequent", "", left=(3,))
    for probe in probes:
        right, often = (f"{100 * share:.1f} %" for share in (probe.accuracy, probe.most_frequent))
        table.add_row(str(probe.back), right, often, "█" * round(BAR * probe.accuracy))
    console.print(table)
    held = [probe.back for probe in probes if probe.accuracy > 0.5]
    told = (
        f"a linear probe of the state is right in more than half of {probes[0].num_asked:,} places"
    )
    if len(held) == len(probes):
        console.print(f"{told} as far back as was asked: the text repeats itself, or is held whole")
    else:
        last = f"up to {max(held)} back" if held else "nowhere"
        console.print(f"{told} {last}: a state is not a transcript")


def show_attention(view: "AttentionView") -> None:
    """Show what each token of an answer looks at most, and how spread its attention is."""
    console = output_console()
    table = view_table("written", "looks at", "weight", "entropy, nats", left=(0, 1))
    figures = view.figures
    for step, token in enumerate(view.target_tokens):
        place = int(figures.place_BU[0, step])
        table.add_row(
            shown_token(token),
            Text(f"{place + 1} {plain_token(view.source_tokens[place])}"),
            f"{float(figures.largest_BU[0, step]):.3f}",
            f"{float(figures.entropy_BU[0, step]):.3f}",
        )
    console.print(table)
    console.print(f"on padding: {view.on_padding:g} of a step at most, which must be 0")


def show_changes(changes: Sequence["ParameterChange"]) -> None:
    """Show the norm of each parameter, of its change, and how many are the same to the bit."""
    console = output_console()
    table = view_table(
        "parameter", "numbers", "norm before", "change", "relative", "largest", left=(0,)
    )
    for change in changes:
        relative = "–" if change.relative is None else f"{100 * change.relative:.2f} %"
        norms = f"{change.norm_before:.4f}", f"{change.norm_of_change:.4g}"
        told = ("0", "", "") if change.equal else (norms[1], relative, f"{change.largest:.3g}")
        table.add_row(change.name, f"{change.num_values:,}", norms[0], *told)
    console.print(table)
    same = sum(change.equal for change in changes)
    console.print(f"{same:,} of {len(changes):,} parameters are the same to the last bit")


def show_divergence(
    first: Sequence[str], second: Sequence[str], rows: Sequence["Divergence"]
) -> None:
    """Show how far apart two texts leave the states of each layer."""
    layers = [f"layer {place + 1}" for place in range(len(rows[0].distances_L))]
    table = view_table("first", "second", *layers, "next, nats apart", left=(0, 1))
    for row in rows:
        one, other = first[row.position], second[row.position]
        style = "bold" if row.token_ids[0] != row.token_ids[1] else ""
        distances = (f"{distance:.4f}" for distance in row.distances_L)
        texts = (Text(plain_token(text), style=style) for text in (one, other))
        table.add_row(*texts, *distances, f"{row.nats_apart:.4f}")
    console = output_console()
    console.print(table)
    apart = [row for row in rows if max(row.distances_L) > 0.0]
    if not apart:
        console.print("the states are the same throughout")
        return
    most = max(max(row.distances_L) for row in rows)
    near = [row.position for row in apart if max(row.distances_L) >= 0.01 * most]
    console.print(
        f"states part at token {apart[0].position + 1} of {len(rows):,} and are last more than a "
        f"hundredth of their largest distance apart at token {near[-1] + 1}"
    )


def _tokens(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.1f}"


def _of_log(log_value: float) -> str:
    """Return e^log in powers of ten, whatever its size."""
    if math.isinf(log_value):
        return "0" if log_value < 0 else "∞"
    exponent = math.floor(log_value / math.log(10.0))
    return f"{math.exp(log_value - exponent * math.log(10.0)):.2f}e{exponent:+03d}"
