"""`elman inspect`: what a trained run does inside, on a text of one's own."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.inspect_options import ViewOptions
from elman.apps.cli.options import Json, Run
from elman.apps.cli.output import print_json, say
from elman.apps.cli.stopped import tell_stopped
from elman.errors import SettingError
from elman.text.raw_files import is_standard_input

if TYPE_CHECKING:
    from elman.inspection.changes import ParameterChange
    from elman.recipes.inspecting.subject import Subject


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

    subject = subject_of(run, _text(text, file), unknown=unknown)
    if compare is not None:
        return _two_texts(subject, subject_of(run, compare, unknown=unknown), as_json=json)
    told: dict[str, object] = {"run": str(run), "tokens": list(subject.shown)}
    for view in options.views:
        told[view] = _VIEWS[view](subject, options, not json)
    if json:
        print_json(told)
    return 0


def _text(text: str | None, file: str | None) -> str:
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
    from elman.text.reading import joined_chunks, open_sources

    if is_standard_input(file):
        return sys.stdin.buffer.read().decode("utf-8")
    return "".join(joined_chunks(source.chunks() for source in open_sources([file])))


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


def _change(subject: "Subject", options: ViewOptions, shows: bool) -> object:
    from elman.apps.cli.inspect_view import show_changes
    from elman.recipes.inspecting.change_view import changes_by_reading

    changes = changes_by_reading(subject)
    if shows:
        show_changes(changes)
    return changes_json(changes)


def _trace(subject: "Subject", options: ViewOptions, shows: bool) -> object:
    from elman.apps.cli.inspect_view import show_trace, show_units
    from elman.checkpoints.atomic_files import writing_atomically
    from elman.recipes.inspecting.tracing import chosen_units, traced, write_csv

    layer = subject.layer(options.layer)
    units = chosen_units(subject, layer, options.unit or ())
    if options.csv is not None:
        with writing_atomically(options.csv) as table:
            write_csv(traced(subject, layer, units, options.top), subject, table)
        say(f"trace written to {options.csv}")
    rows = list(traced(subject, layer, units, options.top))
    if shows:
        show_trace(subject, rows)
        if options.unit:
            show_units(layer, rows)
    steps = [] if shows else [row.to_json(subject) for row in rows]
    return {"layer": layer + 1, "steps": steps}


def _gates(subject: "Subject", options: ViewOptions, shows: bool) -> object:
    from elman.apps.cli.inspect_view import show_gates
    from elman.recipes.inspecting.gate_view import gates_over_text, gates_over_vocabulary

    over_text, over_vocabulary = gates_over_text(subject), gates_over_vocabulary(subject)
    if shows:
        show_gates(over_text, over_vocabulary)
    return {
        "text": [layer.to_json() for layer in over_text],
        "vocabulary": [layer.to_json() for layer in over_vocabulary],
    }


def _gradients(subject: "Subject", options: ViewOptions, shows: bool) -> object:
    from elman.apps.cli.inspect_view import show_gradients
    from elman.recipes.inspecting.gradient_view import gradient_view

    layer = subject.layer(options.layer)
    view = gradient_view(subject, layer, options.scalar)
    if shows:
        show_gradients(subject, layer, view)
    return view.to_json()


def _horizon(subject: "Subject", options: ViewOptions, shows: bool) -> object:
    from elman.apps.cli.inspect_view import show_horizon
    from elman.recipes.inspecting.horizon_view import horizon_view

    view = horizon_view(subject, num_positions=options.positions, on_stage=say)
    if shows:
        show_horizon(view)
    return view.to_json()


def _memory(subject: "Subject", options: ViewOptions, shows: bool) -> object:
    from elman.apps.cli.inspect_view import show_memory
    from elman.recipes.inspecting.horizon_view import memory_view

    probes = memory_view(subject)
    if shows:
        show_memory(probes)
    return [probe._asdict() for probe in probes]


_VIEWS: Mapping[str, Callable[["Subject", ViewOptions, bool], object]] = MappingProxyType(
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
