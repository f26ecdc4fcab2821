"""What `elman inspect` shows of each step of a text, and of the answer that is made of them all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from elman.apps.cli.inspect_cells import (
    plain_token,
    print_fitted,
    share_bar,
    shown_token,
    starred,
    tell_unknown,
)
from elman.apps.cli.inspect_likeliest import print_likeliest
from elman.apps.cli.output import output_console

if TYPE_CHECKING:
    from elman.recipes.inspecting.answer_gradients import AnswerGradients
    from elman.recipes.inspecting.answering import AnsweringSubject
    from elman.recipes.inspecting.classifier_subject import AnswerSoFar
    from elman.recipes.inspecting.language_subject import Expectation
    from elman.recipes.inspecting.pooling_view import PoolingView
    from elman.recipes.inspecting.subject import Subject
    from elman.recipes.inspecting.tagger_subject import TagSaid
    from elman.recipes.inspecting.tracing import TracedToken


def show_trace(subject: "Subject", rows: Sequence["TracedToken"]) -> None:
    """Show each token with what was said there: what is expected, or answered, or its tag."""
    from elman.recipes.inspecting.classifier_subject import AnswerSoFar
    from elman.recipes.inspecting.language_subject import Expectation
    from elman.recipes.inspecting.tagger_subject import TagSaid

    read = [_read(subject, row.position) for row in rows]
    expected = [row.said for row in rows if isinstance(row.said, Expectation)]
    answers = [row.said for row in rows if isinstance(row.said, AnswerSoFar)]
    tags = [row.said for row in rows if isinstance(row.said, TagSaid)]
    if expected:
        _show_expected(subject, read, expected)
    if answers:
        _show_answers(read, answers)
    if tags:
        _show_tags(read, tags)
    tell_unknown(subject.unknown)


def show_units(subject: "Subject", layer: int, rows: Sequence["TracedToken"]) -> None:
    """Show state before, gates and state after of each unit asked for."""
    for place, unit in enumerate(rows[0].units):
        parts = [f"{name} before" for name in unit.before]
        after = [f"{name} after" for name in unit.after]
        cells = []
        for row in rows:
            found = row.units[place]
            values = (*found.before.values(), *found.gates.values(), *found.after.values())
            figures = (Text(f"{value:+.3f}") for value in values)
            cells.append([_read(subject, row.position), *figures])
        name = f"layer {layer + 1} {unit.direction}".rstrip()
        output_console().print()
        print_fitted(
            ("read", *parts, *unit.gates, *after),
            cells,
            left=(0,),
            tokens=(0,),
            title=f"{name}, unit {unit.unit + 1}",
        )


def show_answer_gradients(subject: "AnsweringSubject", view: "AnswerGradients", layer: int) -> None:
    """Show norms of gradients over the text."""
    ways = [f"by {way or 'state'}" for way in view.states]
    largest, rows = view.inputs_T[view.largest], []
    for step in range(len(subject.shown)):
        norms = (view.inputs_T[step], *(norms_T[step] for norms_T in view.states.values()))
        cells = [str(step + 1), *(f"{norm:.2e}" for norm in norms)]
        cells.append(share_bar(view.inputs_T[step], largest))
        number, *rest = map(Text, cells)
        rows.append([number, _read(subject, step), *rest])
    titles = ("", "read", "by input", *ways, "by input, of the largest")
    print_fitted(titles, rows, left=(1, 3 + len(ways)), tokens=(1,))
    tell_unknown(subject.unknown)
    what = {"loss": "−ln p", "logit": "logit", "state": "norm of the state"}[view.scalar]
    unit = " nats" if view.scalar == "loss" else ""
    output_console().print(
        Text(
            f"{what} of the answer, {view.answer}: {view.value:.4f}{unit}; states are those of "
            f"layer {layer + 1} that a step begins with; it depends most on token "
            f"{view.largest + 1}, {plain_token(subject.shown[view.largest])}"
        )
    )


def show_pooling(subject: "Subject", view: "PoolingView") -> None:
    """Show the weight of each state in the pooled one."""
    most, rows = view.weights_T[view.largest], []
    for step, weight in enumerate(view.weights_T):
        number, *rest = map(Text, (str(step + 1), f"{weight:.4f}", share_bar(weight, most)))
        rows.append([number, _read(subject, step), *rest])
    titles = ("", "read", "weight", "share of the largest")
    print_fitted(titles, rows, left=(1, 3), tokens=(1,))
    tell_unknown(subject.unknown)
    output_console().print(
        f"entropy {view.entropy_nats:.3f} nats; on padding: {view.on_padding:g}, which must be 0"
    )


def _read(subject: "Subject", position: int) -> Text:
    return shown_token(subject.shown[position], unknown=position in subject.unknown)


def _show_expected(subject: "Subject", read: Sequence[Text], said: Sequence["Expectation"]) -> None:
    from elman.evaluation.units import nats_to_bits

    rows, likeliest = [], []
    for token, each in zip(read, said, strict=True):
        step, found = each.step, each.step.following
        likeliest.append([(each.token_of(one.token_id), one.probability) for one in step.top])
        if found is None:
            rows.append([token, *(Text() for _ in range(4))])
            continue
        figures = nats_to_bits(found.nats), found.rank, found.choice.probability
        following = _read(subject, step.position + 1)
        rows.append(
            [
                token,
                starred(following, is_meant=step.greedy_differs),
                *map(Text, (f"{figures[0]:.2f}", f"{figures[1]:,}", f"{figures[2]:.3f}")),
            ]
        )
    titles = ("read", "next", "bits", "rank", "p")
    print_likeliest(titles, rows, likeliest, left=(0, 1), tokens=(0, 1))
    differ = sum(each.step.greedy_differs for each in said)
    asked = sum(each.step.following is not None for each in said)
    if asked:
        output_console().print(
            f"*: feeding back the likeliest token would read another one ({differ:,} of {asked:,})"
        )


def _show_answers(read: Sequence[Text], said: Sequence["AnswerSoFar"]) -> None:
    """Show what would be answered if the text ended after each token, and the answer."""
    whole, rows = said[-1], []
    for token, each in zip(read, said, strict=True):
        answer = Text(", ".join(each.given) or "no label")
        rows.append([token, starred(answer, is_meant=each.given != whole.given)])
    likeliest = [each.likeliest for each in said]
    print_likeliest(("read", "if it ended here"), rows, likeliest, left=(0, 1), tokens=(0, 1))
    others = sum(each.given != whole.given for each in said)
    every = sorted(
        zip(whole.labels.labels, whole.probs_C.tolist(), strict=True), key=lambda pair: -pair[1]
    )
    told = ", ".join(f"{label} {prob:.4f}" for label, prob in every)
    output_console().print(
        Text(
            f"answer: {', '.join(whole.given) or 'no label'}; probabilities: {told}; *: another "
            f"answer than that ({others:,} of {len(said):,})"
        )
    )


def _show_tags(read: Sequence[Text], said: Sequence["TagSaid"]) -> None:
    """Show the tag of each token with its probability, and the likeliest other one."""
    written = any(each.written != each.tag.tag for each in said)
    rows = []
    for token, each in zip(read, said, strict=True):
        other = each.runner_up
        is_less = other is not None and other.probability > each.tag.probability
        rows.append(
            [
                token,
                starred(Text(each.tag.tag), is_meant=is_less),
                Text(f"{each.tag.probability:.4f}"),
                Text("" if other is None else other.tag),
                Text("" if other is None else f"{other.probability:.4f}"),
                *([Text(each.written)] if written else []),
            ]
        )
    titles = ("read", "tag", "p", "runner-up", "p", *(("written",) if written else ()))
    print_fitted(titles, rows, left=(0, 1, 3, 5), tokens=(0,))
    console = output_console()
    if written:
        console.print("tags are those of the scheme learnt; written: as files spell them")
    console.print("*: the best sequence has another tag than the likeliest one by itself")
