"""A model of any kind from data, end to end: settings, data, training, scores, run folder."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

import torch

from elman.checkpoints.manifest import Manifest
from elman.checkpoints.run_folder import CACHE, RunFolder
from elman.checkpoints.run_lock import RunLock
from elman.config.settings import Settings
from elman.errors import RunError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.models.learnt import LearntModel
from elman.processes import Processes
from elman.recipes.saving import keep_saved, require_room, saver
from elman.recipes.sizing import MOST_EPOCHS, notices_of_precision, precision_of
from elman.recipes.task import BatchT, ModelT, Prepared, PreparedT, Task
from elman.recipes.training_request import (
    TrainRequest,
    merged_settings,
    suggestions_beneath,
)
from elman.training.budget import updates_for_budget
from elman.training.events import TrainingEvent
from elman.training.fitting import FitReport, fit
from elman.training.loop import Trainer, planned_updates
from elman.training.trainer_state import TrainerState

FEWEST_UPDATES = 100
"""A budget that fits fewer updates is worth a word."""


@dataclass(frozen=True)
class Run(Generic[PreparedT, ModelT, BatchT]):
    """A run ready to train, or to go on training, in a folder that no other process writes in."""

    task: Task[PreparedT, ModelT, BatchT]
    folder: RunFolder
    lock: AbstractContextManager[object]
    settings: Settings
    prepared: PreparedT
    trainer: Trainer[ModelT, BatchT]
    notices: tuple[str, ...]

    @property
    def cache(self) -> Path:
        """Where the arrays lie."""
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
    task: Task[PreparedT, ModelT, BatchT],
    request: TrainRequest,
    *,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Run[PreparedT, ModelT, BatchT]:
    """Make the run folder, prepare the data, build the model and fix the number of updates.

    `on_stage` is told what is being done before each thing that may take a while.

    Raises `ElmanError` for settings and files that cannot be used; a folder made for a run that
    could not begin is taken away again.
    """
    early = merged_settings(task, request, ())
    with new_run_folder(request.out) as (folder, lock):
        cache = folder.path / CACHE
        cache.mkdir(exist_ok=True)
        on_stage("reading the data …")
        first = () if request.config_text else task.first_suggestions(early, cache)
        early = merged_settings(task, request, first)
        prepared = task.prepare(early, cache)
        more = suggestions_beneath(task, request, early, prepared)
        settings = merged_settings(task, request, (*first, *more))
        if request.budget_seconds is not None:
            on_stage("measuring how fast this machine is …")
        return _begin(task, request, folder, lock, settings, prepared)


@contextmanager
def new_run_folder(out: Path) -> Iterator[tuple[RunFolder, RunLock]]:
    """Give the folder of a new run under its lock; where the block fails, nothing of it is left."""
    lock = RunLock.take(out)
    try:
        folder = RunFolder.create(out)
        try:
            yield folder, lock
        except BaseException:
            folder.discard()
            raise
    except BaseException:
        lock.release()
        raise


def finished_report(task: Task[Any, Any, Any], out: Path) -> TrainReport | None:
    """Return how the run at `out` ended, as its manifest tells; None where it has not ended.

    Raises `RunError` where it is not a run of this task.
    """
    folder = RunFolder.open(out, purpose="resume")
    _require_task(task, folder.settings, out)
    results = folder.read_manifest().results
    training, scores = results.get("training"), results.get("scores")
    if not isinstance(training, dict) or not isinstance(scores, dict):
        return None
    try:
        report = TrainReport(FitReport(**training), scores, folder.path)
    except TypeError:
        return None
    RunFolder.open(out).tidy_finished()  # raises where the weights that were kept are gone
    return report


def resume_run(task: Task[PreparedT, ModelT, BatchT], out: Path) -> Run[PreparedT, ModelT, BatchT]:
    """Return the interrupted run at `out`, at the update it was saved after.

    Raises `RunError` where it is not one of this task, where its data are no longer what they were,
    and where another process trains it.
    """
    folder = RunFolder.open(out, purpose="resume")
    lock = RunLock.take(out)
    try:
        _require_task(task, folder.settings, out)
        folder.tidy()
        run = saved_run(task, folder, lock, folder.path / CACHE)
        require_room(folder, run.trainer)
        folder.keep_metrics_until(run.trainer.update)
        return run
    except BaseException:
        lock.release()
        raise


def saved_run(
    task: Task[PreparedT, ModelT, BatchT],
    folder: RunFolder,
    lock: AbstractContextManager[object],
    scratch: Path,
    processes: Processes | None = None,
) -> Run[PreparedT, ModelT, BatchT]:
    """Return the run in `folder` as it was saved last; nothing is written but arrays in `scratch`.

    Raises `RunError` where its data are no longer what they were.
    """
    settings = folder.settings
    if settings.training.threads:  # 0 where a person has put the choice back to elman
        torch.set_num_threads(settings.training.threads)
    manifest = folder.read_manifest()
    prepared = task.reopen(folder, manifest.data, scratch)
    plan = KernelPlan.from_record(manifest.kernels)
    trainer, notices = restored_trainer(task, folder, prepared, plan, processes)
    notices += plan.notices_beside(manifest.kernels)
    return Run(task, folder, lock, settings, prepared, trainer, notices)


def restored_trainer(
    task: Task[PreparedT, ModelT, BatchT],
    folder: RunFolder,
    prepared: PreparedT,
    plan: KernelPlan,
    processes: Processes | None = None,
) -> tuple[Trainer[ModelT, BatchT], tuple[str, ...]]:
    """Return a trainer at the state that `folder` has, and notices of sizes that were reduced."""
    settings = folder.settings
    updates = settings.training.updates
    trainer, notices = _trainer(task, settings, prepared, plan, updates, processes)
    saved = folder.load_state()
    trainer.restore(TrainerState(saved.tensors, saved.facts))
    return trainer, notices


def _require_task(task: Task[Any, Any, Any], settings: Settings, out: Path) -> None:
    if settings.model.task != task.base.model.task:
        raise RunError(
            f"the run {out} is of another task",
            got=f"model.task = {settings.model.task}",
            hint=f"go on with: elman train {settings.model.task} --out {out} --resume",
        )


def train_run(
    run: Run[PreparedT, ModelT, BatchT],
    *,
    on_event: Callable[[TrainingEvent], None] = lambda event: None,
    should_stop: Callable[[], bool] = bool,
    before_scoring: Callable[[], None] = lambda: None,
    on_scored: Callable[[int], None] = lambda count: None,
) -> TrainReport:
    """Train `run` to its end, or until `should_stop`; then score the best weights exactly.

    An interrupted run is saved and not scored. `on_scored` is told how many tokens of the held-out
    text have been scored, again and again. However it ends, others may have the folder after it.
    Of several processes the first alone writes and scores.
    """
    with run.lock:
        folder, trainer = run.folder, run.trainer
        processes = trainer.processes
        leads = processes.rank == 0

        def observe(event: TrainingEvent) -> None:
            if leads:
                folder.append_metrics(event.to_json())
            on_event(event)

        keep_saved(folder, trainer)
        report = fit(
            trainer,
            validate=run.task.validation(run.settings, run.prepared, trainer),
            save=saver(folder, trainer),
            on_event=observe,
            should_stop=lambda: processes.any_of(should_stop()),
        )
        if report.reason == "interrupted" or not leads:
            return TrainReport(report, {}, folder.path)
        if report.best_update is None:  # no validation was finite, or there is nothing to choose by
            with trainer.kept_weights():
                folder.save_weights(trainer.model, update=trainer.update)
        before_scoring()
        folder.load_weights(trainer.model)
        scores: dict[str, Mapping[str, object]] = {
            name: score.to_json()
            for name, score in run.task.scores(
                trainer.model, run.settings, run.prepared, trainer.plan, on_scored
            ).items()
        }
        _write_manifest(run, {"training": report.to_json(), "scores": scores})
        shutil.rmtree(run.cache, ignore_errors=True)
        return TrainReport(report, scores, folder.path)


def _begin(
    task: Task[PreparedT, ModelT, BatchT],
    request: TrainRequest,
    folder: RunFolder,
    lock: RunLock,
    settings: Settings,
    prepared: PreparedT,
) -> Run[PreparedT, ModelT, BatchT]:
    settings = task.chosen(settings, prepared)
    precision = precision_of(settings)
    if settings.training.threads:
        torch.set_num_threads(settings.training.threads)
    training = replace(settings.training, precision=precision, threads=torch.get_num_threads())
    settings = replace(settings, training=training)
    plan = KernelPlan(training.kernels, precision)
    notices = (*task.size_notices(prepared), *notices_of_precision(precision))
    if request.budget_seconds is not None:
        settings, more = _fit_budget(task, request, settings, prepared, plan)
        notices += more
    elif not settings.training.updates:
        source, _ = task.source(settings, prepared)
        updates = planned_updates(settings.training, source)
        settings = _with_updates(settings, updates)
    trainer, more = _trainer(task, settings, prepared, plan, settings.training.updates)
    require_room(folder, trainer)
    folder.begin(settings, prepared.vocabularies())
    run = Run(task, folder, lock, settings, prepared, trainer, (*notices, *more))
    _write_manifest(run, {})
    state = trainer.state()
    folder.save_state(state.tensors, state.facts)
    return run


def _with_updates(settings: Settings, updates: int) -> Settings:
    """Return `settings` with the length of the run fixed as a number of updates."""
    return replace(settings, training=replace(settings.training, updates=updates, epochs=0))


def _trainer(
    task: Task[PreparedT, ModelT, BatchT],
    settings: Settings,
    prepared: PreparedT,
    plan: KernelPlan,
    updates: int,
    processes: Processes | None = None,
) -> tuple[Trainer[ModelT, BatchT], tuple[str, ...]]:
    source, notices = task.source(settings, prepared)
    try:
        model = task.model(settings, prepared)
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error):
            raise
        sizes = ", ".join(f"{count:,} {name}" for name, count in prepared.sizes().items())
        raise SettingError(
            "the model does not fit into memory",
            got=f"model.hidden_size = {settings.model.hidden_size} and {sizes}",
            hint="choose smaller sizes",
        ) from None
    objective = task.objective(model, settings, prepared)
    trainer = Trainer(
        objective, source, settings.training, plan, total_updates=updates, processes=processes
    )
    return trainer, notices


def _fit_budget(
    task: Task[PreparedT, ModelT, BatchT],
    request: TrainRequest,
    settings: Settings,
    prepared: PreparedT,
    plan: KernelPlan,
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
    trainer, _ = _trainer(task, settings, prepared, plan, 1)
    measured = updates_for_budget(
        trainer.objective,
        trainer.source,
        settings.training,
        plan,
        seconds_left=seconds_left,
        validate=task.validation(settings, prepared, trainer),
    )
    training = replace(settings.training, evaluate_every=measured.evaluate_every)
    settings = replace(settings, training=training)
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
        f"the data are small: the budget would read it "
        f"{measured.updates // trainer.updates_per_epoch} times, {MOST_EPOCHS} are enough"
    )
    return _with_updates(settings, most), (notice,)


def _write_manifest(run: Run[PreparedT, ModelT, BatchT], results: dict[str, object]) -> None:
    kernels = run.trainer.plan.record()
    write_run_manifest(run.folder, run.prepared, run.trainer.model, kernels, results)


def write_run_manifest(
    folder: RunFolder,
    prepared: Prepared,
    model: LearntModel,
    kernels: Mapping[str, str],
    results: Mapping[str, object],
) -> None:
    """Write what a run was made of, and what came of it so far."""
    folder.write_manifest(
        Manifest(
            sizes={"parameters": model.parameter_count(), **prepared.sizes()},
            data=prepared.facts(),
            vocabulary={
                "sha256": folder.belonging.tokenizer_digest,
                "notices": list(prepared.notices),
            },
            kernels=kernels,
            results={"model": model.describe(), **results},
        )
    )
