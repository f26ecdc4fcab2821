"""A trained run into another program's file, and such a file into a run, each with its proof."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from elman.atomic_files import read_utf8, require_file
from elman.checkpoints.foreign.proof import Proof
from elman.checkpoints.manifest import IMPORTED, Manifest
from elman.checkpoints.run_folder import TOKENIZER, RunFolder
from elman.checkpoints.run_lock import RunLock
from elman.config.kind_checks import CELL_KINDS
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.errors import ConversionError
from elman.models.language import LanguageModel
from elman.models.ngram_model import NgramLanguageModel
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.converting_counts import export_arpa, import_arpa
from elman.recipes.trained import TrainedModel, open_trained
from elman.seeding import generator
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json
from elman.text.vocabulary_file import foreign_vocabulary, read_tokens

Target = Literal["torch", "keras", "onnx", "py", "arpa"]
Source = Literal["torch", "keras", "onnx", "arpa"]
TorchName = Literal["RNN_TANH", "RNN_RELU", "GRU", "LSTM"]


SUFFIXES: Mapping[Target, str] = MappingProxyType(
    {"torch": "", "keras": ".keras", "onnx": ".onnx", "py": ".py", "arpa": ".arpa"}
)
PLACES = "readout.place_of_id_V"
"""Of a readout split into classes: the one tensor of it that has a row for each id."""
_TRAINING_ONLY = (
    *("dropout", "embedding_dropout", "token_dropout", "recurrent_dropout", "weight_dropout"),
)


@dataclass(frozen=True)
class Conversion:
    """What was written where, how far both sides are apart, and what a person should know."""

    path: Path
    proof: Proof
    notices: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "path": str(self.path),
            "proof": self.proof.to_json(),
            "notices": list(self.notices),
        }


@dataclass(frozen=True)
class ImportRequest:
    """A foreign file, and what only a person can tell of it.

    `vocabulary` is a file of tokens in the order of their ids, `level` what they are; None where
    the file brings its tokenizer along. `kind` is the name of a plain RNN's function in torch.
    """

    path: Path
    source: Source
    vocabulary: Path | None = None
    level: Literal["char", "word"] = "word"
    kind: TorchName | None = None


@dataclass(frozen=True)
class _Imported:
    settings: ModelSettings
    weights: dict[str, Tensor]
    tokenizer_json: str | None
    proof: Proof


def export_run(run: str | Path, target: Target, out: Path) -> Conversion:
    """Write the model of a run to `out`, with its tokenizer, once both sides are proven equal.

    torch: a folder with weights, settings, tokenizer and a program. keras, onnx: a file with the
    tokenizer beside it. py: one file. Raises `ConversionError` where the target cannot express the
    model, both sides disagree, or `out` is there already; `MissingPackageError` without the package
    of the target.
    """
    if out.exists() and (target != "torch" or not out.is_dir() or any(out.iterdir())):
        raise ConversionError(f"{out} is there already", hint="name another place")
    if out.suffix != SUFFIXES[target]:
        raise ConversionError(
            f"a model for {target} must have the ending of its format",
            got=out.name,
            allowed=f"a name that ends in {SUFFIXES[target]}" if SUFFIXES[target] else "a folder",
        )
    trained = open_trained(run)
    if trained.settings.text.direction == "backward":
        raise ConversionError(
            f"{target} has no place for the direction of a text",
            got=f"{run}, which reads texts from their end",
            hint="train another run with text.direction = forward",
        )
    ancestor = next(parent for parent in out.absolute().parents if parent.is_dir())
    with tempfile.TemporaryDirectory(prefix=".elman-", dir=ancestor) as aside:
        proof, notices = _written(trained, target, Path(aside) / out.name)
        beside = [path for path in Path(aside).iterdir() if (out.parent / path.name).exists()]
        if beside and target != "torch":
            raise ConversionError(f"{out.parent / beside[0].name} is there already")
        out.parent.mkdir(parents=True, exist_ok=True)
        for path in sorted(Path(aside).iterdir()):
            path.rename(out.parent / path.name)
    return Conversion(out, proof, notices)


def _written(trained: TrainedModel, target: Target, path: Path) -> tuple[Proof, tuple[str, ...]]:
    """Write the model to `path`; return the proof, and what a person should know."""
    if target == "arpa":
        if not isinstance(trained.model, NgramLanguageModel):
            raise ConversionError(
                "an ARPA file holds counts of n-grams",
                got=f"model.kind = {trained.settings.model.kind}",
                allowed='a run of model.kind = "ngram"',
            )
        return export_arpa(trained.model, trained.tokenizer, path), ()
    model = _recurrent(trained, target)
    _refuse_zoneout(model, target)
    proof, notices = _EXPORTS[target](trained, model, path)
    return proof, (*notices, *_left_out(model, target))


def _recurrent(trained: TrainedModel, target: Target) -> RecurrentLanguageModel:
    """Return the model. Raises `ConversionError` where it is of another kind."""
    if isinstance(trained.model, RecurrentLanguageModel):
        return trained.model
    kind = trained.settings.model.kind
    raise ConversionError(
        f"only recurrent models can be written for {target}",
        got=f"model.kind = {kind}",
        allowed=f"a run of model.kind = {', '.join(CELL_KINDS)}",
        hint="a count model is written by --to arpa" if kind == "ngram" else "",
    )


def _refuse_zoneout(model: RecurrentLanguageModel, target: Target) -> None:
    """Raise `ConversionError` where the expectation of zoneout acts in use as well."""
    s = model.settings
    if s.zoneout or s.zoneout_cell:
        raise ConversionError(
            f"{target} has no zoneout, whose expectation acts when the model is used",
            got=f"model.zoneout = {s.zoneout:g}, model.zoneout_cell = {s.zoneout_cell:g}",
            hint="the nearest it has is a model trained with recurrent_dropout or weight_dropout",
        )


def _left_out(model: RecurrentLanguageModel, target: Target) -> Iterator[str]:
    """Yield a sentence for what the export has in another form, or not at all."""
    s = model.settings
    dropouts = [name for name in _TRAINING_ONLY if getattr(s, name)]
    if target in ("keras", "py"):  # Keras' converter tells its own; plain Python has every cell
        return
    if dropouts:
        yield f"not in the export, as it acts in training only: {', '.join(dropouts)}"
    if s.kind == "gru" and s.update == "replace":
        yield "the update gate is turned round: the rows of z are negated"
    if s.kind == "lstm" and s.coupled:
        yield "the input gate has rows of its own: those of the forget gate, negated"
    if s.kind == "mgu" and target != "torch":
        yield "the one gate stands twice, as both gates of a GRU"
    written = model.stack.output_size
    if s.tie_weights and s.embedding_size != written and target == "torch":
        yield "the output is no longer tied: projection and embedding became one matrix"


def import_model(request: ImportRequest, out: Path) -> Conversion:
    """Make a run at `out` of the model in a foreign file, once both sides are proven equal.

    The run can be scored and generated from like one that was trained. Raises `ConversionError`
    for what Elman cannot express, for a vocabulary of another size or none at all, `RunError`
    where `out` holds something.
    """
    if request.source == "arpa":
        return _import_counts(request, out)
    if not request.path.is_dir():
        require_file(request.path)
    notices: list[str] = []
    imported = _IMPORTS[request.source](request, notices.append)
    tokenizer, rows = _vocabulary(request, imported, notices)
    weights = imported.weights if rows is None else _reordered(imported, rows)
    model = _model_of(imported.settings, len(tokenizer.vocabulary), weights)
    _save(model, imported.settings, tokenizer, request.source, imported.proof, out)
    return Conversion(out, imported.proof, tuple(notices))


def _save(
    model: LanguageModel,
    settings: ModelSettings,
    tokenizer: Tokenizer,
    source: Source,
    proof: Proof,
    out: Path,
) -> None:
    """Make the run folder of a model that was trained elsewhere."""
    manifest = Manifest(
        sizes={"parameters": model.parameter_count(), "vocabulary": len(tokenizer.vocabulary)},
        data={IMPORTED: source},
        vocabulary={"sha256": tokenizer.digest()},
        results={"model": model.describe(), "proof": proof.to_json()},
    )
    with RunLock.take(out):
        folder = RunFolder.create(out)
        folder.begin(
            Settings(text=tokenizer.settings, model=settings), {TOKENIZER: tokenizer.to_json()}
        )
        folder.save_weights(model, update=0)
        folder.write_manifest(manifest)


def _import_counts(request: ImportRequest, out: Path) -> Conversion:
    if request.vocabulary is not None:
        raise ConversionError("an ARPA file has its words in it", got="--vocabulary")
    model, tokenizer, proof, notices = import_arpa(request.path, request.level)
    _save(model, model.settings, tokenizer, request.source, proof, out)
    return Conversion(out, proof, notices)


def _to_torch(
    trained: TrainedModel, model: RecurrentLanguageModel, out: Path
) -> tuple[Proof, tuple[str, ...]]:
    from elman.checkpoints.foreign.torch_folder import export_torch

    return export_torch(model, trained.tokenizer.to_json(), out), ()


def _to_keras(
    trained: TrainedModel, model: RecurrentLanguageModel, out: Path
) -> tuple[Proof, tuple[str, ...]]:
    from elman.checkpoints.foreign.keras_file import export_keras

    export = export_keras(model, trained.tokenizer.to_json(), out)
    return export.proof, export.notices


def _to_onnx(
    trained: TrainedModel, model: RecurrentLanguageModel, out: Path
) -> tuple[Proof, tuple[str, ...]]:
    from elman.checkpoints.foreign.onnx_model import language_model_to_onnx
    from elman.checkpoints.foreign.onnx_proof import prove_onnx

    language_model_to_onnx(model, out, trained.tokenizer)
    return prove_onnx(model, out), ()


def _to_python(
    trained: TrainedModel, model: RecurrentLanguageModel, out: Path
) -> tuple[Proof, tuple[str, ...]]:
    from elman.checkpoints.foreign.python_file import export_python, prove_python

    export_python(trained.settings, model, trained.tokenizer.to_json(), out)
    return prove_python(model, out), ()


def _from_torch(request: ImportRequest, notify: Callable[[str], object]) -> _Imported:
    from elman.checkpoints.foreign.torch_file import read_torch_file
    from elman.checkpoints.foreign.torch_folder import import_torch_folder
    from elman.checkpoints.foreign.torch_state import from_torch, prove_torch, without_wrapper

    if request.path.is_dir():
        folder = import_torch_folder(request.path, notify=notify)
        model = _model_of(folder.settings, folder.vocabulary_size, folder.weights)
        exported = read_torch_file(request.path / "weights.safetensors")
        proof = prove_torch(model, exported)
        return _Imported(folder.settings, folder.weights, folder.tokenizer_json, proof)
    state = read_torch_file(request.path, notify=notify)
    settings, size, weights = from_torch(state, kind=request.kind, notify=notify)
    model = _model_of(settings, size, weights)
    return _Imported(settings, weights, None, prove_torch(model, without_wrapper(state)))


def _from_keras(request: ImportRequest, notify: Callable[[str], object]) -> _Imported:
    from elman.checkpoints.foreign.keras_file import (
        import_keras,
        keras_tokenizer_path,
        require_keras_tokenizer,
    )

    found = import_keras(request.path)
    for notice in found.notices:
        notify(notice)
    beside = keras_tokenizer_path(request.path)
    tokenizer_json = read_utf8(beside) if beside.is_file() else None
    if tokenizer_json is not None:
        require_keras_tokenizer(request.path, tokenizer_json)
    return _Imported(found.settings, found.weights, tokenizer_json, found.proof)


def _from_onnx(request: ImportRequest, notify: Callable[[str], object]) -> _Imported:
    from elman.checkpoints.foreign.onnx_model import language_model_from_onnx
    from elman.checkpoints.foreign.onnx_proof import prove_onnx

    found = language_model_from_onnx(request.path)
    proof = prove_onnx(found.model, request.path)
    tokenizer_json = None if found.tokenizer is None else found.tokenizer.to_json()
    return _Imported(found.model.settings, found.model.state_dict(), tokenizer_json, proof)


_Export = Callable[[TrainedModel, RecurrentLanguageModel, Path], tuple[Proof, tuple[str, ...]]]
_Import = Callable[[ImportRequest, Callable[[str], object]], _Imported]
_EXPORTS: Mapping[Target, _Export] = MappingProxyType(
    {"torch": _to_torch, "keras": _to_keras, "onnx": _to_onnx, "py": _to_python}
)
_IMPORTS: Mapping[Source, _Import] = MappingProxyType(
    {"torch": _from_torch, "keras": _from_keras, "onnx": _from_onnx}
)


def _vocabulary(
    request: ImportRequest, imported: _Imported, notices: list[str]
) -> tuple[Tokenizer, Sequence[int] | None]:
    """Return the tokenizer, and the row of the foreign weights that each of its ids has."""
    size = len(imported.weights.get(PLACES, imported.weights["readout.bias"]))
    rows: Sequence[int] | None = None
    if request.vocabulary is not None and request.vocabulary.name.endswith("tokenizer.json"):
        tokenizer = tokenizer_from_json(read_utf8(request.vocabulary))
    elif request.vocabulary is not None:
        foreign = foreign_vocabulary(read_tokens(request.vocabulary), level=request.level)
        tokenizer, rows = foreign.tokenizer, foreign.rows
        notices.extend(foreign.notices)
    elif imported.tokenizer_json is not None:
        tokenizer = tokenizer_from_json(imported.tokenizer_json)
    else:
        raise ConversionError(
            "the file has weights and no vocabulary, which no other can replace",
            hint="give the tokens in the order of their ids with --vocabulary FILE",
        )
    if len(tokenizer.vocabulary) != size:
        raise ConversionError(
            "the vocabulary is not that of the model",
            got=f"{len(tokenizer.vocabulary):,} tokens",
            allowed=f"{size:,}, as the weights have",
        )
    return tokenizer, rows


def _reordered(imported: _Imported, rows: Sequence[int]) -> dict[str, Tensor]:
    """Return the weights with the rows of tokens in our order."""
    order_V = torch.tensor(rows)
    weights = dict(imported.weights)
    by_id = ["embedding.weight", PLACES]
    if PLACES not in weights or imported.settings.tie_weights:
        by_id += ["readout.weight", "readout.bias"]
    for name in by_id:
        if name in weights:
            weights[name] = weights[name].index_select(0, order_V)
    if imported.settings.input == "one-hot":
        name = "stack.cells.0.weight_ih"
        weights[name] = weights[name].index_select(1, order_V)
    return weights


def _model_of(
    settings: ModelSettings, vocabulary_size: int, weights: dict[str, Tensor]
) -> RecurrentLanguageModel:
    model = RecurrentLanguageModel(settings, vocabulary_size, generator(0, "initialisation"))
    model.load_state_dict(weights)
    return model
