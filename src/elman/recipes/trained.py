"""A trained run, opened: settings, tokenizer and model, ready to score or to generate."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from elman.checkpoints.run_folder import MANIFEST, RunFolder
from elman.config.fields import shown
from elman.config.model_settings import ModelSettings
from elman.config.reading_settings import TaskName
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.errors import RunError, ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.models.ngram_model import NgramLanguageModel
from elman.seeding import generator
from elman.text.tokenizer import NOT_OF_TOKENIZER, Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json

CHANGEABLE = ("encoding", "prompt_unknown")
"""Settings of the text that may be changed after training."""


@dataclass(frozen=True)
class TrainedModel:
    """What scoring and generating need of a run. `weights_digest` names its weights."""

    path: Path
    settings: Settings
    tokenizer: Tokenizer
    model: LanguageModel
    plan: KernelPlan
    weights_digest: str


def require_same_text(settings: TextSettings, tokenizer: Tokenizer, path: Path) -> None:
    """Raise `RunError` where config.toml says other things of the text than the vocabulary does.

    How files are decoded and what becomes of a prompt may be changed after training.
    """
    for field in fields(settings):
        if field.name in (*CHANGEABLE, *NOT_OF_TOKENIZER):
            continue
        now, then = getattr(settings, field.name), getattr(tokenizer.settings, field.name)
        if now != then:
            raise RunError(
                f"config.toml of {path} does not belong to its vocabulary",
                got=f"text.{field.name} = {shown(now)}, and the vocabulary was made with "
                f"{shown(then)}",
                hint="put the setting back as it was",
            )


def open_members(
    path: str | Path, ensemble: Sequence[str | Path], *, task: TaskName, otherwise: str
) -> list[RunFolder]:
    """Return the folders of a run and of those that answer with it, the run's own first.

    Raises `RunError` where one cannot be used, is of another task (it `otherwise`, as in "is no
    classifier"), or does not mean the same by its numbers: the vocabularies must be the same.
    """
    folders = [RunFolder.open(one) for one in (path, *ensemble)]
    for folder in folders:
        found = folder.settings.model.task
        if found != task:
            raise RunError(f"the run {folder.path} {otherwise}", got=f"model.task = {found}")
    first, *others = folders
    for other in others:
        own, theirs = first.vocabularies, other.vocabularies
        differing = [name for name in own if own[name] != theirs.get(name)]
        if differing or len(own) != len(theirs):
            raise RunError(
                "the runs of an ensemble must have the same vocabularies",
                got=f"another {', '.join(differing) or 'kind of run'} in {other.path} than in "
                f"{first.path}",
                hint="train them on the same files, with --valid and --test (else --seed also "
                "chooses what is held out) and the same [text] settings",
            )
    return folders


class StoppedRun(NamedTuple):
    """A run that training has not ended: its task, and after which update of how many it stands."""

    path: Path
    task: TaskName
    update: int
    total_updates: int


def stopped_run(path: str | Path) -> StoppedRun | None:
    """Return where the run at `path` stands if it was begun here and has not ended; else None.

    A run that was converted from elsewhere has no state of training, and is as good as ended.
    Raises `RunError` where there is no run to use.
    """
    folder = RunFolder.open(path)
    update = folder.saved_update()
    if update is None or not (folder.path / MANIFEST).exists():
        return None
    if folder.read_manifest().is_finished:
        return None
    model, training = folder.settings.model, folder.settings.training
    return StoppedRun(folder.path, model.task, update, training.updates)


def task_of(path: str | Path) -> TaskName:
    """Return the task of the run at `path`. Raises `RunError` where there is none to use."""
    return RunFolder.open(path).settings.model.task


def open_trained(path: str | Path) -> TrainedModel:
    """Open the language model at `path` and load its best weights.

    Raises `RunError` where that cannot be, and for a run of another task.
    """
    folder = RunFolder.open(path)
    settings = folder.settings
    if settings.model.task != "lm":
        raise RunError(
            f"the run {path} is no language model",
            got=f"model.task = {settings.model.task}",
            hint="its answers are written by elman predict, its figures by elman score",
        )
    tokenizer = tokenizer_from_json(folder.tokenizer_json)
    require_same_text(settings.text, tokenizer, folder.path)
    model, digest = _opened_model(folder, settings.model, len(tokenizer.vocabulary))
    return TrainedModel(
        folder.path,
        settings,
        tokenizer,
        model,
        KernelPlan(settings.training.kernels),
        digest,
    )


def _opened_model(
    folder: RunFolder, settings: ModelSettings, vocabulary_size: int
) -> tuple[LanguageModel, str]:
    """Return the language model of a run with its weights, and their digest."""
    if settings.kind == "ngram":
        tensors, record = folder.map_weights()
        try:
            counts = NgramLanguageModel.from_tensors(settings, tensors, vocabulary_size)
        except ShapeError as error:
            raise RunError(f"the tables of {folder.path} do not fit together: {error}") from None
        return counts, record.digest
    model = new_language_model(settings, vocabulary_size, generator(0, "initialisation"))
    return model, folder.load_weights(model).digest
