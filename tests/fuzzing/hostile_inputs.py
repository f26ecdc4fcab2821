"""Data, settings and counts that a person hands over: good files, spoilt, and read as usual."""

import gzip
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostile_bytes import BYTE_CHANGES, Change, change_json, change_toml
from outcomes import Attempt
from small_runs import TASKS, TINY, make_run

from elman.config.checks import check_settings
from elman.config.settings import Settings
from elman.config.toml_file import settings_from_toml, settings_to_toml
from elman.recipes.check_rows import CheckRequest
from elman.recipes.converting import ImportRequest, export_run, import_model
from elman.recipes.counting import count_run, scored_count_run
from elman.recipes.data_check import check_data
from elman.recipes.learning import start_run
from elman.recipes.minimal_pairs import judge_pairs
from elman.recipes.trained import TrainedModel, open_trained
from elman.recipes.training_request import TrainRequest

ENCODINGS = ("utf-8", "utf-8", "utf-16", "utf-16-le", "utf-32", "latin-1", "gb18030", "utf-7")
TEXT = "Die Katze saß auf der Matte.\r\nναι, 猫 sat\n\n\tthe end of it\n" * 9
ROWS = (("a good cat", "yes"), ("a bad dog", "no"), ('one "q", two', "yes")) * 6
CONLLU = (
    "# text = du chat\n1-2\tdu"
    + "\t_" * 8
    + "\n1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_\n"
    + ("2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_\n3.1\tvu\tvoir\tVERB\t_\t_\t_\t_\t3:x\t_\n\n")
)
DATA: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "text.txt": ("char", TEXT, ()),
    "lines.txt": ("char", TEXT, ("text.unit=line",)),
    "words.txt": ("char", TEXT, ("text.level=word",)),
    "counted.txt": ("ngram", TEXT, ("model.kind=ngram", "model.order=3")),
    "rows.tsv": ("classify", "text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in ROWS), ()),
    "rows.csv": (
        "classify",
        "text,label\n" + "".join('"{}",{}\n'.format(a.replace('"', '""'), b) for a, b in ROWS),
        (),
    ),
    "rows.jsonl": (
        "classify",
        '{"text": "a good \\u00e4", "label": "yes"}\n{"text": "bad", "label": "no"}\n' * 9,
        (),
    ),
    "numbers.csv": ("series", "1,2.5,-3e2,up\n3,2,1,down\n" * 9, ("model.input=series",)),
    "tags.conll": ("tag", "the D\ncat N\n\n-DOCSTART- O\n\na D\nB-dog I-N\n\n" * 9, ()),
    "tags.conllu": ("tag", CONLLU * 9, ()),
    "pairs.tsv": ("translate", "source\ttarget\n" + "a b c\tc b a\nb é\té b\n" * 9, ()),
}


@dataclass
class HostileData:
    """One file of data; it is checked, and a run is begun with it."""

    file: str
    scratch: Path = Path()

    @property
    def name(self) -> str:
        """How the subject is called."""
        return f"data: {self.file}"

    def prepare(self, scratch: Path) -> None:
        """Take note of the folder."""
        self.scratch = scratch

    def attempt(self, draw: random.Random) -> Attempt:
        """Return what was changed, and the reading of it."""
        kind, text, more = DATA[self.file]
        encoding = draw.choice(ENCODINGS)
        path = self.scratch / self.file
        told, content = changed_content(draw, self.file, text.encode(encoding, "replace"))
        if draw.random() < 0.2:
            content = gzip.compress(content, mtime=0)
            if draw.random() < 0.7:
                told, content = changed_content(draw, "packed", content)
            told = f"gzip, {told}"
        path.write_bytes(content)
        told_encoding = encoding if draw.random() < 0.8 else draw.choice(ENCODINGS)
        bad_rows = draw.choice(("refuse", "skip"))
        asked = (*more, f"text.encoding={told_encoding}")
        if kind not in ("char", "ngram"):
            asked = (*asked, f"data.bad_rows={bad_rows}")
        return Attempt(f"{told}, {asked}", lambda: self._read(path, kind, asked, told_encoding))

    def _read(self, path: Path, kind: str, asked: tuple[str, ...], encoding: str) -> None:
        series = kind == "series"
        check_data(CheckRequest((str(path),), series=series, encoding=encoding), self.scratch)
        out = self.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        tiny = () if kind == "ngram" else TINY
        request = TrainRequest(out, overrides=(*tiny, *asked, f'data.train=["{path}"]'))
        if kind == "ngram":
            scored_count_run(count_run(request), on_scored=lambda count: None)
        else:
            start_run(TASKS[kind](), request).lock.release()


@dataclass
class HostileSettings:
    """A settings file with every setting in it."""

    name: str = "settings.toml"

    def prepare(self, scratch: Path) -> None:
        """Do nothing: settings are read from memory."""

    def attempt(self, draw: random.Random) -> Attempt:
        """Return what was changed, and the reading of it."""
        text = settings_to_toml(Settings())
        told, content = changed_content(draw, "settings.toml", text.encode())

        def use() -> None:
            settings = settings_from_toml(content.decode("utf-8", "surrogateescape"))
            check_settings(settings)
            settings_to_toml(settings)

        return Attempt(told, use)


@dataclass
class HostilePairs:
    """A file of minimal pairs, judged by a run."""

    name: str = "minimal pairs"
    scratch: Path = Path()
    trained: TrainedModel | None = None

    def prepare(self, scratch: Path) -> None:
        """Train the run that judges."""
        self.scratch = scratch
        self.trained = open_trained(make_run("char", scratch).folder)

    def attempt(self, draw: random.Random) -> Attempt:
        """Return what was changed, and the judging."""
        good = "the cat sat\tthe cat sit\nthe dog\tteh dog\tspelling\n\n" * 4
        path = self.scratch / "pairs.tsv"
        told, content = changed_content(draw, "pairs.tsv", good.encode())
        path.write_bytes(content)
        trained = self.trained
        assert trained is not None
        return Attempt(told, lambda: judge_pairs(trained, path, encoding="utf-8"))


@dataclass
class HostileArpa:
    """A file of counts in the ARPA format, with its tokenizer beside it or without."""

    name: str = "counts.arpa"
    scratch: Path = Path()

    def prepare(self, scratch: Path) -> None:
        """Count a run and write it as ARPA."""
        self.scratch = scratch
        export_run(make_run("ngram", scratch).folder, "arpa", scratch / "good" / "counts.arpa")

    def attempt(self, draw: random.Random) -> Attempt:
        """Return what was changed, and the import."""
        folder = self.scratch / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.scratch / "good", folder)
        files = sorted(folder.iterdir())
        path = draw.choice([*files, *files[:1] * 3])
        told, content = changed_content(draw, path.name, path.read_bytes())
        path.write_bytes(content)
        if draw.random() < 0.3:
            files[-1].unlink()
        request = ImportRequest(folder / "counts.arpa", "arpa", level="char")
        return Attempt(f"{path.name}: {told}", lambda: import_model(request, folder / "run"))


def changed_content(draw: random.Random, name: str, content: bytes) -> tuple[str, bytes]:
    """Return what was done to the content of a file of this name, and what came of it."""
    changes: list[Change] = list(BYTE_CHANGES)
    if name.endswith(".jsonl"):
        changes += [change_json_line] * 6
    elif name.endswith(".json"):
        changes += [change_json] * 6
    elif name.endswith(".toml"):
        changes += [change_toml] * 8
    change = draw.choice(changes)
    try:
        return change.__name__, change(draw, content)
    except ValueError:  # in this encoding it is no JSON
        return "nothing", content


def change_json_line(draw: random.Random, content: bytes) -> bytes:
    """Change one value in one of the lines."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines) - 1)
    lines[place] = change_json(draw, lines[place])
    return b"\n".join(lines)


def input_subjects() -> list[HostileData | HostileSettings | HostilePairs | HostileArpa]:
    """Return every kind of file that is read, but models of other programs."""
    return [*map(HostileData, DATA), HostileSettings(), HostilePairs(), HostileArpa()]
