"""A language model from a text, end to end: settings, text, model, training, scores, run folder."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from elman.checkpoints.manifest import Manifest
from elman.checkpoints.run_folder import CACHE, RunFolder
from elman.config.checks import check_settings
from elman.config.settings import DataSettings, Settings
from elman.config.toml_file import apply_overrides, settings_from_toml
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.class_splitting import order_readout, with_cutoffs
from elman.recipes.corpus import BUILT_IN_PREFIX
from elman.recipes.held_out import held_out_scores, training_source, validation_source
from elman.recipes.preparing import PreparedText, prepare_text, reopen_prepared
from elman.recipes.sizing import MOST_EPOCHS, notices_of_size, precision_of, suggested_settings
from elman.recipes.trained import require_same_text
from elman.seeding import generator
from elman.text.raw_files import is_standard_input
from elman.text.tokenizer_file import tokenizer_from_json
from elman.training.budget import updates_for_budget
from elman.training.events import TrainingEvent
from elman.training.fitting import FitReport, fit
from elman.training.loop import Trainer, planned_updates
from elman.training.trainer_state import TrainerState

FEWEST_UPDATES = 100
"""A budget that fits fewer updates is worth a word."""


@dataclass(frozen=True)
class TrainRequest:
    """What a person asked for. `config_text` is TOML; `overrides` come after it.

    `started` is the `time.monotonic` that `budget_seconds` counts from.
    """

    out: Path
    config_text: str = ""
    config_name: str = "the configuration"
    overrides: tuple[str, ...] = ()
    budget_seconds: float | None = None
    started: float = 0.0


@dataclass(frozen=True)
class LanguageModelRun:
    """A run ready to train, or to go on training."""

    folder: RunFolder
    settings: Settings
    prepared: PreparedText
    trainer: Trainer
    notices: tuple[str, ...]

    @property
    def cache(self) -> Path:
        """Where the token arrays lie."""
        return self.folder.path / CACHE


@dataclass(frozen=True)
class TrainReport:
    """How training ended, and the exact scores of the text held out, by part."""

    fit: FitReport
    scores: Mapping[str, Mapping[str, object]]
    path: Path

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {"run": str(self.path), "training": self.fit.to_json(), "scores": self.scores}


def start_run(
    request: TrainRequest, *, on_stage: Callable[[str], None] = lambda stage: None
) -> LanguageModelRun:
    """Make the run folder, prepare the text, build the model and fix the number of updates.

    `on_stage` is told what is being done before each thing that may take a while.

    Raises `ElmanError` for settings and files that cannot be used; a folder made for a run that
    could not begin is taken away again.
    """
    early = _settings(request, ())
    folder = RunFolder.create(request.out)
    cache = folder.path / CACHE
    try:
        cache.mkdir(exist_ok=True)
        on_stage("reading the text …")
        prepared = prepare_text(early, cache)
        settings = _settings(request, _suggestions(request, early, prepared))
        if request.budget_seconds is not None:
            on_stage("measuring how fast this machine is …")
        return _begin(request, folder, settings, prepared)
    except BaseException:
        shutil.rmtree(cache, ignore_errors=True)
        if not any(folder.path.iterdir()):
            folder.path.rmdir()
        raise


def finished_report(out: Path) -> TrainReport | None:
    """Return how the run at `out` ended, as its manifest tells; None where it has not ended."""
    folder = RunFolder.open(out, purpose="resume")
    results = folder.read_manifest().results
    training, scores = results.get("training"), results.get("scores")
    if not isinstance(training, dict) or not isinstance(scores, dict):
        return None
    try:
        report = TrainReport(FitReport(**training), scores, folder.path)
    except TypeError:
        return None
    RunFolder.open(out)  # raises where the weights that were kept are gone
    return report


def resume_run(out: Path) -> LanguageModelRun:
    """Return the interrupted run at `out`, at the update it was saved after.

    Raises `RunError` where it is not one, and where its data are no longer what they were.
    """
    folder = RunFolder.open(out, purpose="resume")
    settings = folder.settings
    torch.set_num_threads(settings.training.threads)
    manifest = folder.read_manifest()
    tokenizer = tokenizer_from_json(folder.tokenizer_json)
    require_same_text(settings.text, tokenizer, folder.path)
    prepared = reopen_prepared(settings, tokenizer, folder.path / CACHE, manifest.data)
    plan = KernelPlan.from_record(manifest.kernels)
    trainer, notices = _trainer(settings, prepared, plan, settings.training.updates)
    saved = folder.load_state()
    trainer.restore(TrainerState(saved.tensors, saved.facts))
    folder.keep_metrics_until(trainer.update)
    notices += plan.notices_beside(manifest.kernels)
    return LanguageModelRun(folder, settings, prepared, trainer, notices)


def train_run(
    run: LanguageModelRun,
    *,
    on_event: Callable[[TrainingEvent], None],
    should_stop: Callable[[], bool],
    before_scoring: Callable[[], None],
    on_scored: Callable[[int], None],
) -> TrainReport:
    """Train `run` to its end, or until `should_stop`; then score the best weights exactly.

    An interrupted run is saved and not scored. `on_scored` is told how many tokens of the held-out
    text have been scored, again and again.
    """
    folder, trainer = run.folder, run.trainer

    def observe(event: TrainingEvent) -> None:
        folder.append_metrics(event.to_json())
        on_event(event)

    def save(state: TrainerState, best: bool) -> None:
        if best:
            folder.save_weights(trainer.model, update=trainer.update)
        folder.save_state(state.tensors, state.facts)

    report = fit(
        trainer,
        validate=validation_source(run.settings, run.prepared, trainer),
        save=save,
        on_event=observe,
        should_stop=should_stop,
    )
    if report.reason == "interrupted":
        return TrainReport(report, {}, folder.path)
    if report.best_update is None:  # no validation was finite, or there is nothing to choose by
        with trainer.kept_weights():
            folder.save_weights(trainer.model, update=trainer.update)
    before_scoring()
    folder.load_weights(trainer.model)
    scores: dict[str, Mapping[str, object]] = {
        name: score.to_json()
        for name, score in held_out_scores(
            trainer.model, run.settings, run.prepared, trainer.plan, on_scored
        ).items()
    }
    _write_manifest(run, {"training": report.to_json(), "scores": scores})
    shutil.rmtree(run.cache, ignore_errors=True)
    return TrainReport(report, scores, folder.path)


def _suggestions(request: TrainRequest, early: Settings, prepared: PreparedText) -> tuple[str, ...]:
    """Return sizes that fit the text; none beneath a settings file, which means what it says."""
    with_budget = request.budget_seconds is not None
    if not request.config_text:
        return suggested_settings(
            early, prepared.parts["train"].num_tokens, with_budget=with_budget
        )
    given = early.training.epochs or early.training.updates or with_budget
    return () if given else ("training.epochs=10",)


def _settings(request: TrainRequest, suggestions: tuple[str, ...]) -> Settings:
    """Return defaults, then suggestions, then the file, then the overrides; checked."""
    settings = apply_overrides(Settings(), suggestions)
    settings = settings_from_toml(request.config_text, name=request.config_name, base=settings)
    settings = apply_overrides(settings, request.overrides)
    check_settings(settings)
    return replace(settings, data=_lasting_names(settings.data))


def _lasting_names(data: DataSettings) -> DataSettings:
    """Return `data` with names that mean the same from any folder, so that a run can be resumed."""

    def lasting(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            name
            if is_standard_input(name) or name.startswith(BUILT_IN_PREFIX)
            else str(Path(name).absolute())
            for name in names
        )

    return replace(
        data, train=lasting(data.train), valid=lasting(data.valid), test=lasting(data.test)
    )


def _begin(
    request: TrainRequest, folder: RunFolder, settings: Settings, prepared: PreparedText
) -> LanguageModelRun:
    settings = with_cutoffs(settings, prepared)
    precision = precision_of(settings)
    if settings.training.threads:
        torch.set_num_threads(settings.training.threads)
    training = replace(settings.training, precision=precision, threads=torch.get_num_threads())
    settings = replace(settings, training=training)
    plan = KernelPlan(training.kernels, precision)
    notices = notices_of_size(prepared.parts["train"].num_tokens)
    if request.budget_seconds is not None:
        settings, more = _fit_budget(request, settings, prepared, plan)
        notices += more
    elif not settings.training.updates:
        source, _ = training_source(settings, prepared)
        updates = planned_updates(settings.training, source)
        settings = _with_updates(settings, updates)
    trainer, more = _trainer(settings, prepared, plan, settings.training.updates)
    folder.begin(settings, prepared.tokenizer.to_json())
    run = LanguageModelRun(folder, settings, prepared, trainer, (*notices, *more))
    _write_manifest(run, {})
    state = trainer.state()
    folder.save_state(state.tensors, state.facts)
    return run


def _with_updates(settings: Settings, updates: int) -> Settings:
    """Return `settings` with the length of the run fixed as a number of updates."""
    return replace(settings, training=replace(settings.training, updates=updates, epochs=0))


def _trainer(
    settings: Settings, prepared: PreparedText, plan: KernelPlan, updates: int
) -> tuple[Trainer, tuple[str, ...]]:
    source, notices = training_source(settings, prepared)
    try:
        model = RecurrentLanguageModel(
            settings.model,
            len(prepared.tokenizer.vocabulary),
            generator(settings.training.seed, "initialisation"),
        )
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error):
            raise
        raise SettingError(
            "the model does not fit into memory",
            got=f"model.hidden_size = {settings.model.hidden_size} and "
            f"{len(prepared.tokenizer.vocabulary):,} symbols",
            hint="choose smaller sizes",
        ) from None
    order_readout(model, prepared)
    return Trainer(model, source, settings.training, plan, total_updates=updates), notices


def _fit_budget(
    request: TrainRequest, settings: Settings, prepared: PreparedText, plan: KernelPlan
) -> tuple[Settings, tuple[str, ...]]:
    """Measure this machine for a moment and fix the updates that fit into the time left."""
    assert request.budget_seconds is not None
    if settings.training.updates or settings.training.epochs:
        raise SettingError(
            "a budget and a number of updates or epochs both say when to stop",
            got=f"--budget with training.updates = {settings.training.updates} and "
            f"training.epochs = {settings.training.epochs}",
            allowed="one of them",
        )
    seconds_left = request.budget_seconds - (time.monotonic() - request.started)
    if seconds_left <= 0:
        raise SettingError(
            "the budget is spent before training begins",
            got=f"{request.budget_seconds:g} s",
            hint="give minutes, such as 2m: reading, measuring and scoring are a part of it",
        )
    trainer, _ = _trainer(settings, prepared, plan, 1)
    measured = updates_for_budget(
        trainer.model,
        trainer.source,
        settings.training,
        plan,
        seconds_left=seconds_left,
        validate=validation_source(settings, prepared, trainer),
    )
    if measured.updates < FEWEST_UPDATES:
        notice = (
            f"only {measured.updates} {'update fits' if measured.updates == 1 else 'updates fit'} "
            "into the budget, too few to learn much: "
            "give more time, or a smaller model.hidden_size"
        )
        return _with_updates(settings, measured.updates), (notice,)
    most = MOST_EPOCHS * trainer.updates_per_epoch
    if measured.updates <= most:
        return _with_updates(settings, measured.updates), ()
    notice = (
        f"the text is small: the budget would read it "
        f"{measured.updates // trainer.updates_per_epoch} times, {MOST_EPOCHS} are enough"
    )
    return _with_updates(settings, most), (notice,)


def _write_manifest(run: LanguageModelRun, results: dict[str, object]) -> None:
    tokenizer, model = run.prepared.tokenizer, run.trainer.model
    parts = run.prepared.parts
    run.folder.write_manifest(
        Manifest(
            sizes={
                "parameters": model.parameter_count(),
                "vocabulary": len(tokenizer.vocabulary),
                **{f"{name}_tokens": part.num_tokens for name, part in parts.items()},
            },
            data={
                "parts": {name: part.facts() for name, part in parts.items()},
                "files": [asdict(report) for report in run.prepared.reports],
            },
            vocabulary={"sha256": tokenizer.digest(), "notices": list(run.prepared.notices)},
            kernels=run.trainer.plan.record(),
            results={"model": model.describe(), **results},
        )
    )
