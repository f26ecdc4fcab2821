"""Tensors and facts in one safetensors file that checks itself.

The header of a safetensors file has a free table of strings. All facts stand there as one JSON
string under one key: the library writes several keys in an order that changes from call to call,
and equal runs must give equal files. The digest covers the facts and, of each tensor, name, type,
shape and bytes, so that nothing in the file can change unseen.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from elman.atomic_files import read_whole, require_file, write_atomically
from elman.checkpoints.json_values import exact_json, value_of_exact_json
from elman.checkpoints.schema import SCHEMA_VERSION, check_schema_version
from elman.errors import RunError, one_line

Content = Literal["weights", "training state", "generation state"]
HEADER_KEY = "elman"
# What the library raises for files that were cut, altered, or use types it does not know.
_BROKEN = (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError)


class TensorFile(NamedTuple):
    """What a file holds. `digest` is what it says of itself; `verify` holds it to that."""

    path: Path
    content: Content
    tensors: dict[str, Tensor]
    facts: dict[str, object]
    digest: str

    def verify(self) -> None:
        """Raise `RunError` where tensors or facts are not those that were written."""
        if tensors_digest(self.content, self.tensors, self.facts) != self.digest:
            raise RunError(
                f"{self.path} was altered after it was written",
                got="contents that disagree with the digest in its header",
                hint="restore it from a copy",
            )


class TensorFileHeader(NamedTuple):
    """What the header alone tells: facts, digest, and the shape of each tensor."""

    facts: dict[str, object]
    digest: str
    shapes: dict[str, tuple[int, ...]]


def write_tensor_file(
    path: Path, content: Content, tensors: Mapping[str, Tensor], facts: Mapping[str, object]
) -> str:
    """Write `tensors` and `facts` to `path` at once or not at all; return their digest.

    Tensors may lie on any device, be strided, and share memory: each is written on its own. Facts
    are what `exact_json` takes. Raises `RunError` where the disk refuses.
    """
    own = {name: _own_bytes(tensor) for name, tensor in sorted(tensors.items())}
    digest = tensors_digest(content, own, facts)
    header = exact_json(
        {
            "content": content,
            "digest": digest,
            "facts": facts,
            "schema_version": SCHEMA_VERSION,
        }
    )
    write_atomically(path, save(own, {HEADER_KEY: header}))
    return digest


def map_tensor_file(path: Path, content: Content) -> TensorFile:
    """Return what the file at `path` holds, its tensors mapped from the disk, not yet verified.

    Nothing is read before it is used, and the file must stay as it is. Raises `RunError`.
    """
    header = read_tensor_header(path, content)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in sorted(header.shapes)}
    except _BROKEN as error:
        raise _broken(path, error) from None
    return TensorFile(path, content, tensors, header.facts, header.digest)


def read_tensor_file(path: Path, content: Content) -> TensorFile:
    """Return what the file at `path` holds, not yet verified. Raises `RunError`."""
    header = read_tensor_header(path, content)
    try:
        tensors = dict(sorted(load(read_whole(path)).items()))  # the library's order varies
    except _BROKEN as error:
        raise _broken(path, error) from None
    return TensorFile(path, content, tensors, header.facts, header.digest)


def read_tensor_header(path: Path, content: Content) -> TensorFileHeader:
    """Return what the header of `path` tells, without reading tensors.

    Raises `RunError` where the file is cut or broken, holds something else, or is of a newer
    format.
    """
    require_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            shapes = {
                name: tuple(int(size) for size in file.get_slice(name).get_shape())
                for name in file.keys()  # noqa: SIM118 — the object is no mapping
            }
    except OSError as error:
        denied = path.exists() and not os.access(path, os.R_OK)
        reason = "it must not be read by this user" if denied else error.strerror or str(error)
        raise RunError(f"cannot read {path}", got=reason) from None
    except _BROKEN as error:
        raise _broken(path, error) from None
    return _header_of(path, content, metadata.get(HEADER_KEY), shapes)


def tensors_digest(
    content: Content, tensors: Mapping[str, Tensor], facts: Mapping[str, object]
) -> str:
    """Return the SHA-256 of facts, and of name, type, shape and bytes of each tensor by name."""
    sha = hashlib.sha256(exact_json([SCHEMA_VERSION, content, facts]).encode())
    for name, tensor in sorted(tensors.items()):
        kind = str(tensor.dtype).removeprefix("torch.")
        sha.update(exact_json([name, kind, list(tensor.shape)]).encode())
        sha.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def _own_bytes(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        return tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)


def _header_of(
    path: Path, content: Content, header: str | None, shapes: dict[str, tuple[int, ...]]
) -> TensorFileHeader:
    if header is None:
        raise RunError(
            f"{path} was not written by elman",
            got="a safetensors file without the header of a run",
        )
    try:
        table = value_of_exact_json(header)
    except ValueError as error:
        raise _broken(path, error) from None
    if not isinstance(table, dict):
        raise _broken(path, "a header that is no table")
    check_schema_version(table.get("schema_version"), str(path))
    try:
        rewritten = exact_json(table)
    except (TypeError, RecursionError) as error:
        raise _broken(path, error) from None
    if rewritten != header:  # the same values, but spelt as they were not written
        raise _broken(path, "a header that is spelt differently than it was written")
    if table.get("content") != content:
        raise RunError(f"{path} does not hold {content}", got=str(table.get("content")))
    facts, digest = table.get("facts"), table.get("digest")
    if not isinstance(facts, dict) or not isinstance(digest, str):
        raise _broken(path, "a header without facts and digest")
    return TensorFileHeader(facts, digest, shapes)


def _broken(path: Path, reason: object) -> RunError:
    return RunError(
        f"{path} is cut short or was altered",
        got=one_line(str(reason)),
        hint="restore it from a copy",
    )
