"""A training run as a person sees it: what was read, progress, how it ended, what to do next.

It is the same for every task; what differs is a `TrainingView`.
"""

import json
from contextlib import ExitStack

from elman.apps.cli.interrupts import EXIT_INTERRUPTED, polite_interrupts
from elman.apps.cli.options import duration_text
from elman.apps.cli.output import error_console, plural, print_json, program, say, tell_kernels
from elman.apps.cli.progress import Pace, TrainingProgress, stages
from elman.apps.cli.stopped import kept_of_start
from elman.apps.cli.train_options import Invocation
from elman.apps.cli.training_view import TrainingView
from elman.errors import DataError, ElmanError, SettingError
from elman.recipes.joining import (
    BEGUN,
    FINISHED,
    Team,
    joined_run,
    joined_team,
    require_fit_for,
    shared_run,
)
from elman.recipes.launching import require_one_process
from elman.recipes.learning import (
    Run,
    TrainReport,
    finished_report,
    resume_run,
    start_run,
    train_run,
)
from elman.recipes.task import BatchT, ModelT, PreparedT
from elman.recipes.training_request import TrainRequest
from elman.text.reading import read_text
from elman.training.events import TrainingEvent, UpdateEvent, ValidationEvent


def run_training(
    view: TrainingView[PreparedT, ModelT, BatchT],
    invocation: Invocation,
    request: TrainRequest | None = None,
    *,
    go_on: str = "",
) -> int:
    """Train or go on training, show it, and return the exit status.

    `request` is what is trained where that is not all that the options ask for. `go_on` is what to
    do after an interruption where that is not to resume this run alone.
    """
    if invocation.budget_seconds is not None:
        require_one_process("measures how much fits into a budget")
    with joined_team() as team:
        if team.rank:
            return _followed(view, invocation, team)
        task = view.task.base.model.task
        if team.goes_on(invocation.out, resume=invocation.resume):
            if invocation.resume:
                require_alone(invocation)
            finished = finished_report(view.task, invocation.out)
            if finished is not None:
                team.tell_begun(FINISHED)
                say("this run is finished: there is nothing left to do")
                return _shown(view, finished, as_json=invocation.as_json)
            run = resume_run(view.task, invocation.out)
            say(f"going on after update {run.trainer.update:,} of {run.trainer.total_updates:,}")
            require_fit_for(team, run)
        else:
            try:
                with stages(error_console()) as on_stage:
                    asked = train_request(invocation) if request is None else request
                    run = start_run(view.task, asked, on_stage=on_stage)
            except KeyboardInterrupt:
                kept = kept_of_start(invocation.out) or "nothing was kept"
                say(f"interrupted before training began; {kept}")
                return EXIT_INTERRUPTED
            except ElmanError:
                if kept := kept_of_start(invocation.out):
                    say(f"note: {kept}")
                raise
            _require_rows(run, team)
        team.tell_begun(BEGUN)
        run = shared_run(run, team.connected())
        describe(view, run)
        go_on = go_on or f"{program()} train {task} --out {invocation.out} --resume"
        return _trained(view, run, invocation, go_on)


def _trained(
    view: TrainingView[PreparedT, ModelT, BatchT],
    run: Run[PreparedT, ModelT, BatchT],
    invocation: Invocation,
    go_on: str,
) -> int:
    """Train what has begun, show how it ended, and return the exit status."""
    pace = None
    if invocation.budget_seconds is not None:
        deadline = invocation.started + invocation.budget_seconds
        pace = Pace(run.trainer.total_updates, invocation.started, deadline)
    try:
        report = train_with_progress(view, run, pace)
    except KeyboardInterrupt:
        say(f"{_kept_at_once(run)}: {go_on}")
        return EXIT_INTERRUPTED
    if invocation.verbose:
        tell_kernels(run.trainer.plan.record())
    if report.fit.reason == "interrupted":
        say(f"interrupted; saved after update {report.fit.updates:,}. Go on with: {go_on}")
        return EXIT_INTERRUPTED
    return _shown(view, report, as_json=invocation.as_json)


def _followed(
    view: TrainingView[PreparedT, ModelT, BatchT], invocation: Invocation, team: Team
) -> int:
    """Take part in the run that the first process leads, which alone tells of it."""
    if team.wait_until_begun() != BEGUN:
        return 0
    run = joined_run(view.task, team, invocation.out, team.connected())
    with polite_interrupts(lambda: None, repeats=True) as asked:
        report = train_run(run, should_stop=asked)
    return EXIT_INTERRUPTED if report.fit.reason == "interrupted" else 0


def _require_rows(run: Run[PreparedT, ModelT, BatchT], team: Team) -> None:
    """Raise `SettingError`, and take the new run away, where processes would have no rows."""
    try:
        require_fit_for(team, run)
    except SettingError:
        with run.lock:
            run.folder.discard()
        raise


def describe(
    view: TrainingView[PreparedT, ModelT, BatchT], run: Run[PreparedT, ModelT, BatchT]
) -> None:
    """Tell what was read and what will be trained, with every notice."""
    view.tell_data(run)
    facts, settings, updates = run.trainer.model.describe(), run.settings, run.trainer.total_updates
    threads, processes = settings.training.threads, run.trainer.processes.size
    say(f"model: {facts['cell']}, {facts['layers']}, {int(facts['parameters']):,} parameters")
    say(
        f"       {updates:,} update{plural(updates)}, "
        f"{threads} thread{plural(threads)}"
        f"{f' in each of {processes} processes' if processes > 1 else ''}, "
        f"{settings.training.precision}"
    )
    for notice in (*run.prepared.notices, *run.notices):
        say(f"note: {notice}")


def train_with_progress(
    view: TrainingView[PreparedT, ModelT, BatchT],
    run: Run[PreparedT, ModelT, BatchT],
    pace: Pace | None = None,
) -> TrainReport:
    """Train `run` under a progress bar; Ctrl-C saves and stops. `pace` tells when it falls behind.

    The exact scores of what is held out come at the end, under a bar of their own.
    """
    num_scored = view.num_scored(run.prepared)
    progress = TrainingProgress(
        error_console(),
        run.trainer.total_updates,
        num_scored=num_scored,
        pace=pace,
        unit=view.unit,
        scored_unit=view.scored_unit,
    )

    def observe(event: TrainingEvent) -> None:
        if isinstance(event, UpdateEvent):
            nats = event.smoothed_nats
            shown = "–" if nats is None else view.training_figure(nats, run)
            progress.updated(event.update, event.num_tokens, shown)
        elif isinstance(event, ValidationEvent):
            figure = view.validation_figure(event, run)
            progress.validated(event.update, figure, best=event.best)

    with ExitStack() as scoring, ExitStack() as training:
        training.enter_context(progress.shown())
        asked = training.enter_context(
            polite_interrupts(
                lambda: progress.tell("stopping after this update …"),
                repeats=run.trainer.processes.size > 1,
            )
        )

        def before_scoring() -> None:
            training.close()  # all is saved: from here on Ctrl-C stops at once
            if num_scored:
                scoring.enter_context(progress.scoring())

        return train_run(
            run,
            on_event=observe,
            should_stop=asked,
            before_scoring=before_scoring,
            on_scored=progress.scored,
        )


def require_alone(invocation: Invocation) -> None:
    """Raise `SettingError` where --resume comes with options that the run has had already."""
    if (
        any(invocation.files.values())
        or invocation.overrides
        or invocation.budget_seconds
        or invocation.config
        or invocation.preset
    ):
        raise SettingError(
            "--resume goes on with the settings and data of the run",
            got="other options beside --out and --resume",
            allowed="--out RUN --resume",
        )


def train_request(invocation: Invocation) -> TrainRequest:
    """Return what the options ask for.

    Raises `DataError` where nothing says what to learn from, and no run is gone on with.
    """
    if not invocation.resume and not invocation.files["train"] and invocation.config is None:
        raise DataError("there is nothing to learn from", hint="name a file with --data FILE")
    overrides = list(invocation.overrides)
    for name, files in invocation.files.items():
        if files:
            overrides.append(f"data.{name}={_toml_list(files)}")
    config = invocation.config
    return TrainRequest(
        out=invocation.out,
        config_text="" if config is None else read_text([config], encoding="utf-8")[0],
        config_name=str(config),
        overrides=tuple(overrides),
        preset=invocation.preset,
        budget_seconds=invocation.budget_seconds,
        started=invocation.started,
    )


def _kept_at_once(run: Run[PreparedT, ModelT, BatchT]) -> str:
    """Return what a run that was stopped without a word has kept, and what the command does."""
    saved, total = run.folder.saved_update() or 0, run.trainer.total_updates
    if saved >= total:
        return "interrupted; the training is complete and saved. Score it with"
    return f"stopped at once; kept: the state after update {saved:,} of {total:,}. Go on with"


def _shown(
    view: TrainingView[PreparedT, ModelT, BatchT], report: TrainReport, *, as_json: bool
) -> int:
    if as_json:
        print_json(report.to_json())
    _tell_result(view, report)
    say(f"next: {program()} {view.next_step(str(report.path))}")
    return 0


def _tell_result(view: TrainingView[PreparedT, ModelT, BatchT], report: TrainReport) -> None:
    """Tell how training ended and the exact figures of what was held out."""
    fit = report.fit
    kept = "the last weights"
    if fit.best_update is not None:
        kept = f"the weights of the best validation, after update {fit.best_update:,}"
    ended = {"finished": "finished", "stopped_early": "stopped early: no better validation"}
    say(
        f"{ended[fit.reason]} after {fit.updates:,} update{plural(fit.updates)} in "
        f"{duration_text(fit.elapsed_seconds)}; kept: {kept}"
    )
    if fit.nonfinite_steps:
        was = "was" if fit.nonfinite_steps == 1 else "were"
        say(
            f"note: {fit.nonfinite_steps:,} update{plural(fit.nonfinite_steps)} {was} skipped: the "
            "gradient was not finite"
        )
    if fit.overfitting:
        say(
            f"note: {fit.overfitting} The weights kept are those of the best validation; "
            "--set training.patience=5 stops sooner."
        )
    if report.scores:
        view.tell_scores(report.scores)
    say(f"run: {report.path}")


def _toml_list(names: tuple[str, ...]) -> str:
    """Return names as a TOML array of literal or escaped strings."""
    return json.dumps(list(names), ensure_ascii=False).replace("\x7f", "\\u007f")
