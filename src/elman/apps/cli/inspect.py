"""`elman inspect`: what a trained run does inside, on a text of one's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from elman.apps.cli.inspect_fitting import require_only, require_places, require_use
from elman.apps.cli.inspect_options import FileEncoding, ViewOptions
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
    encoding: FileEncoding = None,
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
    source = _Source(text, file, encoding)
    others: Mapping[str, object] = {
        "--file": file,
        "--encoding": encoding,
        "--compare": compare,
        "--unknown": unknown,
        "--html": html,
    }
    require_use(options, others)
    if run.is_file():
        return _exactly(run, text, options, others, as_json=json)
    require_places(options, html)
    tell_stopped([run])
    given = {**options.given, **others}
    if options.since is not None:
        return _since(run, options.since, source, given, as_json=json)
    task = _fitting_task(run, options, given)
    whole = source.read(run)
    if task == "translate":
        from elman.apps.cli.inspect_attention import inspect_attention

        return inspect_attention(run, whole, options, as_json=json)
    if compare is not None:
        from elman.apps.cli.inspect_compare import inspect_two_texts

        return inspect_two_texts(run, (whole, compare), options, unknown, as_json=json)
    return _show(run, whole, options, html, unknown, as_json=json)


class _Source(NamedTuple):
    """Where the text stands."""

    text: str | None
    file: str | None
    encoding: str | None

    def read(self, run: Path) -> str:
        """Return the text given, or that of the file; raises `SettingError` for both and none."""
        if (self.text is None) == (self.file is None):
            raise SettingError(
                "elman inspect reads one text",
                got="a text and --file" if self.text is not None else "none",
                allowed="elman inspect RUN TEXT, or --file FILE",
            )
        if self.text is not None:
            return self.text
        assert self.file is not None
        from elman.recipes.inspecting.subject import text_of_file

        return text_of_file(self.file, run, self.encoding)


def _fitting_task(run: Path, options: ViewOptions, given: Mapping[str, object]) -> str:
    """Return the task of the run. Raises `SettingError` for what has no meaning for it."""
    from elman.recipes.trained import task_of

    task = task_of(run)
    if given["--compare"] is not None:
        _require_comparable(task, given)
    options.require_task(task)
    if task == "translate":
        require_only(
            "of a run that writes sequences its attention is shown",
            given,
            ("--show", "--file", "--encoding", "--picture"),
            allowed="elman inspect RUN TEXT, with --picture and --json",
        )
    elif task != "lm":
        _require_language_model(task, {"--html": given["--html"]})
    return task


def _show(
    run: Path,
    text: str,
    options: ViewOptions,
    html: Path | None,
    unknown: "UnknownPolicy | None",
    *,
    as_json: bool,
) -> int:
    from elman.apps.cli.inspect_by_view import require_page, require_views
    from elman.recipes.inspecting.opening import open_subject

    subject = open_subject(run, text, unknown=unknown)
    # What cannot be shown is told before anything is.
    require_views(subject, options)
    if html is not None:
        require_page(subject)
    _show_views(subject, options, as_json=as_json)
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
    from elman.apps.cli.inspect_by_view import show_view

    for notice in subject.notices:
        say(f"note: {notice}")
    told: dict[str, object] = {
        "run": str(subject.path),
        "tokens": list(subject.shown),
        "unknown": subject.unknown_json(),
    }
    answer = subject.answer_json()
    if answer:
        told["answer"] = answer
    plots = list["Plot"]()
    for view in options.views:
        shown = show_view(view, subject, options, shows=not as_json)
        told[view] = shown.told
        plots += shown.plots
    if options.picture is not None:
        from elman.recipes.panels import draw_panels

        draw_panels(options.picture, plots)
        say(f"picture written to {options.picture}")
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


def _require_comparable(task: str, given: Mapping[str, object]) -> None:
    """Raise `SettingError` for what two texts cannot be shown with."""
    if task != "lm":
        _require_language_model(task, {"--compare": given["--compare"]})
    kept = ("--compare", "--file", "--encoding", "--unknown", "--csv", "--picture")
    what = "--compare shows the states of two texts alone"
    require_only(what, given, kept, allowed="--csv, --picture, --json and --unknown beside it")


def _write_page(subject: "Subject", options: ViewOptions, path: Path) -> None:
    from elman.atomic_files import write_atomically
    from elman.recipes.inspecting.gate_view import gates_over_text
    from elman.recipes.inspecting.gradient_view import gradient_view
    from elman.recipes.inspecting.language_subject import LanguageSubject
    from elman.recipes.inspecting.page_data import page

    assert isinstance(subject, LanguageSubject)
    layer = subject.layer(options.layer)
    gradients = gradient_view(subject, layer, options.scalar_asked)
    gates = gates_over_text(subject)
    whole, shown = page(subject, gates, gradients, layer, top=options.num_top)
    write_atomically(path, whole.encode())
    left = len(subject.ids_N) - shown
    rest = f", which shows the first {shown:,} tokens of {len(subject.ids_N):,}" if left else ""
    say(f"page written to {path}{rest}")


def _since(
    run: Path, before: Path, source: _Source, given: Mapping[str, object], *, as_json: bool
) -> int:
    from elman.apps.cli.inspect_by_view import changes_json
    from elman.apps.cli.inspect_view import show_changes
    from elman.recipes.inspecting.change_view import changes_between

    if source.text is not None or source.file is not None:
        raise SettingError("--since compares weights and reads no text", got="a text")
    shown = given.get("--show")
    kept = ("--since", "--show") if shown == ["change"] else ("--since",)
    what = "--since compares weights alone"
    require_only(what, given, kept, allowed="elman inspect RUN --since RUN, with --json")
    changes = changes_between(before, run)
    if as_json:
        print_json({"run": str(run), "since": str(before), "change": changes_json(changes)})
    else:
        show_changes(changes)
    return 0
