"""What each view of `elman inspect` finds of a text: shown to a person, told as JSON, drawn."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from elman.apps.cli.inspect_options import View, ViewOptions
from elman.apps.cli.output import say

if TYPE_CHECKING:
    from elman.inspection.changes import ParameterChange
    from elman.recipes.inspecting.answering import AnsweringSubject
    from elman.recipes.inspecting.language_subject import LanguageSubject
    from elman.recipes.inspecting.subject import Subject
    from elman.recipes.panels import Plot


class Shown(NamedTuple):
    """What a view has found, as JSON can hold it, and how it is drawn; (): not at all."""

    told: object
    plots: "Sequence[Plot]" = ()


def show_view(view: View, subject: "Subject", options: ViewOptions, *, shows: bool) -> Shown:
    """Return what the view finds, and show it to a person where `shows`.

    The view must be one of those of the subject's task.
    """
    return _VIEWS[view](subject, options, shows)


def require_views(subject: "Subject", options: ViewOptions) -> None:
    """Raise for all that the views asked for cannot be shown of, before any of them is.

    Raises `SettingError` for a layer, a unit or a step that is not there, `DataError` for a text
    too short, `RunError` for attention that the run does not have.
    """
    from elman.recipes.inspecting.answering import AnsweringSubject
    from elman.recipes.inspecting.classifier_subject import ClassifierSubject
    from elman.recipes.inspecting.language_subject import LanguageSubject
    from elman.recipes.inspecting.pooling_view import require_attention
    from elman.recipes.inspecting.tracing import require_units

    require_units(subject, subject.layer(options.layer), options.unit or ())
    if isinstance(subject, AnsweringSubject) and options.at is not None:
        subject.answer_at(options.at - 1)
    if isinstance(subject, ClassifierSubject) and "attention" in options.views:
        require_attention(subject)
    if isinstance(subject, LanguageSubject):
        for view in options.views:
            _require_text(view, subject)


def require_page(subject: "Subject") -> None:
    """Raise `DataError` for a text of which no page can be written."""
    from elman.recipes.inspecting.gradient_view import require_gradients
    from elman.recipes.inspecting.language_subject import LanguageSubject

    assert isinstance(subject, LanguageSubject)
    subject.require_one_line("--html")
    require_gradients(subject)


def _require_text(view: View, subject: "LanguageSubject") -> None:
    from elman.recipes.inspecting.gradient_view import require_gradients
    from elman.recipes.inspecting.horizon_view import require_horizon, require_memory

    if view == "trace":
        subject.require_one_line("a trace")
    elif view == "gradients":
        require_gradients(subject)
    elif view == "horizon":
        require_horizon(subject)
    elif view == "memory":
        require_memory(subject)


def changes_json(changes: "Sequence[ParameterChange]") -> list[dict[str, object]]:
    """Return what JSON can hold of the change of each parameter."""
    return [change._asdict() | {"relative": change.relative} for change in changes]


def _change(subject: "Subject", options: ViewOptions, shows: bool) -> Shown:
    from elman.apps.cli.inspect_view import show_changes
    from elman.recipes.inspecting.change_view import changes_by_reading

    changes = changes_by_reading(subject)
    if shows:
        show_changes(changes)
    return Shown(changes_json(changes))


def _trace(subject: "Subject", options: ViewOptions, shows: bool) -> Shown:
    from elman.apps.cli.inspect_trace import show_trace, show_units
    from elman.atomic_files import writing_atomically
    from elman.recipes.inspecting.pictures import trace_plots
    from elman.recipes.inspecting.tracing import chosen_units, traced, write_csv

    layer = subject.layer(options.layer)
    units = chosen_units(subject, layer, options.unit or ())
    rows = list(traced(subject, units, options.num_top))
    if options.csv is not None:
        with writing_atomically(options.csv) as table:
            write_csv(rows, table)
        say(f"trace written to {options.csv}")
    if shows:
        show_trace(subject, rows)
        if options.unit:
            show_units(subject, layer, rows)
    steps = [] if shows else [row.to_json() for row in rows]
    return Shown({"layer": layer + 1, "steps": steps}, trace_plots(subject, rows, layer))


def _gates(subject: "Subject", options: ViewOptions, shows: bool) -> Shown:
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
    return Shown(told, [gates_plot(over_text)])


def _gradients(subject: "Subject", options: ViewOptions, shows: bool) -> Shown:
    from elman.recipes.inspecting.answering import AnsweringSubject
    from elman.recipes.inspecting.language_subject import LanguageSubject

    if isinstance(subject, AnsweringSubject):
        return _answer_gradients(subject, options, shows)
    from elman.apps.cli.inspect_view import show_gradients
    from elman.recipes.inspecting.gradient_view import gradient_view
    from elman.recipes.inspecting.pictures import gradients_plot

    assert isinstance(subject, LanguageSubject)
    layer = subject.layer(options.layer)
    view = gradient_view(subject, layer, options.scalar_asked)
    if shows:
        show_gradients(subject, layer, view)
    return Shown(view.to_json(), [gradients_plot(view, layer)])


def _answer_gradients(subject: "AnsweringSubject", options: ViewOptions, shows: bool) -> Shown:
    from elman.apps.cli.inspect_trace import show_answer_gradients
    from elman.recipes.inspecting.answer_gradients import answer_gradients
    from elman.recipes.inspecting.pictures import answer_gradients_plot

    layer = subject.layer(options.layer)
    at = None if options.at is None else options.at - 1
    view = answer_gradients(subject, layer, options.scalar_asked, at)
    if shows:
        show_answer_gradients(subject, view, layer)
    told = {"layer": layer + 1, **view.to_json()}
    return Shown(told, [answer_gradients_plot(view, subject.shown, layer)])


def _attention(subject: "Subject", options: ViewOptions, shows: bool) -> Shown:
    from elman.apps.cli.inspect_trace import show_pooling
    from elman.recipes.inspecting.classifier_subject import ClassifierSubject
    from elman.recipes.inspecting.pictures import pooling_plot
    from elman.recipes.inspecting.pooling_view import pooling_view

    assert isinstance(subject, ClassifierSubject)
    view = pooling_view(subject)
    if shows:
        show_pooling(subject, view)
    return Shown(view.to_json(), [pooling_plot(view)])


def _horizon(subject: "Subject", options: ViewOptions, shows: bool) -> Shown:
    from elman.apps.cli.inspect_view import show_horizon
    from elman.recipes.inspecting.horizon_view import horizon_view
    from elman.recipes.inspecting.language_subject import LanguageSubject
    from elman.recipes.inspecting.pictures import horizon_plot

    assert isinstance(subject, LanguageSubject)
    view = horizon_view(subject, num_positions=options.num_positions, on_stage=say)
    if shows:
        show_horizon(view)
    return Shown(view.to_json(), [horizon_plot(view)])


def _memory(subject: "Subject", options: ViewOptions, shows: bool) -> Shown:
    from elman.apps.cli.inspect_view import show_memory
    from elman.recipes.inspecting.horizon_view import memory_view
    from elman.recipes.inspecting.language_subject import LanguageSubject
    from elman.recipes.inspecting.pictures import memory_plot

    assert isinstance(subject, LanguageSubject)
    probes = memory_view(subject)
    if shows:
        show_memory(probes)
    return Shown([probe._asdict() for probe in probes], [memory_plot(probes)])


_VIEWS: Mapping[View, Callable[["Subject", ViewOptions, bool], Shown]] = MappingProxyType(
    {
        "trace": _trace,
        "gates": _gates,
        "gradients": _gradients,
        "horizon": _horizon,
        "memory": _memory,
        "attention": _attention,
        "change": _change,
    }
)
