"""Changes to every file of a run, of which each must be told in one line or do no harm."""

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from hostile_bytes import BYTE_CHANGES, change_json, change_toml
from outcomes import Attempt
from small_runs import TASKS, SmallRun, make_run, use

from elman.checkpoints.run_folder import (
    CONFIG,
    RUN_FILES,
    STATE,
    VOCABULARIES,
    WEIGHTS,
    RunFolder,
    vocabulary_files,
)
from elman.checkpoints.tensor_file import Content, read_tensor_file, write_tensor_file
from elman.config.toml_file import settings_from_toml

ODD_VALUES = (0.0, -1.0, 1e30, float("nan"), float("inf"))
SEALED: dict[str, Content] = {WEIGHTS: "weights", STATE: "training state"}


class HostileRun:
    """One kind of run; each attempt is a copy of it in which one thing was changed."""

    def __init__(self, kind: str, *, resume: bool = False) -> None:
        self.name = f"run: {kind}" + (", stopped" if resume else "")
        self.kind, self.resume = kind, resume
        self._run: SmallRun | None = None
        self._changed: SmallRun | None = None

    def prepare(self, scratch: Path) -> None:
        """Train the run that is then changed."""
        self._run = make_run(self.kind, scratch, stop_early=self.resume)
        self._changed = replace(self._run, folder=scratch / "changed")

    def attempt(self, draw: random.Random) -> Attempt:
        """Return what was changed, and the use of it."""
        assert self._run is not None
        assert self._changed is not None
        changed = self._changed
        folder = fresh_copy(self._run.folder, changed.folder)
        name = draw.choice([name for name in RUN_FILES if (folder / name).exists()])
        way = draw.random()
        if way < 0.08:
            told = change_kind(draw, folder / name)
        elif way < 0.35 and name in SEALED:
            told = change_sealed(draw, folder, name)
        else:
            how, content = changed_bytes(draw, name, (folder / name).read_bytes())
            (folder / name).write_bytes(content)
            told = how
            if way > 0.5 and name in (CONFIG, *VOCABULARIES) and seal_again(folder):
                told = f"{how}, sealed"
        return Attempt(f"{name}: {told}", lambda: use(changed, resume=self.resume))


def run_subjects() -> list[HostileRun]:
    """Return every kind of run, and those that can be resumed after a stop."""
    stopped = [HostileRun(kind, resume=True) for kind in ("char", "classify", "translate")]
    return [*(HostileRun(kind) for kind in TASKS), *stopped]


def fresh_copy(original: Path, folder: Path) -> Path:
    """Return `folder`, as the run was made."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    return folder


def changed_bytes(draw: random.Random, name: str, content: bytes) -> tuple[str, bytes]:
    """Return what was done to the content of the file `name`, and what came of it."""
    changes = list(BYTE_CHANGES)
    if name.endswith(".json"):
        changes += [change_json] * 8
    elif name.endswith(".toml"):
        changes += [change_toml] * 8
    elif name.endswith(".safetensors"):
        changes += [change_tensor_header] * 8
    change = draw.choice(changes)
    return change.__name__, change(draw, content)


def change_tensor_header(draw: random.Random, content: bytes) -> bytes:
    """Change sizes, types, names or places in the header of a safetensors file."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    data = content[8 + size :]
    how = draw.randrange(8)
    names = [name for name in header if name != "__metadata__"]
    name = draw.choice(names) if names else ""
    if how == 0:
        return (
            struct.pack("<Q", draw.choice((2**63, 2**64 - 1, 0, size + 1, 99_999_999)))
            + content[8:]
        )
    if not name or how == 1:
        header["__metadata__"] = draw.choice((None, {}, [], {"elman": "{}"}, {"elman": "[" * 3000}))
    elif how == 2:
        header[name]["shape"] = draw.choice(
            ([2**62], [0], [-1], [2**32, 2**32], [], ["1"], [1] * 999)
        )
    elif how == 3:
        header[name]["dtype"] = draw.choice(
            ("F64", "I8", "BOOL", "BF16", "F8_E4M3", "X", 1, "F4", "C64")
        )
    elif how == 4:
        header[name]["data_offsets"] = draw.choice(
            ([0, 2**62], [4, 0], [-1, 3], [0, 0], [], [2**64, 1])
        )
    elif how == 5:
        header[draw.choice(("../x", "/etc/x", "\0", "", "x" * 9999, "a\nb"))] = header.pop(name)
    elif how == 6:
        spelt = json.dumps(header).encode()
        spelt = spelt[:-1] + b"," + spelt[1:]
        return struct.pack("<Q", len(spelt)) + spelt + data
    else:
        header["__metadata__"]["elman"] = change_json(
            draw, header["__metadata__"]["elman"].encode()
        ).decode("utf-8", "replace")
    spelt = json.dumps(header).encode()
    return struct.pack("<Q", len(spelt)) + spelt + data


def change_kind(draw: random.Random, path: Path) -> str:
    """Put something that is no file, or a link, in the place of the file at `path`."""
    beside = path.with_name("other")
    kinds: dict[str, Callable[[], object]] = {
        "gone": lambda: None,
        "a folder": path.mkdir,
        "a fifo": lambda: os.mkfifo(path),
        "a link to zeros": lambda: path.symlink_to("/dev/zero"),
        "a link to itself": lambda: path.symlink_to(path.name),
        "a link to a folder": lambda: path.symlink_to(path.parent),
        "a link to nothing": lambda: path.symlink_to(beside),
        "a link to a fifo": lambda: (os.mkfifo(beside), path.symlink_to(beside)),
        "a file not to be read": lambda: (path.touch(), path.chmod(0)),
    }
    kind = draw.choice(list(kinds))
    path.unlink()
    kinds[kind]()
    return kind


def change_sealed(draw: random.Random, folder: Path, name: str) -> str:
    """Change tensors or facts of a tensor file and write it with a right digest again."""
    content = SEALED[name]
    file = read_tensor_file(folder / name, content)
    tensors, facts = dict(file.tensors), dict(file.facts)
    names = sorted(tensors)
    chosen = draw.choice(names) if names else ""
    how = draw.choice(("value", "shape", "type", "name", "gone", "fact", "fact", "value"))
    if how == "fact" or not chosen:
        told = json.loads(change_json(draw, json.dumps(facts).encode()))
        facts = told if isinstance(told, dict) else facts
        told_how = "fact"
    else:
        one = tensors[chosen]
        told_how = f"{how} of {chosen}"
        if how == "value" and one.numel():
            place = draw.randrange(one.numel())
            one = one.clone()
            number = (
                draw.choice(ODD_VALUES) if one.is_floating_point() else draw.choice((-1, 2**40))
            )
            with torch.no_grad():
                flat = one.reshape(-1)
                flat[place if draw.random() < 0.5 else slice(None)] = (
                    number if one.dtype in (torch.float32, torch.float64, torch.int64) else 1
                )
            tensors[chosen] = flat.reshape(one.shape)
        elif how == "shape":
            tensors[chosen] = torch.cat((one.reshape(-1), one.reshape(-1)))
        elif how == "type":
            tensors[chosen] = one.to(draw.choice((torch.float16, torch.int64, torch.bool)))
        elif how == "name":
            tensors["../x"] = tensors.pop(chosen)
        elif how == "gone":
            del tensors[chosen]
    try:
        write_tensor_file(folder / name, content, tensors, facts)
    except (TypeError, ValueError, RecursionError):  # facts that no header can hold
        return f"{told_how}, not written"
    return told_how


def seal_again(folder: Path) -> bool:
    """Have weights and state belong to the vocabularies and settings that now lie beside them."""
    try:
        settings = settings_from_toml((folder / CONFIG).read_text("utf-8"))
        names = vocabulary_files(settings.model)
        texts = {name: (folder / name).read_text("utf-8") for name in names}
        facts = RunFolder(folder, settings, texts).belonging.to_facts()
        for name, content in SEALED.items():
            if (folder / name).exists():
                file = read_tensor_file(folder / name, content)
                write_tensor_file(folder / name, content, file.tensors, {**file.facts, **facts})
    except Exception:  # what is wrong with the files is for the attempt to tell
        return False
    return True
