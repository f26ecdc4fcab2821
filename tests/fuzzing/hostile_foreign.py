"""Models of other programs: exports of a run and files of torch, spoilt and imported again."""

import importlib.util
import io
import os
import random
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import torch
from hostile_bytes import BYTE_CHANGES, Change, change_json
from hostile_runs import change_kind, change_tensor_header
from outcomes import Attempt
from safetensors.torch import save_file
from small_runs import make_run

from elman.recipes.converting import ImportRequest, Source, export_run, import_model

TOKENS = "\n".join(("<unk>", "<eos>", "the", "cat", "sat", "on", "mat")) + "\n"
NEEDED = {"keras": ("keras",), "onnx": ("onnx", "onnxruntime"), "torch": ()}


@dataclass
class HostileModel:
    """A file or a folder that `elman convert` reads."""

    kind: str
    source: Source
    scratch: Path = Path()

    @property
    def name(self) -> str:
        """How the subject is called."""
        return f"model: {self.kind}"

    @property
    def missing(self) -> str:
        """The first package that this needs and that is not installed, or ""."""
        absent = [one for one in NEEDED[self.source] if importlib.util.find_spec(one) is None]
        return absent[0] if absent else ""

    def prepare(self, scratch: Path) -> None:
        """Write the model that is then spoilt."""
        os.environ.setdefault("KERAS_BACKEND", "torch")
        self.scratch = scratch
        good = scratch / "good"
        good.mkdir()
        if self.kind in ("torch", "keras", "onnx"):
            suffix = {"torch": "", "keras": ".keras", "onnx": ".onnx"}[self.kind]
            run = make_run("char", scratch).folder
            export_run(run, self.source, good / f"model{suffix}")  # type: ignore[arg-type]
            return
        (good / "tokens.txt").write_text(TOKENS)
        state = word_model_state()
        if self.kind == "safetensors":
            save_file(state, good / "model.safetensors", {"format": "pt"})
        else:
            zipped = self.kind == "pt"
            torch.save(state, good / "model.pt", _use_new_zipfile_serialization=zipped)

    def attempt(self, draw: random.Random) -> Attempt:
        """Return what was changed, and the import of it."""
        folder = self.scratch / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.scratch / "good", folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        path = draw.choice([*files, *(one for one in files if one.suffix != ".txt")])
        model = sorted(folder.glob("model*"))[0]
        if draw.random() < 0.04 and path.suffix != ".txt":  # a text may well come from a pipe
            told = change_kind(draw, path)
        else:
            told, content = changed_model(draw, path.name, path.read_bytes())
            path.write_bytes(content)
        tokens = folder / "tokens.txt"
        vocabulary = tokens if (self.scratch / "good" / tokens.name).exists() else None
        request = ImportRequest(model, self.source, vocabulary=vocabulary)
        return Attempt(f"{path.name}: {told}", lambda: import_model(request, folder / "run"))


def word_model_state() -> dict[str, torch.Tensor]:
    """Return the state dict of a small word model as PyTorch's example names it."""
    size = len(TOKENS.split())
    parts = {
        "encoder": torch.nn.Embedding(size, 4),
        "rnn": torch.nn.GRU(4, 5),
        "decoder": torch.nn.Linear(5, size),
    }
    return {
        f"{part}.{name}": tensor.detach().clone()
        for part, module in parts.items()
        for name, tensor in module.state_dict().items()
    }


def changed_model(draw: random.Random, name: str, content: bytes) -> tuple[str, bytes]:
    """Return what was done to the file `name`, and what came of it."""
    changes: list[Change] = list(BYTE_CHANGES)
    if name.endswith(".json"):
        changes += [change_json] * 8
    elif name.endswith(".safetensors"):
        changes += [change_tensor_header] * 8
    elif zipfile.is_zipfile(io.BytesIO(content)):
        changes += [change_member] * 14
    change = draw.choice(changes)
    try:
        return change.__name__, change(draw, content)
    except (ValueError, TypeError, KeyError):
        return "nothing", content


def change_member(draw: random.Random, content: bytes) -> bytes:
    """Change, rename, repeat, drop or blow up one member of a zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    chosen = draw.choice(sorted(members))
    how = draw.randrange(10)
    out = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if how == 5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", packing) as made:
        for name, member in members.items():
            changed, called = member, name
            if name == chosen and how > 5:
                json_too = [change_json] * 8 if name.endswith(".json") else []
                changed = draw.choice([*BYTE_CHANGES, *json_too])(draw, member)
            elif name == chosen and how == 0:
                continue
            elif name == chosen and how == 1:
                called = draw.choice(("../../x", "/etc/x", "a/../../b", "x" * 3000, name + "\0"))
            elif name == chosen and how == 5:
                changed = member + b"\0" * 300_000_000
            made.writestr(called, changed)
            if name == chosen and how == 2:
                made.writestr(called + "2", changed)
    return out.getvalue()


def foreign_subjects(*, every: bool = False) -> list[HostileModel]:
    """Return every format of a model that is read, where its packages are installed, or `every`."""
    subjects = (
        *(HostileModel("torch", "torch"), HostileModel("pt", "torch")),
        *(HostileModel("pt, old", "torch"), HostileModel("safetensors", "torch")),
        *(HostileModel("keras", "keras"), HostileModel("onnx", "onnx")),
    )
    return [subject for subject in subjects if every or not subject.missing]
