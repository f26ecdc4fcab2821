"""A training run as a person sees it: what was read, progress, how it ended, what to do next."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from elman.apps.cli.interrupts import EXIT_INTERRUPTED, polite_interrupts
from elman.apps.cli.options import duration_text
from elman.apps.cli.output import error_console, print_json, program, say, score_table
from elman.apps.cli.progress import TrainingProgress
from elman.errors import DataError, SettingError
from elman.evaluation.units import nats_to_bits
from elman.recipes.language_model import (
    LanguageModelRun,
    TrainReport,
    TrainRequest,
    resume_run,
    start_run,
    train_run,
)
from elman.text.reading import read_text
from elman.training.events import TrainingEvent, UpdateEvent, ValidationEvent

TITLES = MappingProxyType({"valid": "held out, for choosing", "test": "held out, never used"})


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


def run_training(invocation: Invocation, *, resume: bool, as_json: bool) -> int:
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
        run = resume_run(invocation.out)
        say(f"going on after update {run.trainer.update:,} of {run.trainer.total_updates:,}")
    else:
        if not invocation.files["train"] and invocation.config is None:
            raise DataError("there is nothing to learn from", hint="name a text with --data FILE")
        run = start_run(invocation.request())
    describe(run)
    try:
        report = train_with_progress(run)
    except KeyboardInterrupt:
        say(
            "interrupted; the training is complete and saved. "
            f"Score it with: {program()} train lm --out {invocation.out} --resume"
        )
        return EXIT_INTERRUPTED
    if report.fit.reason == "interrupted":
        say(
            f"interrupted; saved after update {report.fit.updates:,}. "
            f"Go on with: {program()} train lm --out {report.path} --resume"
        )
        return EXIT_INTERRUPTED
    if as_json:
        print_json(report.to_json())
    tell_result(report)
    say(f"next: {program()} generate {report.path}")
    return 0


def describe(run: LanguageModelRun) -> None:
    """Tell what was read and what will be trained, with every notice."""
    prepared, settings = run.prepared, run.settings
    train = prepared.parts["train"]
    held = ", ".join(
        f"{part.num_tokens:,} {name}" for name, part in prepared.parts.items() if name != "train"
    )
    say(
        f"text:  {train.characters:,} characters, {train.num_tokens:,} {settings.text.level} tokens"
    )
    say(f"       held out: {held or 'none'}; vocabulary: {len(prepared.tokenizer.vocabulary):,}")
    facts = run.trainer.model.describe()
    threads = settings.training.threads
    say(f"model: {facts['cell']}, {facts['layers']}, {int(facts['parameters']):,} parameters")
    say(
        f"       {run.trainer.total_updates:,} update{_s(run.trainer.total_updates)}, "
        f"{threads} thread{_s(threads)}, {settings.training.precision}"
    )
    for notice in (*prepared.notices, *run.notices):
        say(f"note: {notice}")


def train_with_progress(run: LanguageModelRun) -> TrainReport:
    """Train `run` under a progress bar; Ctrl-C saves and stops."""
    progress = TrainingProgress(error_console(), run.trainer.total_updates)
    valid = run.prepared.parts.get("valid")

    def observe(event: TrainingEvent) -> None:
        if isinstance(event, UpdateEvent):
            progress.updated(event.update, event.num_tokens, event.smoothed_nats or float("nan"))
        elif isinstance(event, ValidationEvent) and valid is not None:
            bits = nats_to_bits(event.loss_nats) / max(valid.characters, 1)
            progress.validated(event.update, bits, best=event.best)

    with ExitStack() as polite, progress.shown():
        asked = polite.enter_context(polite_interrupts(lambda: say("stopping after this update …")))

        def before_scoring() -> None:
            progress.training_done()
            polite.close()  # all is saved: from here on Ctrl-C stops at once

        return train_run(run, on_event=observe, should_stop=asked, before_scoring=before_scoring)


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
        say(f"note: {fit.overfitting} The weights kept are those of the best validation.")
    if report.scores:
        error_console().print(
            score_table({TITLES[name]: score for name, score in report.scores.items()})
        )
    say(f"run: {report.path}")


def _toml_list(names: tuple[str, ...]) -> str:
    """Return names as a TOML array of literal or escaped strings."""
    import json

    return json.dumps(list(names), ensure_ascii=False).replace("\x7f", "\\u007f")


def _s(count: int) -> str:
    return "" if count == 1 else "s"
