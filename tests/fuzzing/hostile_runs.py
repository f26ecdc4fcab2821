"""Small runs of every task, and changes to every file of them."""

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from hostile_bytes import BYTE_CHANGES, change_json, change_toml

from elman.checkpoints.run_folder import RUN_FILES, RunFolder
from elman.checkpoints.tensor_file import read_tensor_file, write_tensor_file
from elman.recipes.classify import ClassifyTask
from elman.recipes.classifying import open_classifier
from elman.recipes.counting import count_run, scored_count_run
from elman.recipes.generating import Writer, WriteRequest
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import finished_report, resume_run, start_run, train_run
from elman.recipes.predicting import predict_file
from elman.recipes.prediction_request import PredictRequest
from elman.recipes.scoring import score_sentences
from elman.recipes.tag import TagTask
from elman.recipes.tagging import open_tagger
from elman.recipes.trained import open_trained, stopped_run, task_of
from elman.recipes.training_request import TrainRequest
from elman.recipes.translate import TranslateTask
from elman.recipes.translating import open_translator

TINY = (
    *("model.hidden_size=6", "model.embedding_size=4", "training.batch_size=4"),
    *("training.updates=4", "training.threads=1"),
)
TEXT = "the cat sat on the mat\na dog ran to the log\n" * 12
TASKS = {
    "char": LanguageTask,
    "bpe": LanguageTask,
    "ngram": LanguageTask,
    "classify": ClassifyTask,
    "series": ClassifyTask,
    "tag": TagTask,
    "translate": TranslateTask,
}
"""The subjects, and the task of each."""
FACTORS = (0.0, -1.0, 1e30, float("nan"), float("inf"))


@dataclass(frozen=True)
class Subject:
    """A run and what is asked of it."""

    name: str
    folder: Path
    asked: Path


def made_data(name: str, folder: Path) -> tuple[Path, Path]:
    """Return a small file to learn from and one to answer."""
    asked = folder / f"{name}_asked.txt"
    asked.write_text("the cat sat\n\na dog\n")
    if name in ("char", "bpe", "ngram"):
        data = folder / f"{name}.txt"
        data.write_text(TEXT)
    elif name == "classify":
        data = folder / "classify.tsv"
        data.write_text("text\tlabel\n" + "a good cat\tyes\na bad dog\tno\n" * 20)
    elif name == "series":
        data, asked = folder / "series.csv", folder / "series_asked.csv"
        data.write_text("1,2,3,up\n3,2,1,down\n" * 20)
        asked.write_text("1,2,4\n3,1,0\n")
    elif name == "tag":
        data = folder / "tag.conll"
        data.write_text("the D\ncat N\nsat V\n\na D\ndog N\n\n" * 20)
    else:
        data = folder / "translate.tsv"
        data.write_text("source\ttarget\n" + "a b c\tc b a\nb a\ta b\n" * 20)
    return data, asked


def overrides_of(name: str, data: Path) -> tuple[str, ...]:
    more = {
        "char": ("training.window=8",),
        "bpe": ("text.level=bpe", "text.vocabulary_size=40", "training.window=8"),
        "ngram": ("model.kind=ngram", "model.order=3"),
        "series": ("model.input=series",),
        "tag": ("model.character_size=4", "model.character_units=4"),
    }.get(name, ())
    tiny = TINY if name != "ngram" else ()
    return (*tiny, *more, f"data.train={json.dumps([str(data)])}")


def make_subject(name: str, folder: Path, *, stop_early: bool = False) -> Subject:
    """Train a small run, to its end or to a place from where it can be resumed."""
    folder.mkdir(parents=True, exist_ok=True)
    data, asked = made_data(name, folder)
    out = folder / f"{name}_run"
    request = TrainRequest(out, overrides=overrides_of(name, data))
    if name == "ngram":
        scored_count_run(count_run(request), on_scored=lambda count: None)
    else:
        run = start_run(TASKS[name](), request)
        train_run(run, should_stop=lambda: stop_early and run.trainer.update >= 2)
    return Subject(name, out, asked)


def use(subject: Subject, *, resume: bool = False) -> None:
    """Open the run in every way that the commands do, and have it answer something short."""
    task = TASKS[subject.name]
    if resume:
        with resume_run(task(), subject.folder).lock:
            return
    task_of(subject.folder)
    stopped_run(subject.folder)
    RunFolder.open(subject.folder).read_metrics()
    if task is LanguageTask:
        trained = open_trained(subject.folder)
        score_sentences(trained, ["the cat sat"])
        Writer(trained, WriteRequest("the", max_tokens=3)).write(lambda text: False)
        return
    opened = {ClassifyTask: open_classifier, TagTask: open_tagger, TranslateTask: open_translator}
    opened[task](subject.folder)
    out = subject.folder.parent / "answers"
    predict_file(subject.folder, PredictRequest(str(subject.asked), out))


def finished(subject: Subject) -> None:
    """Ask how the run ended, as resuming a finished one does."""
    finished_report(TASKS[subject.name](), subject.folder)


class Hostile:
    """A copy of a run in which one thing is changed at a time."""

    def __init__(self, subject: Subject, scratch: Path) -> None:
        self.original = subject
        self.changed = replace(subject, folder=scratch / "run")

    def fresh(self) -> Path:
        """Return the copy as the run was made."""
        folder = self.changed.folder
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.original.folder, folder)
        return folder

    def files(self) -> list[str]:
        """Return the files that the run has."""
        return [name for name in RUN_FILES if (self.original.folder / name).exists()]


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
        return struct.pack("<Q", draw.choice((2**63, 2**64 - 1, 0, size + 1, 99_999_999))) + content[8:]
    if not name or how == 1:
        header["__metadata__"] = draw.choice((None, {}, [], {"elman": "{}"}, {"elman": "[" * 3000}))
    elif how == 2:
        header[name]["shape"] = draw.choice(([2**62], [0], [-1], [2**32, 2**32], [], ["1"], [1] * 999))
    elif how == 3:
        header[name]["dtype"] = draw.choice(("F64", "I8", "BOOL", "BF16", "F8_E4M3", "X", 1, "F4", "C64"))
    elif how == 4:
        header[name]["data_offsets"] = draw.choice(([0, 2**62], [4, 0], [-1, 3], [0, 0], [], [2**64, 1]))
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
    content = "weights" if name.startswith("model") else "training state"
    file = read_tensor_file(folder / name, content)  # type: ignore[arg-type]
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
            number = draw.choice(FACTORS) if one.is_floating_point() else draw.choice((-1, 2**40))
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
    write_tensor_file(folder / name, content, tensors, facts)  # type: ignore[arg-type]
    return told_how
