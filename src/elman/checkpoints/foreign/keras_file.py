"""language model ↔ `.keras` file: written with its tokenizer beside it, read without running it.

A `.keras` file is an archive of a configuration, which names classes to build and may hold code,
and of weights. Reading starts with the names: whatever is not a plain part of a recurrent language
model, from Keras itself, is refused before Keras sees the file.
"""

import hashlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elman.atomic_files import read_whole, write_atomically
from elman.checkpoints.foreign.keras_chain import (
    CHAIN_LAYERS,
    bare_model,
    chain_parts,
    chain_settings,
    chain_weights,
    layer_chain,
)
from elman.checkpoints.foreign.keras_layers import keras_module
from elman.checkpoints.foreign.keras_model import (
    Initial,
    language_model_to_keras,
    prove_keras,
    what_is_left_out,
)
from elman.checkpoints.foreign.proof import Proof
from elman.config.model_settings import ModelSettings
from elman.errors import ConversionError
from elman.models.recurrent import RecurrentLanguageModel

SUFFIX = ".keras"
MAX_CONFIG_BYTES = 16 * 2**20
"""The longest configuration that is read: those of recurrent models take a few kilobytes."""

# NotEqual makes the mask of an Embedding with mask_zero.
_LAYERS = frozenset({"InputLayer", "NotEqual", *CHAIN_LAYERS})
_LAYER_MODULES = frozenset({"keras.layers", "keras.src.ops.nn", "keras.src.ops.numpy"})
_MODELS = frozenset({"Functional", "Sequential"})
# Parts of a configuration that are data: they name numbers or places, nothing that is called.
_DATA = frozenset({"__keras_tensor__", "__tuple__"})
_UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, RuntimeError)
_BESIDE = frozenset({"keras.initializers", "keras.regularizers", "keras.constraints"})


RECORD = "elman.json"
"""The part of the archive that names the tokenizer."""


class KerasExport(NamedTuple):
    """What an export proved, and a sentence for each thing that is not in the file as it was."""

    proof: Proof
    notices: tuple[str, ...]


class KerasImport(NamedTuple):
    """The model of a file: `RecurrentLanguageModel(settings, vocabulary_size, …)` loads `weights`.

    `notices` has a sentence for each thing in the file that the model does not have.
    """

    settings: ModelSettings
    vocabulary_size: int
    weights: dict[str, Tensor]
    proof: Proof
    notices: tuple[str, ...]


def keras_tokenizer_path(path: Path) -> Path:
    """Return where the tokenizer of the model at `path` lies: NAME.tokenizer.json beside it."""
    return path.with_name(f"{path.name}.tokenizer.json")


def export_keras(
    model: RecurrentLanguageModel,
    tokenizer_json: str,
    path: Path,
    *,
    initial: Initial = "zeros",
) -> KerasExport:
    """Write `model` to the `.keras` file at `path`, and its tokenizer beside it; return the proof.

    `initial` as for `language_model_to_keras`: "given" for a model that takes and gives its state.
    Nothing is written unless Keras computes the same. Raises `ConversionError` where it does not or
    cannot, `MissingPackageError` without keras, `RunError` where the disk refuses.
    """
    if path.suffix != SUFFIX:
        raise ConversionError(
            "a file of Keras must have the ending of its format", got=path.name, allowed=SUFFIX
        )
    with keras_module().device("cpu"):  # cuDNN rounds more coarsely than a proof allows
        keras_model = language_model_to_keras(model, initial=initial)
        proof = prove_keras(model, keras_model)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, f"model{SUFFIX}")
        keras_model.save(whole)
        with zipfile.ZipFile(whole, "a") as archive:  # Keras passes it over
            archive.writestr(RECORD, json.dumps({"tokenizer_sha256": _digest(tokenizer_json)}))
        content = read_whole(whole)
    write_atomically(keras_tokenizer_path(path), tokenizer_json.encode("utf-8"))
    write_atomically(path, content)
    return KerasExport(proof, what_is_left_out(model))


def require_keras_tokenizer(path: Path, tokenizer_json: str) -> None:
    """Raise `ConversionError` where the tokenizer is not the one the file was exported with.

    A file that Elman did not write does not tell, and nothing is raised.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open(RECORD) as file:
            digest = json.loads(file.read(MAX_CONFIG_BYTES)).get("tokenizer_sha256")
    except KeyError:
        return
    except (*_UNREADABLE, AttributeError) as error:
        raise ConversionError(f"{path} is damaged", got=str(error)[:200]) from error
    if digest != _digest(tokenizer_json):
        raise ConversionError(
            f"{keras_tokenizer_path(path)} is not the tokenizer of {path}",
            hint="put back the one that was exported with it",
        )


def _digest(tokenizer_json: str) -> str:
    return hashlib.sha256(tokenizer_json.encode()).hexdigest()


def import_keras(path: Path) -> KerasImport:
    """Return the recurrent language model in the `.keras` file at `path`, and the proof of it.

    The file must hold one chain: an Embedding, or Keras' one-hot code, or inputs that are one-hot
    codes [B, T, V]; SimpleRNN, GRU or LSTM layers of one kind and width that read forward; a Dense
    of V units, with a softmax or without, before which another Dense may stand that has neither
    bias nor function. Dropout is a setting here. Whoever reads the file needs its tokenizer as
    well, which `keras_tokenizer_path` names for files of `export_keras`.

    Raises `ConversionError` for a file that is not of this form, that names code or parts which are
    not Keras' own, or that Keras cannot read; `MissingPackageError` without keras.
    """
    _refuse_foreign_parts(path)
    with keras_module().device("cpu"):
        return _imported(path)


def _imported(path: Path) -> KerasImport:
    keras = keras_module()
    try:
        keras_model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except (*_UNREADABLE, TypeError, AttributeError) as error:
        raise ConversionError(f"Keras cannot read {path}", got=str(error)[:200]) from error
    if not keras_model.built:
        raise ConversionError(f"the model in {path} has no weights yet", hint="build it first")
    chain = layer_chain(keras_model)
    parts = chain_parts([link.layer for link in chain])
    settings, notices = chain_settings(parts)
    weights, more = chain_weights(parts, settings)
    vocabulary_size = len(weights["readout.weight"])
    model = RecurrentLanguageModel(settings, vocabulary_size, torch.Generator())
    model.to(weights["readout.weight"].dtype).load_state_dict(weights)
    proof = prove_keras(model, bare_model(keras_model, chain, parts))
    return KerasImport(settings, vocabulary_size, weights, proof, (*notices, *more))


def _refuse_foreign_parts(path: Path) -> None:
    """Raise `ConversionError` unless each part that the file names is Keras' own and allowed."""
    if path.suffix != SUFFIX:
        raise ConversionError(
            "only files of Keras 3 can be read",
            got=path.name,
            allowed=SUFFIX,
            hint="load an older .h5 file in Keras and save it anew",
        )
    try:
        with zipfile.ZipFile(path) as archive, archive.open("config.json") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
        if len(text) > MAX_CONFIG_BYTES:
            raise ValueError("its configuration is too long")
        config = json.loads(text)
        if not isinstance(config, dict):
            raise ValueError("its configuration is no object")
        # How it was trained is never built, as it is loaded with compile=False.
        config.pop("compile_config", None)
        parts = list(_named_parts(config))
    except _UNREADABLE as error:
        raise ConversionError(f"{path} is not a file of Keras", got=str(error)[:200]) from error
    for part in parts:
        _require_own(path, part)


def _named_parts(value: object) -> Iterator[dict[str, Any]]:
    """Return every object in a configuration that names a class or a function."""
    if isinstance(value, dict):
        if "class_name" in value:
            yield value
        for inner in value.values():
            yield from _named_parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_parts(inner)


def _require_own(path: Path, part: dict[str, Any]) -> None:
    name, module = str(part["class_name"]), str(part.get("module"))
    if name in _DATA:
        return
    given = part.get("name") or (part.get("config") or {})
    given = given.get("name") if isinstance(given, dict) else given
    if name in ("Lambda", "__lambda__"):
        raise ConversionError(
            f"{path} holds code: a Lambda, which is never run",
            got=str(given or name),
            hint="build the model without it and save it anew",
        )
    own = (
        (name in _LAYERS and module in _LAYER_MODULES)
        or (name in _MODELS and module.split(".")[0] == "keras")
        or (name == "DTypePolicy" and module == "keras" and given in ("float32", "float64"))
        or (module in _BESIDE and name.isidentifier() and name != "function")
    )
    if not own or part.get("registered_name") not in (None, name):
        raise ConversionError(
            f"{path} has a part that no recurrent language model of Keras itself has",
            got=f"{name} of {module}" + (f" ({given})" if given else ""),
            allowed=", ".join(CHAIN_LAYERS),
            hint="parts of one's own hold code, which is never run",
        )
