"""What `elman inspect` shows of each step of a text, and of the answer that is made of them all."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from elman.apps.cli.inspect_cells import plain_token, share_bar, shown_token, view_table
from elman.apps.cli.output import output_console

if TYPE_CHECKING:
    from elman.recipes.inspecting.answer_gradients import AnswerGradients
    from elman.recipes.inspecting.answering import AnsweringSubject
    from elman.recipes.inspecting.classifier_subject import AnswerSoFar
    from elman.recipes.inspecting.language_subject import Expectation
    from elman.recipes.inspecting.pooling_view import PoolingView
    from elman.recipes.inspecting.tagger_subject import TagSaid
    from elman.recipes.inspecting.tracing import TracedToken


def show_trace(rows: Sequence["TracedToken"]) -> None:
    """Show each token with what was said there: what is expected, or answered, or its tag."""
    from elman.recipes.inspecting.classifier_subject import AnswerSoFar
    from elman.recipes.inspecting.language_subject import Expectation
    from elman.recipes.inspecting.tagger_subject import TagSaid

    expected = [(row.token, row.said) for row in rows if isinstance(row.said, Expectation)]
    answers = [(row.token, row.said) for row in rows if isinstance(row.said, AnswerSoFar)]
    tags = [(row.token, row.said) for row in rows if isinstance(row.said, TagSaid)]
    if expected:
        _show_expected(expected)
    if answers:
        _show_answers(answers)
    if tags:
        _show_tags(tags)


def show_units(layer: int, rows: Sequence["TracedToken"]) -> None:
    """Show state before, gates and state after of each unit asked for."""
    console = output_console()
    for place, unit in enumerate(rows[0].units):
        parts = [f"{name} before" for name in unit.before]
        after = [f"{name} after" for name in unit.after]
        table = view_table("read", *parts, *unit.gates, *after, left=(0,))
        name = f"layer {layer + 1} {unit.direction}".rstrip()
        table.title = f"{name}, unit {unit.unit + 1}"
        table.title_justify = "left"
        for row in rows:
            found = row.units[place]
            values = (*found.before.values(), *found.gates.values(), *found.after.values())
            table.add_row(shown_token(row.token), *(f"{value:+.3f}" for value in values))
        console.print()
        console.print(table)


def show_answer_gradients(subject: "AnsweringSubject", view: "AnswerGradients", layer: int) -> None:
    """Show norms of gradients over the text."""
    ways = [f"by {way} state".replace("  ", " ") for way in view.states]
    table = view_table("", "read", "by input", *ways, "", left=(1, 3 + len(ways)))
    largest = view.inputs_T[view.largest]
    for step, token in enumerate(subject.shown):
        norms = (view.inputs_T[step], *(norms_T[step] for norms_T in view.states.values()))
        cells = (f"{norm:.2e}" for norm in norms)
        bar = share_bar(view.inputs_T[step], largest)
        table.add_row(str(step + 1), shown_token(token), *cells, bar)
    console = output_console()
    console.print(table)
    what = {"loss": "−ln p", "logit": "logit", "state": "norm of the state"}[view.scalar]
    console.print(
        Text(
            f"{what} of the answer, {view.answer}: {view.value:.4f}; states are those of layer "
            f"{layer + 1} that a step begins with; it depends most on token {view.largest + 1}, "
            f"{plain_token(subject.shown[view.largest])}"
        )
    )


def show_pooling(view: "PoolingView") -> None:
    """Show the weight of each state in the pooled one."""
    table = view_table("", "read", "weight", "", left=(1, 3))
    most = view.weights_T[view.largest]
    for step, (token, weight) in enumerate(zip(view.tokens, view.weights_T, strict=True)):
        bar = share_bar(weight, most)
        table.add_row(str(step + 1), shown_token(token), f"{weight:.4f}", bar)
    console = output_console()
    console.print(table)
    console.print(
        f"entropy {view.entropy_nats:.3f} nats; on padding: {view.on_padding:g}, which must be 0"
    )


def _show_expected(rows: Sequence[tuple[str, "Expectation"]]) -> None:
    from elman.evaluation.units import nats_to_bits

    table = view_table("read", "next", "bits", "rank", "p", "likeliest", left=(0, 1, 5))
    for token, said in rows:
        step, found = said.step, said.step.following
        likeliest = _likeliest(
            (said.token_of(choice.token_id), choice.probability) for choice in step.top
        )
        if found is None:
            table.add_row(shown_token(token), "", "", "", "", likeliest)
            continue
        style = "bold" if step.greedy_differs else ""
        table.add_row(
            shown_token(token),
            Text(plain_token(said.following or ""), style=style),
            f"{nats_to_bits(found.nats):.2f}",
            f"{found.rank:,}",
            f"{found.choice.probability:.3f}",
            likeliest,
        )
    console = output_console()
    console.print(table)
    differ = sum(said.step.greedy_differs for _, said in rows)
    asked = sum(said.step.following is not None for _, said in rows)
    console.print(
        f"bold: feeding back the likeliest token would read another one ({differ:,} of {asked:,})"
    )


def _show_answers(rows: Sequence[tuple[str, "AnswerSoFar"]]) -> None:
    """Show what would be answered if the text ended after each token, and the answer."""
    whole = rows[-1][1]
    table = view_table("read", "if it ended here", "likeliest", left=(0, 1, 2))
    for token, said in rows:
        style = "bold" if said.given != whole.given else ""
        answer = Text(", ".join(said.given) or "no label", style=style)
        table.add_row(shown_token(token), answer, _likeliest(said.likeliest))
    console = output_console()
    console.print(table)
    others = sum(said.given != whole.given for _, said in rows)
    every = sorted(
        zip(whole.labels.labels, whole.probs_C.tolist(), strict=True), key=lambda pair: -pair[1]
    )
    told = ", ".join(f"{label} {prob:.4f}" for label, prob in every)
    console.print(
        Text(
            f"answer: {', '.join(whole.given) or 'no label'}; probabilities: {told}; bold: another "
            f"answer than that ({others:,} of {len(rows):,})"
        )
    )


def _show_tags(rows: Sequence[tuple[str, "TagSaid"]]) -> None:
    """Show the tag of each token with its probability, and the likeliest other one."""
    written = any(said.written != said.tag.tag for _, said in rows)
    more = ("written",) if written else ()
    table = view_table("read", "tag", "p", "runner-up", "p", *more, left=(0, 1, 3, 5))
    for token, said in rows:
        other = said.runner_up
        is_less = other is not None and other.probability > said.tag.probability
        table.add_row(
            shown_token(token),
            Text(said.tag.tag, style="bold" if is_less else ""),
            f"{said.tag.probability:.4f}",
            Text("" if other is None else other.tag),
            "" if other is None else f"{other.probability:.4f}",
            *([Text(said.written)] if written else []),
        )
    console = output_console()
    console.print(table)
    if written:
        console.print("tags are those of the scheme learnt; written: as files spell them")
    console.print("bold: the best sequence has another tag than the likeliest one by itself")


def _likeliest(shares: Iterable[tuple[str, float]]) -> Text:
    text = Text()
    for name, share in shares:
        text.append(name).append(f" {100 * share:.0f} %  ", style="dim")
    return text
