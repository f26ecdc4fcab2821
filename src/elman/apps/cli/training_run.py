"""A training run as a person sees it: what was read, progress, how it ended, what to do next."""

import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from elman.apps.cli.interrupts import EXIT_INTERRUPTED, polite_interrupts
from elman.apps.cli.options import duration_text
from elman.apps.cli.output import error_console, print_json, program, say, score_table, tell_kernels
from elman.apps.cli.progress import Pace, TrainingProgress, stages
from elman.config.settings import Level
from elman.errors import DataError, SettingError
from elman.evaluation.units import nats_to_bits
from elman.recipes.language_model import (
    LanguageModelRun,
    TrainReport,
    TrainRequest,
    finished_report,
    resume_run,
    start_run,
    train_run,
)
from elman.recipes.preparing import Part
from elman.text.reading import read_text
from elman.training.events import TrainingEvent, UpdateEvent, ValidationEvent

TITLES = MappingProxyType({"valid": "held out, for choosing", "test": "held out, never used"})

MOST_NAMES = 4
"""Names of files told; of more than these the number is told."""

MOST_NATS = 20.0
"""A loss above this is told as a power: its perplexity is a number that nobody reads."""


@dataclass(frozen=True)
class Invocation:
    """The options of `elman train lm`, as they were given."""

    out: Path
    files: dict[str, tuple[str, ...]]
    config: Path | None
    overrides: tuple[str, ...]
    budget_seconds: float | None
    started: float

    def request(self) -> TrainRequest:
        """Return what the options ask for."""
        overrides = list(self.overrides)
        for name, files in self.files.items():
            if files:
                overrides.append(f"data.{name}={_toml_list(files)}")
        text = "" if self.config is None else read_text([self.config], encoding="utf-8")[0]
        return TrainRequest(
            out=self.out,
            config_text=text,
            config_name=str(self.config),
            overrides=tuple(overrides),
            budget_seconds=self.budget_seconds,
            started=self.started,
        )


def run_training(
    invocation: Invocation, *, resume: bool, as_json: bool, verbose: bool = False
) -> int:
    """Train or go on training, show it, and return the exit status."""
    if resume:
        if (
            any(invocation.files.values())
            or invocation.overrides
            or invocation.budget_seconds
            or invocation.config
        ):
            raise SettingError(
                "--resume goes on with the settings and data of the run",
                got="other options beside --out and --resume",
                allowed="--out RUN --resume",
            )
        finished = finished_report(invocation.out)
        if finished is not None:
            say("this run is finished: there is nothing left to do")
            return _shown(finished, as_json=as_json)
        run = resume_run(invocation.out)
        say(f"going on after update {run.trainer.update:,} of {run.trainer.total_updates:,}")
    else:
        if not invocation.files["train"] and invocation.config is None:
            raise DataError("there is nothing to learn from", hint="name a text with --data FILE")
        try:
            with stages(error_console()) as on_stage:
                run = start_run(invocation.request(), on_stage=on_stage)
        except KeyboardInterrupt:
            say("interrupted before training began; nothing was kept")
            return EXIT_INTERRUPTED
    describe(run)
    pace = None
    if invocation.budget_seconds is not None:
        deadline = invocation.started + invocation.budget_seconds
        pace = Pace(run.trainer.total_updates, invocation.started, deadline)
    try:
        report = train_with_progress(run, pace)
    except KeyboardInterrupt:
        say(
            "interrupted; the training is complete and saved. "
            f"Score it with: {program()} train lm --out {invocation.out} --resume"
        )
        return EXIT_INTERRUPTED
    if verbose:
        tell_kernels(run.trainer.plan.record())
    if report.fit.reason == "interrupted":
        say(
            f"interrupted; saved after update {report.fit.updates:,}. "
            f"Go on with: {program()} train lm --out {report.path} --resume"
        )
        return EXIT_INTERRUPTED
    return _shown(report, as_json=as_json)


def _shown(report: TrainReport, *, as_json: bool) -> int:
    if as_json:
        print_json(report.to_json())
    tell_result(report)
    say(f"next: {program()} generate {report.path}")
    return 0


def describe(run: LanguageModelRun) -> None:
    """Tell what was read and what will be trained, with every notice."""
    prepared, settings = run.prepared, run.settings
    train = prepared.parts["train"]
    names = [report.name for report in prepared.reports]
    if len(names) > 1:
        more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        say(f"files: {', '.join(names[:MOST_NAMES])}{more}")
    lines = f" in {train.num_lines:,} lines, each with a stop mark" if train.num_lines else ""
    say(
        f"text:  {train.characters:,} characters to learn from, "
        f"{train.num_tokens:,} {settings.text.level} tokens{lines}"
    )
    held = ", ".join(
        f"{part.num_predicted:,} {name}{_unknown(part)}"
        for name, part in prepared.parts.items()
        if name != "train"
    )
    vocabulary = len(prepared.tokenizer.vocabulary)
    say(f"       held out: {held or 'none'}; vocabulary: {vocabulary:,}")
    facts = run.trainer.model.describe()
    threads = settings.training.threads
    say(f"model: {facts['cell']}, {facts['layers']}, {int(facts['parameters']):,} parameters")
    say(
        f"       {run.trainer.total_updates:,} update{_s(run.trainer.total_updates)}, "
        f"{threads} thread{_s(threads)}, {settings.training.precision}"
    )
    for notice in (*prepared.notices, *run.notices):
        say(f"note: {notice}")


def train_with_progress(run: LanguageModelRun, pace: Pace | None = None) -> TrainReport:
    """Train `run` under a progress bar; Ctrl-C saves and stops. `pace` tells when it falls behind.

    The exact scores of the held-out text come at the end, under a bar of their own.
    """
    num_scored = sum(
        part.num_predicted for name, part in run.prepared.parts.items() if name != "train"
    )
    progress = TrainingProgress(
        error_console(), run.trainer.total_updates, num_scored=num_scored, pace=pace
    )
    valid, settings = run.prepared.parts.get("valid"), run.settings

    def observe(event: TrainingEvent) -> None:
        if isinstance(event, UpdateEvent):
            nats = event.smoothed_nats
            shown = "–" if nats is None else level_figure(nats, settings.text.level)
            progress.updated(event.update, event.num_tokens, shown)
        elif isinstance(event, ValidationEvent) and valid is not None:
            figure = validation_figure(event, valid, settings.text.level)
            progress.validated(event.update, figure, best=event.best)

    with ExitStack() as scoring, ExitStack() as training:
        training.enter_context(progress.shown())
        asked = training.enter_context(
            polite_interrupts(lambda: progress.tell("stopping after this update …"))
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


def validation_figure(event: ValidationEvent, part: Part, level: Level) -> str:
    """Return the held-out figure to watch, with its unit."""
    unit = {"char": " bits/char", "byte": " bits/byte"}.get(level, " perplexity")
    size = part.characters if level == "char" else event.num_tokens
    return level_figure(event.loss_nats / max(size, 1), level) + unit


def level_figure(nats: float, level: Level) -> str:
    """Return nats per token as people compare them: perplexity of words, else bits."""
    if level in ("char", "byte"):
        return f"{nats_to_bits(nats):.3f}"
    return f"{math.exp(nats):,.1f}" if nats < MOST_NATS else f"e^{nats:.1f}"


def tell_result(report: TrainReport) -> None:
    """Tell how training ended and the exact figures of the held-out text."""
    fit = report.fit
    kept = "the last weights"
    if fit.best_update is not None:
        kept = f"the weights of the best validation, after update {fit.best_update:,}"
    ended = {"finished": "finished", "stopped_early": "stopped early: no better validation"}
    say(
        f"{ended[fit.reason]} after {fit.updates:,} update{_s(fit.updates)} in "
        f"{duration_text(fit.elapsed_seconds)}; kept: {kept}"
    )
    if fit.nonfinite_steps:
        say(f"note: {fit.nonfinite_steps:,} updates were skipped: their gradient was not finite")
    if fit.overfitting:
        say(
            f"note: {fit.overfitting} The weights kept are those of the best validation; "
            "--set training.patience=5 stops sooner."
        )
    if report.scores:
        ordered = {TITLES[name]: report.scores[name] for name in TITLES if name in report.scores}
        error_console().print(score_table(ordered))
        for title, score in ordered.items():
            if score.get("warning"):
                say(f"warning: {title}: {score['warning']}")
    say(f"run: {report.path}")


def _unknown(part: Part) -> str:
    if not part.unknown:
        return ""
    return f" ({100 * part.unknown / part.num_tokens:.2g} % unknown)"


def _toml_list(names: tuple[str, ...]) -> str:
    """Return names as a TOML array of literal or escaped strings."""
    import json

    return json.dumps(list(names), ensure_ascii=False).replace("\x7f", "\\u007f")


def _s(count: int) -> str:
    return "" if count == 1 else "s"
