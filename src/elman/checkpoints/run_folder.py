"""A run: the folder that holds all that training made, and the checks on what is found there."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from elman.atomic_files import (
    LEFTOVER_SUFFIX,
    leftovers,
    read_utf8,
    remove_leftovers,
    require_file,
    write_atomically,
)
from elman.checkpoints.belonging import (
    DIRECTION,
    Belonging,
    check_belonging,
    tokenizer_entries,
)
from elman.checkpoints.manifest import Manifest, manifest_from_json, manifest_to_json
from elman.checkpoints.metrics_file import append_row, keep_rows_until, read_rows, sync_rows
from elman.checkpoints.run_lock import LOCK, RunLock, make_run_folder
from elman.checkpoints.training_state import (
    SavedState,
    read_state_belonging,
    read_state_update,
    read_training_state,
    write_training_state,
)
from elman.checkpoints.weights import (
    WeightsRecord,
    load_weights,
    map_weights,
    read_weights_record,
    save_weights,
)
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.toml_file import settings_from_toml, settings_to_toml
from elman.errors import RunError, SettingError

CONFIG = "config.toml"
TOKENIZER = "tokenizer.json"
TARGET = "target.json"
"""The tokenizer of the answers of a translating model."""
LABELS = "labels.json"
CHARACTERS = "characters.json"
"""The tokenizer that spells the words of a tagger."""
SCALING = "scaling.json"
"""Mean and deviation of the numbers that a model of series reads, in place of a tokenizer."""
MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
STATE = "state.safetensors"
STATE_COPY = "state.json"
METRICS = "metrics.jsonl"
CACHE = "cache"
"""Folder of a run's token arrays while it trains; removed once it has finished."""
KEPT = "kept"
"""Folder of the checkpoints that are kept beside the latest."""
SHARDS = "shards"
"""Folder within it of what is made of a large text; it outlives a start that was stopped."""

VOCABULARIES = (TOKENIZER, TARGET, LABELS, CHARACTERS, SCALING)
RUN_FILES = (CONFIG, *VOCABULARIES, MANIFEST, WEIGHTS, STATE, STATE_COPY, METRICS)


class RunFolder:
    """The folder of one run. Nothing in it names the place where it lies: it can be moved.

    Made by `create` and `open` alone. Settings and tokenizer are kept as they were when the run was
    begun or opened, so that editing a file of a run in training changes nothing in what is saved.
    """

    def __init__(
        self, path: Path, settings: Settings | None, vocabularies: Mapping[str, str] | None
    ) -> None:
        self.path = path
        self._settings = settings
        self._vocabularies = vocabularies

    @classmethod
    def create(cls, path: str | Path) -> "RunFolder":
        """Make the folder `path` for a new run, without `begin` having told what the run is.

        Raises `RunError` where there is a file, or a folder that holds something.
        """
        folder = Path(path)
        make_run_folder(folder)
        try:
            _clear_unbegun(folder)
            known = {folder / LOCK, *leftovers(folder, RUN_FILES)}
            remaining = set(folder.iterdir()) - known - set(_kept_cache(folder))
        except OSError as error:
            raise RunError(
                f"cannot make the folder {folder}", got=error.strerror or str(error)
            ) from error
        if remaining:
            is_run = any((folder / name).exists() for name in RUN_FILES)
            raise RunError(
                f"{folder} is not empty, and a run is never overwritten",
                got=f"{'a run' if is_run else 'other files'} in it",
                hint="name another folder"
                + (", or continue this run with --resume" if is_run else ""),
            )
        remove_leftovers(folder, RUN_FILES)
        return cls(folder, None, None)

    @classmethod
    def open(cls, path: str | Path, *, purpose: Literal["use", "resume"] = "use") -> "RunFolder":
        """Return the run at `path` once all that `purpose` needs is there and fits together.

        use: settings, vocabulary and weights. resume: settings, vocabulary and training state.
        Headers are read, tensors are not. Raises `RunError` naming what is missing or does not
        belong, and what to do.
        """
        folder = Path(path)
        _check_is_run(folder)
        for name in RUN_FILES:
            require_file(folder / name)
        settings = _read_settings(folder / CONFIG) if (folder / CONFIG).is_file() else None
        names = vocabulary_files((settings or Settings()).model)
        _check_files(folder, names, purpose)
        if (folder / MANIFEST).exists():
            manifest_from_json(read_utf8(folder / MANIFEST), name=str(folder / MANIFEST))
        run = cls(folder, settings, {name: read_utf8(folder / name) for name in names})
        if (folder / WEIGHTS).exists():
            run._check(read_weights_record(folder / WEIGHTS).belonging, WEIGHTS)
        if purpose == "resume":
            run._check(read_state_belonging(folder / STATE), STATE)
        return run

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        if self._settings is None:
            raise ValueError("begin has not told the settings of this run")
        return self._settings

    @property
    def vocabularies(self) -> Mapping[str, str]:
        """The vocabularies of the run, by the names of their files (`VOCABULARIES`)."""
        if self._vocabularies is None:
            raise ValueError("begin has not told the vocabularies of this run")
        return self._vocabularies

    @property
    def tokenizer_json(self) -> str:
        """The tokenizer of what the model reads, as `tokenizer.json` holds it."""
        return self.vocabularies[TOKENIZER]

    @property
    def belonging(self) -> Belonging:
        """What the weights and the state of this run belong to."""
        texts = self.vocabularies
        digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts.values()]
        together = digests[0]
        if len(digests) > 1:
            together = hashlib.sha256(" ".join(digests).encode()).hexdigest()
        return Belonging(
            tokenizer_digest=together,
            vocabulary_size=tokenizer_entries(texts[TOKENIZER]) if TOKENIZER in texts else None,
            model_settings=asdict(self.settings.model) | {DIRECTION: self.settings.text.direction},
            vocabulary_names=tuple(texts),
        )

    def begin(self, settings: Settings, vocabularies: Mapping[str, str]) -> None:
        """Write what the run is made from: the vocabularies by name, then `config.toml`.

        Raises `ValueError` unless they are those that such a model needs.
        """
        names = vocabulary_files(settings.model)
        if set(vocabularies) != set(names):
            raise ValueError(f"this run needs {', '.join(names)}; got {', '.join(vocabularies)}")
        for name in names:
            write_atomically(self.path / name, vocabularies[name].encode())
        write_atomically(self.path / CONFIG, settings_to_toml(settings).encode())
        self._settings = settings
        self._vocabularies = {name: vocabularies[name] for name in names}

    def tidy(self) -> None:
        """Delete what a killed save has left. Only for the process that has the run's lock."""
        remove_leftovers(self.path, RUN_FILES)
        for path in (self.path / KEPT).glob(f"*{LEFTOVER_SUFFIX}"):
            shutil.rmtree(path, ignore_errors=True)

    def tidy_finished(self) -> None:
        """Delete what a process has left that was killed after the last thing it wrote."""
        left = (self.path / CACHE, self.path / LOCK)
        if any(path.exists() for path in left) or leftovers(self.path, RUN_FILES):
            with suppress(RunError), RunLock.take(self.path):  # a folder to be read is read
                shutil.rmtree(self.path / CACHE, ignore_errors=True)
                self.tidy()

    def discard(self) -> None:
        """Take away what this run has written, and the folder where nothing else is in it.

        What was made of a large text stays, so that the same start goes on from there.
        """
        _clear_cache(self.path)
        self.tidy()
        for name in RUN_FILES:
            (self.path / name).unlink(missing_ok=True)
        if set(self.path.iterdir()) <= {self.path / LOCK}:
            (self.path / LOCK).unlink(missing_ok=True)
            with suppress(OSError):  # another process has come in since
                self.path.rmdir()

    def save_weights(self, model: nn.Module, *, update: int) -> str:
        """Put the weights of `model`, as they are after `update`, in place of those kept so far."""
        return save_weights(self.path / WEIGHTS, model, update=update, belonging=self.belonging)

    def load_weights(self, model: nn.Module) -> WeightsRecord:
        """Put the weights of the run into `model`, and return what their header tells.

        Raises `RunError`, and leaves the model as it was, where they do not fit it, belong to other
        settings or another vocabulary, or were altered.
        """
        self._check(read_weights_record(self.path / WEIGHTS).belonging, WEIGHTS)
        return load_weights(self.path / WEIGHTS, model)

    def map_weights(self) -> tuple[Mapping[str, Tensor], WeightsRecord]:
        """Return the tensors of the run as the disk has them, and what their header tells.

        Raises `RunError` where they belong to other settings or another vocabulary.
        """
        self._check(read_weights_record(self.path / WEIGHTS).belonging, WEIGHTS)
        return map_weights(self.path / WEIGHTS)

    def save_state(self, tensors: Mapping[str, Tensor], facts: Mapping[str, object]) -> str:
        """Put the state of training in place of that saved before, after the rows of metrics."""
        sync_rows(self.path / METRICS)
        return write_training_state(
            self.path / STATE,
            tensors,
            facts,
            belonging=self.belonging,
            readable_copy=self.path / STATE_COPY,
        )

    def load_state(self) -> SavedState:
        """Return the state of training, verified. Raises `RunError` where it cannot be used."""
        state = read_training_state(self.path / STATE)
        self._check(state.belonging, STATE)
        return state

    def saved_update(self) -> int | None:
        """Return the update that training was last saved after; None without a readable state."""
        return read_state_update(self.path / STATE)

    def write_manifest(self, manifest: Manifest) -> None:
        """Put `manifest` in place of the one before."""
        write_atomically(self.path / MANIFEST, manifest_to_json(manifest).encode())

    def read_manifest(self) -> Manifest:
        """Return the manifest. Raises `RunError` where it is missing or broken."""
        path = self.path / MANIFEST
        return manifest_from_json(read_utf8(path), name=str(path))

    def append_metrics(self, row: Mapping[str, object]) -> None:
        """Add one row, with the number of its update under "update", to the metrics."""
        append_row(self.path / METRICS, row)

    def read_metrics(self) -> list[dict[str, object]]:
        """Return all rows of the metrics, but for a last one that was cut short."""
        return read_rows(self.path / METRICS)

    def keep_metrics_until(self, update: int) -> None:
        """Drop the rows after `update`: training goes on from there and writes them again."""
        keep_rows_until(self.path / METRICS, update)

    def _check(self, belonging: Belonging, name: str) -> None:
        check_belonging(belonging, self.belonging, folder=self.path, name=name)


def vocabulary_files(model: ModelSettings) -> tuple[str, ...]:
    """Return the names of the vocabularies that a run of such a model has, in order."""
    read = SCALING if model.input == "series" else TOKENIZER
    return {
        "lm": (read,),
        "classify": (read, LABELS),
        "tag": (read, LABELS, CHARACTERS),
        "translate": (read, TARGET),
    }[model.task]


def _clear_unbegun(folder: Path) -> None:
    """Take away what a start that was killed before its first state was saved has left.

    Such a folder has the cache of token arrays, and neither a state nor weights nor metrics: there
    is nothing to go on from, and nothing was learnt.
    """
    found = {path.name for path in folder.iterdir() if path not in leftovers(folder, RUN_FILES)}
    found -= {LOCK}
    if CACHE in found and found <= {CACHE, CONFIG, *VOCABULARIES, MANIFEST}:
        _clear_cache(folder)
        for name in found - {CACHE}:
            (folder / name).unlink()


def _kept_cache(folder: Path) -> tuple[Path, ...]:
    """Return the cache of the folder where nothing but shards is in it."""
    cache = folder / CACHE
    only = cache.is_dir() and {path.name for path in cache.iterdir()} == {SHARDS}
    return (cache,) if only else ()


def _clear_cache(folder: Path) -> None:
    """Take the cache away, but for the shards of a large text."""
    cache = folder / CACHE
    for path in cache.iterdir() if cache.is_dir() else ():
        if path.name != SHARDS and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != SHARDS:
            path.unlink(missing_ok=True)
    with suppress(OSError):  # there is none, or shards are in it
        cache.rmdir()


def is_finished(folder: Path) -> bool:
    """Return whether there is a run in `folder` whose training has ended, by its manifest."""
    path = folder / MANIFEST
    return path.is_file() and manifest_from_json(read_utf8(path), name=str(path)).is_finished


def runs_within(folder: Path) -> tuple[Path, ...]:
    """Return the runs that lie in a folder, as those of a ladder do, by their names."""
    return tuple(
        sorted(path for path in folder.iterdir() if (path / CONFIG).is_file())
        if folder.is_dir()
        else ()
    )


def _check_is_run(folder: Path) -> None:
    if folder.is_file():
        alone = folder.suffix == ".safetensors"
        what = "is a weights file alone" if alone else "is a file"
        raise RunError(
            f"{folder} {what}, and a run is a folder",
            allowed=f"a folder with {CONFIG}, {TOKENIZER} and {WEIGHTS}",
            hint="give the folder that the file was made in" if alone else "",
        )
    if not folder.is_dir():
        raise RunError(f"there is no run at {folder}", hint="elman train … --out makes one")
    if any((folder / name).exists() for name in RUN_FILES):
        return
    if within := runs_within(folder):
        raise RunError(
            f"{folder} is not a run, it holds some",
            got="a folder of runs",
            allowed=", ".join(map(str, within)),
        )
    raise RunError(
        f"{folder} is not a run",
        got="a folder without any file of a run",
        allowed=f"a folder with {CONFIG}, {TOKENIZER} and {WEIGHTS}",
    )


def _read_settings(path: Path) -> Settings:
    try:
        return settings_from_toml(read_utf8(path), name=str(path))
    except SettingError as error:
        told = str(error) if str(path) in str(error) else f"{path} cannot be used: {error}"
        raise RunError(told) from None


def _check_files(folder: Path, names: Sequence[str], purpose: Literal["use", "resume"]) -> None:
    """Raise `RunError` unless settings, the vocabularies `names` and what `purpose` needs are."""
    copy = "copy it from where the run was made"
    again = "the run cannot be used without it: copy the folder again from where it was made"
    goes_on = purpose == "use" and (folder / STATE).is_file() and not is_finished(folder)
    needed = [
        (CONFIG, "the settings", copy),
        *((name, "the vocabulary", f"{copy}; no other will do") for name in names),
        (
            *(WEIGHTS, "the weights"),
            "continue the run with --resume until it keeps some" if goes_on else again,
        )
        if purpose == "use"
        else (STATE, "the training state", "nothing was saved to go on from; train anew"),
    ]
    missing = [entry for entry in needed if not (folder / entry[0]).is_file()]
    if missing:
        told = " and ".join(f"{name} ({what})" for name, what, _ in missing)
        raise RunError(f"the run {folder} lacks {told}", hint=missing[0][2])
