"""Tensors from a file of torch or safetensors, without executing anything that stands in it."""

import io
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from elman.atomic_files import read_whole
from elman.errors import ConversionError, one_line

_WRAPPERS = ("state_dict", "model")
_RE_SAVE = "save the weights alone: torch.save(model.state_dict(), path)"
_FOREIGN_OBJECT = re.compile(r"GLOBAL ([\w.]+)")


def no_notice(notice: str) -> None:
    """Take a notice and drop it."""


def read_torch_file(
    path: Path, *, notify: Callable[[str], object] = no_notice
) -> dict[str, Tensor]:
    """Return the tensors in the file at `path` by name, on the CPU, of the types they have there.

    A name ending in .safetensors is read as such; a tensor that only its metadata names, under the
    name of one that is stored (tied weights), is that very tensor. Any other file is one that torch
    has saved. A state dict that lies within a dict, under `state_dict` or `model`, is taken out;
    `notify` is told so.

    Raises `ConversionError` for a file that holds a whole module, or anything but tensors, or is
    broken; nothing in it is executed. Raises `RunError` where the file cannot be read.
    """
    content = read_whole(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path, content)
    return _tensors_of(path, _read_saved(path, content), notify)


def _read_safetensors(path: Path, content: bytes) -> dict[str, Tensor]:
    try:
        tensors = dict(sorted(load(content).items()))  # the library's order varies
        metadata = _metadata(content)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise ConversionError(
            f"{path} is no safetensors file, is cut short or was altered",
            got=one_line(str(error)),
            hint="restore it from a copy",
        ) from None
    for name, stored in metadata.items():
        if stored in tensors and name not in tensors:
            tensors[name] = tensors[stored]
    return tensors


def _metadata(content: bytes) -> dict[str, str]:
    length = int.from_bytes(content[:8], "little")
    found = json.loads(content[8 : 8 + length]).get("__metadata__")
    return found if isinstance(found, dict) else {}


def _read_saved(path: Path, content: bytes) -> object:
    try:
        with warnings.catch_warnings():  # what torch warns of is refused here
            warnings.simplefilter("ignore")
            return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # what a file makes torch raise is of no fixed kind
        # torch's own words are not handed on: they advise to load without the restriction.
        found = _FOREIGN_OBJECT.search(str(error))
        if found is None and "TorchScript" not in str(error):
            raise ConversionError(
                f"{path} cannot be read as tensors that torch has saved",
                got="another format, or a file that is cut short",
                hint=_RE_SAVE,
            ) from None
        raise ConversionError(
            f"{path} holds more than tensors, and reading that would execute code",
            got=f"an object of {found[1]}" if found else "a TorchScript program",
            hint=f"{_RE_SAVE} where the class is known",
        ) from None


def _tensors_of(path: Path, value: object, notify: Callable[[str], object]) -> dict[str, Tensor]:
    if not isinstance(value, Mapping):
        raise ConversionError(
            f"{path} must hold a state dict", got=type(value).__name__, hint=_RE_SAVE
        )
    wrapped = [key for key in _WRAPPERS if isinstance(value.get(key), Mapping)]
    if len(wrapped) == 1:
        left = [str(key) for key in value if key != wrapped[0]]
        beside = f"; left aside: {', '.join(left)}" if left else ""
        notify(f"took the state dict under {wrapped[0]!r} in {path}{beside}")
        value = value[wrapped[0]]
    assert isinstance(value, Mapping)
    odd = [f"{key} ({_kind(item)})" for key, item in value.items() if not _is_plain(key, item)]
    if odd or not value:
        raise ConversionError(
            f"{path} must hold named tensors and nothing else",
            got=", ".join(odd) or "nothing",
            hint=_RE_SAVE,
        )
    return {key: tensor.detach() for key, tensor in value.items()}


def _is_plain(key: object, item: object) -> bool:
    return (
        isinstance(key, str)
        and isinstance(item, Tensor)
        and item.layout == torch.strided
        and item.device.type == "cpu"
        and not item.is_quantized
    )


def _kind(item: object) -> str:
    if not isinstance(item, Tensor):
        return type(item).__name__
    return f"tensor on {item.device.type}, {item.layout}".replace("torch.", "")
