"""A folder that runs without Elman: weights, tokenizer, settings, and a file that needs only torch.

`model.py` is `torch_program` as it stands.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor

from elman.atomic_files import read_utf8, read_whole, write_atomically
from elman.checkpoints.foreign.proof import Proof
from elman.checkpoints.foreign.torch_file import no_notice, read_torch_file
from elman.checkpoints.foreign.torch_rebuild import in_torch_terms, torch_kind
from elman.checkpoints.foreign.torch_state import (
    TorchForm,
    from_torch,
    prove_torch,
    read_form,
    to_torch,
)
from elman.config.model_settings import ModelSettings
from elman.errors import ConversionError
from elman.models.recurrent import RecurrentLanguageModel
from elman.text.tokenizer_file import tokenizer_from_json

WEIGHTS_FILE = "weights.safetensors"
TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "settings.json"
PROGRAM_FILE = "model.py"
_PROGRAM = Path(__file__).with_name("torch_program.py")
_VERSION = 1
_KINDS = ("RNN_TANH", "RNN_RELU", "GRU", "LSTM")


class TorchFolder(NamedTuple):
    """What an export folder holds; `weights` are those of `RecurrentLanguageModel`."""

    settings: ModelSettings
    vocabulary_size: int
    weights: dict[str, Tensor]
    tokenizer_json: str


def export_torch(model: RecurrentLanguageModel, tokenizer_json: str, folder: Path) -> Proof:
    """Write the model to `folder` for use without Elman; return the proof that it is the same.

    `weights.safetensors` has what `to_torch` returns, tied matrices once with the second name in
    the metadata; `settings.json` what the program needs; `model.py` the program. Equal models give
    equal files.

    Raises `ConversionError` where torch cannot express the model, both sides do not agree, the
    tokenizer is of another vocabulary, or `folder` is not empty; nothing is written then. Raises
    `RunError` where the disk refuses.
    """
    entries = len(tokenizer_from_json(tokenizer_json).vocabulary)
    _require_vocabulary(entries, model.vocabulary_size)
    state = to_torch(model)
    proof = prove_torch(model, state)
    form = read_form(state, torch_kind(in_torch_terms(model.stack.cell(0))))
    _require_empty(folder)
    tokenizer = tokenizer_json.encode()
    settings = {
        "version": _VERSION,
        "model": form._asdict(),
        "one_hot_inputs": model.embedding is None,
        "tokenizer_sha256": hashlib.sha256(tokenizer).hexdigest(),
    }
    write_atomically(folder / PROGRAM_FILE, read_whole(_PROGRAM))
    write_atomically(folder / TOKENIZER_FILE, tokenizer)
    write_atomically(folder / SETTINGS_FILE, (json.dumps(settings, indent=2) + "\n").encode())
    write_atomically(folder / WEIGHTS_FILE, _stored_once(state, form))
    return proof


def import_torch_folder(
    folder: Path, *, notify: Callable[[str], object] = no_notice
) -> TorchFolder:
    """Return the model and the tokenizer in a folder that `export_torch` has written.

    Raises `ConversionError` where a file is missing, or weights, settings and tokenizer do not
    belong together; nothing in the folder is executed, `model.py` not even read.
    """
    needed = (WEIGHTS_FILE, TOKENIZER_FILE, SETTINGS_FILE)
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise ConversionError(
            f"{folder} is no whole export of a model",
            got=f"no {', no '.join(missing)}",
            hint=f"{', '.join(needed)} belong together: copy the whole folder",
        )
    table = _settings_table(folder / SETTINGS_FILE)
    tokenizer_json = read_utf8(folder / TOKENIZER_FILE)
    digest = hashlib.sha256(tokenizer_json.encode()).hexdigest()
    if digest != table["tokenizer_sha256"]:
        raise ConversionError(
            f"{TOKENIZER_FILE} in {folder} is not the one that was exported with the weights",
            hint="restore it from a copy, or export the model again",
        )
    state = read_torch_file(folder / WEIGHTS_FILE, notify=notify)
    told = table["model"]
    assert isinstance(told, dict)
    form = read_form(state, told.get("kind"))
    if form._asdict() != told:
        odd = [name for name, value in form._asdict().items() if told.get(name) != value]
        raise ConversionError(
            f"{SETTINGS_FILE} and {WEIGHTS_FILE} in {folder} do not belong together",
            got=", ".join(f"{name} {told.get(name)} and {form._asdict()[name]}" for name in odd)
            or "settings that are not of a model",
        )
    settings, vocabulary_size, weights = from_torch(state, kind=form.kind, notify=notify)
    _require_vocabulary(len(tokenizer_from_json(tokenizer_json).vocabulary), vocabulary_size)
    if table["one_hot_inputs"]:
        settings = _with_one_hot(settings, weights.pop("embedding.weight"))
    return TorchFolder(settings, vocabulary_size, weights, tokenizer_json)


def _with_one_hot(settings: ModelSettings, encoder: Tensor) -> ModelSettings:
    if encoder.shape[0] != encoder.shape[1] or not torch.equal(encoder, torch.eye(len(encoder))):
        raise ConversionError(
            f"{SETTINGS_FILE} says that inputs are one-hot, and encoder.weight is not the identity",
            hint="set one_hot_inputs to false where it was trained further",
        )
    return replace(settings, input="one-hot", embedding_size=ModelSettings().embedding_size)


def _stored_once(state: Mapping[str, Tensor], form: TorchForm) -> bytes:
    """Return the safetensors file of `state`; of tied matrices the first name has the bytes."""
    stored = {name: tensor.to("cpu").contiguous() for name, tensor in state.items()}
    if not form.tied:
        return save(stored)
    del stored["decoder.weight"]
    return save(stored, {"decoder.weight": "encoder.weight"})


def _settings_table(path: Path) -> dict[str, object]:
    try:
        table = json.loads(read_utf8(path))
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{path} is not valid JSON", got=str(error)) from None
    if not isinstance(table, dict) or table.get("version") != _VERSION:
        raise ConversionError(
            f"{path} is not of this version of exports",
            got=f"version {table.get('version')!r}" if isinstance(table, dict) else "no table",
            allowed=str(_VERSION),
        )
    model = table.get("model")
    if (
        not isinstance(model, dict)
        or model.get("kind") not in _KINDS
        or not isinstance(table.get("one_hot_inputs"), bool)
        or not isinstance(table.get("tokenizer_sha256"), str)
    ):
        raise ConversionError(
            f"{path} was altered",
            got="no model of a known kind, one_hot_inputs and tokenizer_sha256",
            hint="restore it from a copy, or export the model again",
        )
    return table


def _require_vocabulary(entries: int, vocabulary_size: int) -> None:
    if entries != vocabulary_size:
        raise ConversionError(
            "tokenizer and model are not of one vocabulary",
            got=f"{entries} symbols in the tokenizer, {vocabulary_size} in the model",
        )


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConversionError(
            f"{folder} must be a new or empty folder",
            got="a folder that holds something" if folder.is_dir() else "a file",
            hint="name a folder that does not exist yet",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConversionError(
            f"cannot make the folder {folder}", got=error.strerror or str(error)
        ) from None
