"""A run: the folder that holds all that training made, and the checks on what is found there."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from elman.checkpoints.atomic_files import (
    leftovers,
    read_utf8,
    remove_leftovers,
    write_atomically,
)
from elman.checkpoints.belonging import Belonging, check_belonging
from elman.checkpoints.manifest import Manifest, manifest_from_json, manifest_to_json
from elman.checkpoints.metrics_file import append_row, keep_rows_until, read_rows, sync_rows
from elman.checkpoints.training_state import (
    SavedState,
    read_state_belonging,
    read_training_state,
    write_training_state,
)
from elman.checkpoints.weights import (
    WeightsRecord,
    load_weights,
    read_weights_record,
    save_weights,
)
from elman.config.settings import Settings
from elman.config.toml_file import settings_from_toml, settings_to_toml
from elman.errors import RunError, SettingError

CONFIG = "config.toml"
TOKENIZER = "tokenizer.json"
MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
STATE = "state.safetensors"
STATE_COPY = "state.json"
METRICS = "metrics.jsonl"
CACHE = "cache"
"""Folder of a run's token arrays while it trains; removed once it has finished."""

RUN_FILES = (CONFIG, TOKENIZER, MANIFEST, WEIGHTS, STATE, STATE_COPY, METRICS)


class RunFolder:
    """The folder of one run. Nothing in it names the place where it lies: it can be moved.

    Made by `create` and `open` alone. Settings and tokenizer are kept as they were when the run was
    begun or opened, so that editing a file of a run in training changes nothing in what is saved.
    """

    def __init__(self, path: Path, settings: Settings | None, tokenizer_json: str | None) -> None:
        self.path = path
        self._settings = settings
        self._tokenizer_json = tokenizer_json

    @classmethod
    def create(cls, path: str | Path) -> "RunFolder":
        """Make the folder `path` for a new run, without `begin` having told what the run is.

        Raises `RunError` where there is a file, or a folder that holds something.
        """
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder} must be a folder for the run", got="a file")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _clear_unbegun(folder)
            remaining = set(folder.iterdir()) - set(leftovers(folder, RUN_FILES))
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

        use: settings, vocabulary and weights. resume: settings, vocabulary and training state; it
        deletes what a killed save has left, so it is for the one process that goes on training.
        Headers are read, tensors are not. Raises `RunError` naming what is missing or does not
        belong, and what to do.
        """
        folder = Path(path)
        _check_is_run(folder)
        _check_files(folder, purpose)
        if (folder / MANIFEST).exists():
            manifest_from_json(read_utf8(folder / MANIFEST), name=str(folder / MANIFEST))
        tokenizer_json = read_utf8(folder / TOKENIZER)
        try:
            settings = settings_from_toml(read_utf8(folder / CONFIG), name=str(folder / CONFIG))
        except SettingError as error:
            raise RunError(f"{folder / CONFIG} cannot be used: {error}") from None
        run = cls(folder, settings, tokenizer_json)
        if (folder / WEIGHTS).exists():
            run._check(read_weights_record(folder / WEIGHTS).belonging, WEIGHTS)
        if purpose == "resume":
            run._check(read_state_belonging(folder / STATE), STATE)
            remove_leftovers(folder, RUN_FILES)
        return run

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        if self._settings is None:
            raise ValueError("begin has not told the settings of this run")
        return self._settings

    @property
    def tokenizer_json(self) -> str:
        """The tokenizer of the run, as `tokenizer.json` holds it."""
        if self._tokenizer_json is None:
            raise ValueError("begin has not told the tokenizer of this run")
        return self._tokenizer_json

    @property
    def belonging(self) -> Belonging:
        """What the weights and the state of this run belong to."""
        return Belonging(
            tokenizer_digest=hashlib.sha256(self.tokenizer_json.encode()).hexdigest(),
            vocabulary_size=tokenizer_entries(self.tokenizer_json),
            model_settings=asdict(self.settings.model),
        )

    def begin(self, settings: Settings, tokenizer_json: str) -> None:
        """Write what the run is made from: `tokenizer.json`, then `config.toml`."""
        write_atomically(self.path / TOKENIZER, tokenizer_json.encode())
        write_atomically(self.path / CONFIG, settings_to_toml(settings).encode())
        self._settings, self._tokenizer_json = settings, tokenizer_json

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


def tokenizer_entries(tokenizer_json: str) -> int | None:
    """Return how many ids the file of a tokenizer names, or None where it does not tell.

    The file is in the `tokenizers` format: entries stand under model.vocab, and specials beside
    them under added_tokens.
    """
    try:
        table = json.loads(tokenizer_json)
        ids = set(dict(table["model"]["vocab"]).values())
        return len(ids | {token["id"] for token in table.get("added_tokens") or ()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _clear_unbegun(folder: Path) -> None:
    """Take away what a start that was killed before its first state was saved has left.

    Such a folder has the cache of token arrays, and neither a state nor weights nor metrics: there
    is nothing to go on from, and nothing was learnt.
    """
    found = {path.name for path in folder.iterdir() if path not in leftovers(folder, RUN_FILES)}
    if CACHE in found and found <= {CACHE, CONFIG, TOKENIZER, MANIFEST}:
        shutil.rmtree(folder / CACHE)
        for name in found - {CACHE}:
            (folder / name).unlink()


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
    if not any((folder / name).exists() for name in RUN_FILES):
        raise RunError(
            f"{folder} is not a run",
            got="a folder without any file of a run",
            allowed=f"a folder with {CONFIG}, {TOKENIZER} and {WEIGHTS}",
        )


def _check_files(folder: Path, purpose: Literal["use", "resume"]) -> None:
    needed = (
        (CONFIG, "the settings", "copy it from where the run was made"),
        (TOKENIZER, "the vocabulary", "copy it from where the run was made; no other will do"),
        (WEIGHTS, "the weights", "continue the run with --resume until it keeps some")
        if purpose == "use"
        else (STATE, "the training state", "nothing was saved to go on from; train anew"),
    )
    missing = [entry for entry in needed if not (folder / entry[0]).is_file()]
    if missing:
        names = " and ".join(f"{name} ({what})" for name, what, _ in missing)
        raise RunError(f"the run {folder} lacks {names}", hint=missing[0][2])
