"""`elman inspect`: what a trained run does inside, on a text of one's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.inspect_by_view import changes_json, show_view
from elman.apps.cli.inspect_options import ViewOptions
from elman.apps.cli.options import Json
from elman.apps.cli.output import print_json, say
from elman.apps.cli.stopped import tell_stopped
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.config.text_settings import UnknownPolicy
    from elman.recipes.inspecting.subject import Subject
    from elman.recipes.panels import Plot


def inspect(
    run: Annotated[
        Path, Parameter(help="Folder of a trained run, or a JSON file of supplied weights.")
    ],
    text: Annotated[str | None, Parameter(help="The text to read. [default: --file]")] = None,
    *,
    file: Annotated[
        str | None, Parameter(help="Read the text of this file instead; - is standard input.")
    ] = None,
    compare: Annotated[
        str | None,
        Parameter(help="A second text of as many tokens: where and how long do the states differ?"),
    ] = None,
    unknown: Annotated[
        Literal["refuse", "replace", "skip"] | None,
        Parameter(help="Symbols that the model never saw. [default: as the run says]"),
    ] = None,
    options: ViewOptions | None = None,
    html: Annotated[
        Path | None,
        Parameter(help="Write one page to step through the text with; it needs no network."),
    ] = None,
    json: Json = False,
) -> int:
    """Look inside a recurrent model while it reads a text: elman inspect RUN TEXT.

    A language model tells what it expects next, a classifier what it would answer if the text ended
    there, a tagger the tag of each token, an encoder-decoder where its answer looks. The steps are
    run again by the readable equations, and nothing of the run is changed. A JSON file of supplied
    weights in place of RUN is traced in exact fractions.
    """
    options = options or ViewOptions()
    options.require_fitting()
    if compare is not None and options.show:
        raise SettingError("--compare shows the states of two texts alone", got="--show beside it")
    if run.is_file():
        others = {"--file": file, "--compare": compare, "--unknown": unknown, "--html": html}
        return _exactly(run, text, options, others, as_json=json)
    tell_stopped([run])
    if options.since is not None:
        _require_no_text(text, file)
        return _since(run, options.since, as_json=json)
    from elman.recipes.inspecting.opening import open_subject
    from elman.recipes.trained import task_of

    task = task_of(run)
    options.require_task(task)
    if task == "translate":
        return _attention(run, _given_text(text, file), options, as_json=json)
    if task != "lm":
        _require_language_model(task, {"--compare": compare, "--html": html})
    if compare is not None:
        return _two_texts(run, _text(run, text, file), compare, unknown, as_json=json)
    subject = open_subject(run, _text(run, text, file), unknown=unknown)
    _show_views(subject, options, as_json=json)
    if html is not None:
        _write_page(subject, options, html)
    return 0


def _exactly(
    path: Path,
    text: str | None,
    options: ViewOptions,
    others: Mapping[str, object],
    *,
    as_json: bool,
) -> int:
    from elman.apps.cli.inspect_exact import inspect_exactly

    return inspect_exactly(path, text, options, others, as_json=as_json)


def _show_views(subject: "Subject", options: ViewOptions, *, as_json: bool) -> None:
    """Show every view that is asked for, or print one object of them all; draw them if asked."""
    from elman.recipes.inspecting.answering import AnsweringSubject
    from elman.recipes.inspecting.classifier_subject import ClassifierSubject
    from elman.recipes.inspecting.pooling_view import require_attention

    # What cannot be shown is told before anything is.
    if isinstance(subject, AnsweringSubject) and options.at is not None:
        subject.answer_at(options.at - 1)
    if isinstance(subject, ClassifierSubject) and "attention" in options.views:
        require_attention(subject)
    for notice in subject.notices:
        say(f"note: {notice}")
    told: dict[str, object] = {"run": str(subject.path), "tokens": list(subject.shown)}
    answer = subject.answer_json()
    if answer:
        told["answer"] = answer
    plots = list["Plot"]()
    for view in options.views:
        shown = show_view(view, subject, options, shows=not as_json)
        told[view] = shown.told
        plots += shown.plots
    if options.picture is not None:
        _draw(plots, options.picture)
    if as_json:
        print_json(told)


def _require_language_model(task: str, given: Mapping[str, object]) -> None:
    """Raise `SettingError` for an option that another task has no use for."""
    for option, value in given.items():
        if value is not None:
            raise SettingError(
                f"{option} is for language models",
                got=f"a run of elman train {task}",
                allowed="--show, --json, --csv and --picture",
            )


def _text(run: Path, text: str | None, file: str | None) -> str:
    """Return the text given, or that of the file; raises `SettingError` for both and for none."""
    if (text is None) == (file is None):
        raise SettingError(
            "elman inspect reads one text",
            got="a text and --file" if text is not None else "none",
            allowed="elman inspect RUN TEXT, or --file FILE",
        )
    if text is not None:
        return text
    assert file is not None
    from elman.recipes.inspecting.subject import text_of_file

    return text_of_file(file, run)


def _draw(plots: "Sequence[Plot]", path: Path) -> None:
    from elman.recipes.panels import draw_panels

    if not plots:
        raise SettingError("the views shown have no picture", got="--picture")
    draw_panels(path, plots)
    say(f"picture written to {path}")


def _given_text(text: str | None, file: str | None) -> str:
    if text is None or file is not None:
        raise SettingError("attention is looked at for one text", got="--file, or no text")
    return text


def _attention(run: Path, text: str, options: ViewOptions, *, as_json: bool) -> int:
    from elman.apps.cli.inspect_view import show_attention
    from elman.recipes.inspecting.attention_view import attention_view

    view = attention_view(run, text)
    if options.picture is not None:
        view.draw(options.picture)
        say(f"picture written to {options.picture}")
    if as_json:
        print_json({"run": str(run), "attention": view.to_json()})
    else:
        show_attention(view)
    return 0


def _write_page(subject: "Subject", options: ViewOptions, path: Path) -> None:
    from elman.checkpoints.atomic_files import write_atomically
    from elman.recipes.inspecting.gate_view import gates_over_text
    from elman.recipes.inspecting.gradient_view import gradient_view
    from elman.recipes.inspecting.language_subject import LanguageSubject
    from elman.recipes.inspecting.page_data import page

    assert isinstance(subject, LanguageSubject)
    layer = subject.layer(options.layer)
    gradients = gradient_view(subject, layer, options.scalar)
    whole, shown = page(subject, gates_over_text(subject), gradients, layer, top=options.top)
    write_atomically(path, whole.encode())
    left = len(subject.ids_N) - shown
    rest = f", which shows the first {shown:,} tokens of {len(subject.ids_N):,}" if left else ""
    say(f"page written to {path}{rest}")


def _require_no_text(text: str | None, file: str | None) -> None:
    if text is not None or file is not None:
        raise SettingError("--since compares weights and reads no text", got="a text")


def _since(run: Path, before: Path, *, as_json: bool) -> int:
    from elman.apps.cli.inspect_view import show_changes
    from elman.recipes.inspecting.change_view import changes_between

    changes = changes_between(before, run)
    if as_json:
        print_json({"run": str(run), "since": str(before), "change": changes_json(changes)})
    else:
        show_changes(changes)
    return 0


def _two_texts(
    run: Path, text: str, other: str, unknown: "UnknownPolicy | None", *, as_json: bool
) -> int:
    from elman.apps.cli.inspect_view import show_divergence
    from elman.inspection.trace import diverge
    from elman.recipes.inspecting.language_subject import language_subject

    first, second = (language_subject(run, each, unknown=unknown) for each in (text, other))
    if len(first.ids_N) != len(second.ids_N):
        raise SettingError(
            "texts that are compared must have as many tokens as each other",
            got=f"{len(first.ids_N):,} and {len(second.ids_N):,}",
        )
    rows = list(diverge(first.model, first.ids_N, second.ids_N))
    if as_json:
        told = [row._asdict() for row in rows]
        print_json({"first": first.shown, "second": second.shown, "steps": told})
    else:
        show_divergence(first.shown, second.shown, rows)
    return 0
