"""`elman inspect`: what a trained run does inside, on a text of one's own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from elman.apps.cli.inspect_options import ViewOptions
from elman.apps.cli.options import Json, Run
from elman.apps.cli.output import print_json, say
from elman.apps.cli.stopped import tell_stopped
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.inspection.changes import ParameterChange
    from elman.recipes.inspecting.subject import Subject
    from elman.recipes.panels import Plot


def inspect(
    run: Run,
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
    """Look inside a recurrent language model while it reads a text: elman inspect RUN TEXT.

    The steps are run again by the readable equations, and nothing of the run is changed.
    """
    options = options or ViewOptions()
    options.require_fitting()
    if compare is not None and options.show:
        raise SettingError("--compare shows the states of two texts alone", got="--show beside it")
    tell_stopped([run])
    if options.since is not None:
        _require_no_text(text, file)
        return _since(run, options.since, as_json=json)
    from elman.recipes.inspecting.subject import subject_of
    from elman.recipes.trained import task_of

    if task_of(run) == "translate":
        return _attention(run, _given_text(text, file), options, as_json=json)
    subject = subject_of(run, _text(run, text, file), unknown=unknown)
    if compare is not None:
        return _two_texts(subject, subject_of(run, compare, unknown=unknown), as_json=json)
    told: dict[str, object] = {"run": str(run), "tokens": list(subject.shown)}
    plots = []
    for view in options.views:
        shown = _VIEWS[view](subject, options, not json)
        told[view] = shown.told
        plots += [] if shown.plot is None else [shown.plot]
    if html is not None:
        _write_page(subject, options, html)
    if options.picture is not None:
        _draw(plots, options.picture)
    if json:
        print_json(told)
    return 0


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


class Shown(NamedTuple):
    """What a view has found, as JSON can hold it, and how it is drawn; None: not at all."""

    told: object
    plot: "Plot | None" = None


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

    if options.show or options.csv is not None:
        raise SettingError(
            "of a run that writes sequences its attention is shown",
            got="--show" if options.show else "--csv",
            allowed="elman inspect RUN TEXT, with --picture and --json",
        )
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
    from elman.recipes.inspecting.page_data import page

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


def changes_json(changes: "Sequence[ParameterChange]") -> list[dict[str, object]]:
    """Return what JSON can hold of the change of each parameter."""
    return [change._asdict() | {"relative": change.relative} for change in changes]


def _change(subject: "Subject", options: ViewOptions, shows: bool) -> "Shown":
    from elman.apps.cli.inspect_view import show_changes
    from elman.recipes.inspecting.change_view import changes_by_reading

    changes = changes_by_reading(subject)
    if shows:
        show_changes(changes)
    return Shown(changes_json(changes))


def _trace(subject: "Subject", options: ViewOptions, shows: bool) -> "Shown":
    from elman.apps.cli.inspect_view import show_trace, show_units
    from elman.checkpoints.atomic_files import writing_atomically
    from elman.recipes.inspecting.pictures import trace_plot
    from elman.recipes.inspecting.tracing import chosen_units, traced, write_csv

    layer = subject.layer(options.layer)
    units = chosen_units(subject, layer, options.unit or ())
    rows = list(traced(subject, layer, units, options.top))
    if options.csv is not None:
        with writing_atomically(options.csv) as table:
            write_csv(rows, subject, table)
        say(f"trace written to {options.csv}")
    if shows:
        show_trace(subject, rows)
        if options.unit:
            show_units(layer, rows)
    steps = [] if shows else [row.to_json(subject) for row in rows]
    return Shown({"layer": layer + 1, "steps": steps}, trace_plot(rows, layer))


def _gates(subject: "Subject", options: ViewOptions, shows: bool) -> "Shown":
    from elman.apps.cli.inspect_view import show_gates
    from elman.recipes.inspecting.gate_view import gates_over_text, gates_over_vocabulary
    from elman.recipes.inspecting.pictures import gates_plot

    over_text, over_vocabulary = gates_over_text(subject), gates_over_vocabulary(subject)
    if shows:
        show_gates(over_text, over_vocabulary)
    told = {
        "text": [layer.to_json() for layer in over_text],
        "vocabulary": [layer.to_json() for layer in over_vocabulary],
    }
    return Shown(told, gates_plot(over_text))


def _gradients(subject: "Subject", options: ViewOptions, shows: bool) -> "Shown":
    from elman.apps.cli.inspect_view import show_gradients
    from elman.recipes.inspecting.gradient_view import gradient_view
    from elman.recipes.inspecting.pictures import gradients_plot

    layer = subject.layer(options.layer)
    view = gradient_view(subject, layer, options.scalar)
    if shows:
        show_gradients(subject, layer, view)
    return Shown(view.to_json(), gradients_plot(view, layer))


def _horizon(subject: "Subject", options: ViewOptions, shows: bool) -> "Shown":
    from elman.apps.cli.inspect_view import show_horizon
    from elman.recipes.inspecting.horizon_view import horizon_view
    from elman.recipes.inspecting.pictures import horizon_plot

    view = horizon_view(subject, num_positions=options.positions, on_stage=say)
    if shows:
        show_horizon(view)
    return Shown(view.to_json(), horizon_plot(view))


def _memory(subject: "Subject", options: ViewOptions, shows: bool) -> "Shown":
    from elman.apps.cli.inspect_view import show_memory
    from elman.recipes.inspecting.horizon_view import memory_view
    from elman.recipes.inspecting.pictures import memory_plot

    probes = memory_view(subject)
    if shows:
        show_memory(probes)
    return Shown([probe._asdict() for probe in probes], memory_plot(probes))


_VIEWS: Mapping[str, Callable[["Subject", ViewOptions, bool], "Shown"]] = MappingProxyType(
    {
        "trace": _trace,
        "gates": _gates,
        "gradients": _gradients,
        "horizon": _horizon,
        "memory": _memory,
        "change": _change,
    }
)


def _two_texts(first: "Subject", second: "Subject", *, as_json: bool) -> int:
    from elman.apps.cli.inspect_view import show_divergence
    from elman.inspection.trace import diverge

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
