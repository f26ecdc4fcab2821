"""The weights of a model: `model.safetensors`, with what they belong to in its header."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from elman.checkpoints.belonging import Belonging
from elman.checkpoints.tensor_file import (
    TensorFile,
    map_tensor_file,
    read_tensor_file,
    read_tensor_header,
    write_tensor_file,
)
from elman.errors import RunError

_MOST_NAMED = 6


@dataclass(frozen=True)
class WeightsRecord:
    """What the header of a weights file tells.

    `update` is the number of the optimiser step after which the weights were these; `aliases` says
    for each tied name under which other name its tensor is stored.
    """

    update: int
    belonging: Belonging
    aliases: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    digest: str


def save_weights(path: Path, model: nn.Module, *, update: int, belonging: Belonging) -> str:
    """Write the weights of `model` to `path`, whole or not at all, and return their digest.

    A tensor that stands under several names is stored once, under the first of them.
    """
    aliases = tied_names(model)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name not in aliases}
    facts = {"aliases": aliases, "update": update, **belonging.to_facts()}
    return write_tensor_file(path, "weights", tensors, facts)


def read_weights_record(path: Path) -> WeightsRecord:
    """Return what the header of `path` tells, without reading the weights. Raises `RunError`."""
    header = read_tensor_header(path, "weights")
    return _record(path, header.facts, header.digest, header.shapes)


def load_weights(path: Path, model: nn.Module) -> WeightsRecord:
    """Put the weights at `path` into `model`, into the tensors that it has.

    Tied names stay one tensor. Raises `RunError`, and leaves the model as it was, where a weight is
    missing, unexpected, of another size or type, tied in one of the two only, altered, or NaN or
    infinite.
    """
    file = read_tensor_file(path, "weights")
    shapes = {name: tuple(tensor.shape) for name, tensor in file.tensors.items()}
    record = _record(path, file.facts, file.digest, shapes)
    own = dict(model.state_dict(keep_vars=True))
    _check_names(path, own, record)
    _check_ties(path, tied_names(model), record)
    _check_sizes(path, own, file)
    file.verify()
    _check_finite(path, file.tensors)
    with torch.no_grad():
        for name, tensor in file.tensors.items():
            own[name].copy_(tensor)
    return record


def map_weights(path: Path) -> tuple[Mapping[str, Tensor], WeightsRecord]:
    """Return the tensors at `path` as the disk has them, verified, and what their header tells.

    For arrays whose sizes only the file knows. Raises `RunError` where they were altered.
    """
    file = map_tensor_file(path, "weights")
    shapes = {name: tuple(tensor.shape) for name, tensor in file.tensors.items()}
    file.verify()
    return file.tensors, _record(path, file.facts, file.digest, shapes)


def tied_names(model: nn.Module) -> dict[str, str]:
    """Return, for each name whose very tensor stands under an earlier name too, that name.

    Tensors that only have equal values are not tied.
    """
    first: dict[tuple[object, ...], str] = {}
    aliases: dict[str, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        memory = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        identity = memory if tensor.numel() else (id(tensor),)
        if identity in first:
            aliases[name] = first[identity]
        else:
            first[identity] = name
    return aliases


def size_text(shape: Iterable[int]) -> str:
    """Return `shape` as errors show it: 65 × 100, or "one number" for a tensor without axes."""
    return " × ".join(str(size) for size in shape) or "one number"


def _record(
    path: Path, facts: Mapping[str, object], digest: str, shapes: Mapping[str, tuple[int, ...]]
) -> WeightsRecord:
    update, aliases = facts.get("update"), facts.get("aliases")
    if (
        not isinstance(update, int)
        or not isinstance(aliases, dict)
        or not all(isinstance(stored, str) for stored in aliases.values())
    ):
        raise RunError(f"{path} has a header without update and aliases", hint="it was altered")
    return WeightsRecord(update, Belonging.from_facts(facts, path), aliases, shapes, digest)


def _check_names(path: Path, own: Mapping[str, Tensor], record: WeightsRecord) -> None:
    resolved = {name for name, stored in record.aliases.items() if stored in record.shapes}
    found = record.shapes.keys() | resolved
    missing = [name for name in own if name not in found]
    unexpected = sorted(found - own.keys())
    if missing or unexpected:
        parts = [f"missing {_listed(missing)}"] if missing else []
        parts += [f"unexpected {_listed(unexpected)}"] if unexpected else []
        raise RunError(
            f"{path} does not hold the weights of this model",
            got=", ".join(parts),
            hint="the model settings in config.toml must be those the weights were made with",
        )


def _check_ties(path: Path, tied: Mapping[str, str], record: WeightsRecord) -> None:
    for pairs, other, one_in, two_in in (
        (record.aliases, tied, "file", "model"),
        (tied, record.aliases, "model", "file"),
    ):
        for name, partner in pairs.items():
            if other.get(name, name) != other.get(partner, partner):
                raise RunError(
                    f"{name} is tied differently in {path} than in the model",
                    got=f"one tensor with {partner} in the {one_in}, two in the {two_in}",
                    hint="model.tie_weights must be as it was when the weights were made",
                )


def _check_sizes(path: Path, own: Mapping[str, Tensor], file: TensorFile) -> None:
    for name in own:  # in the order of the model
        tensor = file.tensors.get(name)
        if tensor is None:  # tied to one that is there
            continue
        if tensor.shape != own[name].shape:
            raise RunError(
                f"{name} has another size in {path} than in the model",
                got=f"{size_text(tensor.shape)} in the file, "
                f"{size_text(own[name].shape)} in the model",
                hint="config.toml or tokenizer.json is not that of these weights",
            )
        if tensor.dtype != own[name].dtype:
            raise RunError(
                f"{name} has another type in {path} than in the model",
                got=f"{tensor.dtype} in the file, {own[name].dtype} in the model",
            )


def _check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise `RunError` naming the first tensor in which NaN or an infinity stands."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or bool(tensor.sum().isfinite()):
            continue  # nothing hides in a finite sum, and a sum is the cheapest of all passes
        if not bool(tensor.isfinite().all()):
            count = int(tensor.numel() - tensor.isfinite().sum())
            raise RunError(
                f"{name} in {path} holds what is no finite number",
                got=f"{count:,} of {tensor.numel():,} values are NaN or infinite",
                hint="restore the file from a copy, or train anew at a lower rate",
            )


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
