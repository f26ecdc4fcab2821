"""What `elman inspect` shows a person: a table a view, and one sentence where there is one."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from elman.apps.cli.inspect_cells import (
    BAR,
    MOST_ROWS,
    log_bar,
    print_fitted,
    print_table,
    shown_token,
    tell_unknown,
    view_table,
)
from elman.apps.cli.output import output_console

if TYPE_CHECKING:
    from elman.inspection.changes import ParameterChange
    from elman.inspection.probes import Probe
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
                f"{len(gate.stuck_units):,}" if layer.tells_stuck else "–",
                next(over_tokens),
            )
    print_table(table)
    console.print(
        "low, high: below 0.1 and above 0.9 of a gate, beyond ±0.9 of a candidate or preactivation"
    )
    if any(gate.name == "preactivation" for layer in over_text for gate in layer.gates):
        console.print(
            "preactivation: the sum a = W_ih x + W_hh h′ + b that a plain cell, which has no "
            "gates, puts through its activation"
        )
    if not all(layer.tells_stuck for layer in over_text):
        console.print(
            f"–: with {over_text[0].num_steps:,} steps it cannot be known which gates are stuck "
            "and which units dead"
        )
    for layer in over_text:
        middle, dead = layer.median_time_constant, ""
        if layer.tells_stuck:
            dead = f"; {len(layer.dead_units):,} units are dead"
        if not middle:
            console.print(f"layer {layer.name}: nothing is carried past its product{dead}")
            continue
        longest = ", ".join(f"unit {unit + 1} {_tokens(tau)}" for unit, tau in layer.longest)
        console.print(
            f"layer {layer.name}: units carry {_tokens(middle)} tokens in the median; longest, in "
            f"tokens: {longest}{dead}"
        )


def show_gradients(subject: "LanguageSubject", layer: int, view: "GradientView") -> None:
    """Show norms of gradients by how far back, on a scale of logarithms."""
    console, rows = output_console(), []
    largest = max(view.inputs_K)
    for back, norm in list(enumerate(view.inputs_K))[:MOST_ROWS]:
        place = len(subject.shown) - 2 - back
        figures = f"{norm:.2e}", f"{view.states_K[back]:.2e}", log_bar(norm, largest)
        token = shown_token(subject.shown[place], unknown=place in subject.unknown)
        rows.append([Text(str(back)), token, *map(Text, figures)])
    titles = ("back", "read", "by input", "by state", "by input, log scale")
    print_fitted(titles, rows, left=(1, 4), tokens=(1,))
    tell_unknown(subject.unknown)
    left = len(view.inputs_K) - MOST_ROWS
    if left > 0:
        console.print(f"… and {left:,} steps further back (--json has all)")
    what = {
        "loss": "loss after the last token read",
        "logit": "logit of the last token of the text",
        "state": "norm of the state after the last token read",
    }[view.scalar]
    unit = " nats" if view.scalar == "loss" else ""
    console.print(
        f"{what}: {view.value:.4f}{unit}; inputs up to {view.reach} tokens "
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
    """Show the effect of a change k tokens back, of another order, and the conclusion."""
    table = view_table(
        *("back", "change", "±", "order", "±", "gradient", "change, log scale"),
        left=(6,),
    )
    largest = max(view.perturbed.nats)
    curve = view.shuffled
    orders = dict(zip(curve.lengths, zip(curve.nats, curve.half_widths, strict=True), strict=True))
    rows = zip(view.backs, view.perturbed.nats, view.perturbed.errors, view.gradients, strict=True)
    for back, nats, error, gradient in rows:
        order = [f"{value:.3g}" for value in orders[back]] if back in orders else ["–", "–"]
        bar = log_bar(nats, largest)
        table.add_row(str(back), f"{nats:.3g}", f"{error:.2g}", *order, f"{gradient:.2e}", bar)
    print_table(table)
    console = output_console()
    console.print(
        "change: how far another token so far back moves the next prediction, in nats, ± one "
        "standard error; order: the loss in nats when all from there back stands in another order, "
        "± half of a 95 % interval; gradient: the mean norm by that input"
    )
    console.print(view.told)


def show_memory(probes: Sequence["Probe"]) -> None:
    """Show how often a linear probe names the token k back."""
    console = output_console()
    table = view_table("back", "right", "most frequent", "right, of all", left=(3,))
    for probe in probes:
        right, often = (f"{100 * share:.1f} %" for share in (probe.accuracy, probe.most_frequent))
        table.add_row(str(probe.back), right, often, "█" * round(BAR * probe.accuracy))
    print_table(table)
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
    """Show the answer, what each token of it looks at most, and how spread its attention is."""
    console, figures, rows = output_console(), view.figures, []
    console.print(Text(f"answer: {view.answer}"))
    for step, token in enumerate(view.target_tokens):
        place = int(figures.place_BU[0, step])
        seen = shown_token(view.source_tokens[place], unknown=place in view.unknown)
        numbers = (figures.largest_BU[0, step], figures.entropy_BU[0, step])
        cells = (Text(f"{float(number):.3f}") for number in numbers)
        rows.append([shown_token(token), Text(f"{place + 1} ").append_text(seen), *cells])
    print_fitted(
        ("written", "looks at", "weight", "entropy, nats"), rows, left=(0, 1), tokens=(0, 1)
    )
    tell_unknown(view.unknown)
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
    print_table(table)
    same = sum(change.equal for change in changes)
    console.print(f"{same:,} of {len(changes):,} parameters are the same to the last bit")


def _tokens(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.1f}"


def _of_log(log_value: float) -> str:
    """Return e^log in powers of ten, whatever its size."""
    if math.isinf(log_value):
        return "0" if log_value < 0 else "∞"
    exponent = math.floor(log_value / math.log(10.0))
    return f"{math.exp(log_value - exponent * math.log(10.0)):.2f}e{exponent:+03d}"
