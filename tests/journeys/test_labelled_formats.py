"""Labelled rows in every format that a person has them in: the same rows, the same model."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
BRIEF = (
    *("--set=model.hidden_size=8", "--set=model.embedding_size=8", "--set=training.updates=6"),
    *("--set=text.level=word", "--set=training.batch_size=8"),
)
ROWS = [
    (
        f"{'good' if number % 3 else 'bad'}, {word} number {number % 9}",
        "yes" if number % 3 else "no",
    )
    for number, word in enumerate(["film", "plot", "cast", "end"] * 15)
]
TSV = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS)


def write_as(kind: str, folder: Path) -> tuple[Path, str]:
    """Write the rows in a format; return what to name, and what standard input then holds."""
    path = folder / f"rows.{kind}"
    if kind == "csv":
        cells = "".join(f'"{text}",{label}\n' for text, label in ROWS)
        path.write_text(f"text,label\n{cells}", encoding="utf-8")
    elif kind == "jsonl":
        objects = (json.dumps({"text": text, "label": label}) for text, label in ROWS)
        path.write_text("".join(f"{line}\n" for line in objects), encoding="utf-8")
    elif kind == "tsv.gz":
        path.write_bytes(gzip.compress(TSV.encode()))
    elif kind == "-":
        return Path("-"), TSV
    else:
        path.write_text(TSV, encoding="utf-8")
    return path, ""


@pytest.fixture(scope="module")
def weights_of_tsv(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("tsv")
    path, _ = write_as("tsv", folder)
    done = elman("train", "classify", "--data", path, "--out", folder / "run", *BRIEF)
    assert done.returncode == 0, done.stderr
    return (folder / "run" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "tsv.gz", "-"])
def test_the_same_rows_in_another_format_give_the_same_weights(
    elman: Elman, weights_of_tsv: bytes, tmp_path: Path, kind: str
) -> None:
    name, given = write_as(kind, tmp_path)
    run = tmp_path / "run"
    options = ("--format", "tsv") if kind == "-" else ()
    done = elman("train", "classify", "--data", name, "--out", run, *options, *BRIEF, stdin=given)
    assert done.returncode == 0, done.stderr
    assert (run / "model.safetensors").read_bytes() == weights_of_tsv
    done = elman("predict", run, name, *options, stdin=given)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == len(ROWS)
    if kind == "-":
        return
    done = elman("score", run, name, "--json")
    assert json.loads(done.stdout)["num_rows"] == len(ROWS), done.stderr


@pytest.mark.parametrize("kind", ["class-files", "class-folders"])
def test_a_folder_of_classes_is_learnt_scored_and_checked(
    elman: Elman, tmp_path: Path, kind: str
) -> None:
    folder, run = tmp_path / "classes", tmp_path / "run"
    for label in ("yes", "no"):
        texts = [text for text, its in ROWS if its == label]
        (folder / label).mkdir(parents=True)
        for number, text in enumerate(texts):
            (folder / label / f"{number:03}.txt").write_text(f"{text}\n", encoding="utf-8")
        if kind == "class-files":
            for path in (folder / label).iterdir():
                path.unlink()
            (folder / label).rmdir()
            lines = "".join(f"{text}\n" for text in texts)
            (folder / f"{label}.txt").write_text(lines, encoding="utf-8")
    done = elman("train", "classify", "--data", folder, "--out", run, *BRIEF)
    assert done.returncode == 0, done.stderr
    labels = json.loads((run / "labels.json").read_text(encoding="utf-8"))["labels"]
    assert [entry["label"] for entry in labels] == ["no", "yes"]
    figures = json.loads(elman("score", run, folder, "--json").stdout)
    assert (figures["num_rows"], figures["num_known_rows"]) == (len(ROWS), len(ROWS))
    checked = json.loads(elman("data", "check", folder, "--json").stdout)
    assert checked["files"][0]["rows"] == len(ROWS)


def test_options_of_language_models_are_refused_and_kernels_are_told(
    elman: Elman, tmp_path: Path
) -> None:
    path, _ = write_as("tsv", tmp_path)
    run = tmp_path / "run"
    done = elman("train", "classify", "--data", path, "--out", run, *BRIEF, "--verbose")
    assert done.returncode == 0, done.stderr
    assert "lstm: " in done.stderr
    kernels = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["kernels"]
    assert {"choice", "precision", "lstm"} <= kernels.keys()
    done = elman("score", run, path, "--verbose", "--json")
    assert (done.returncode, json.loads(done.stdout)["num_rows"]) == (0, len(ROWS))
    assert "lstm, reading: " in done.stderr
    done = elman("score", run, path, "--precision", "int8")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--precision is for language models; got int8" in done.stderr
