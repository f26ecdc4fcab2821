"""A run that training has not ended is told so wherever it is put to use."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from elman.recipes.generating import write_together

SMALLEST = ("--set=model.hidden_size=4", "--set=model.embedding_size=4")
Elman = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def stopped(stream_run: Path, tmp_path: Path) -> Path:
    """A copy of a run of 60 updates, as it was after these when it was to make 280."""
    run = tmp_path / "stopped"
    shutil.copytree(stream_run, run)
    config = (run / "config.toml").read_text(encoding="utf-8")
    assert "updates = 60" in config
    (run / "config.toml").write_text(config.replace("updates = 60", "updates = 280"))
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["results"] = {"model": manifest["results"]["model"]}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return run


def test_scores_and_texts_of_a_stopped_run_come_with_a_note(
    elman: Elman, stopped: Path, stream_run: Path, story: Path
) -> None:
    note = (
        f"note: the run {stopped} was stopped before its end: it stands after 60 of 280 updates; "
        f"go on with: python -m elman train lm --out {stopped} --resume\n"
    )
    for verb, *options in (("score", str(story)), ("generate", "--max-tokens", "3")):
        done = elman(verb, stopped, *options)
        assert done.returncode == 0, done.stderr
        assert note in done.stderr
        ended = elman(verb, stream_run, *options)
        assert "note: the run" not in ended.stderr


def test_a_run_without_a_state_or_with_all_updates_made_is_told_rightly(
    elman: Elman, stopped: Path
) -> None:
    config = (stopped / "config.toml").read_text(encoding="utf-8")
    (stopped / "config.toml").write_text(config.replace("updates = 280", "updates = 60"))
    done = elman("generate", stopped, "--max-tokens", "3")
    assert "all its updates are made, and it was not scored" in done.stderr
    (stopped / "state.safetensors").unlink()
    done = elman("generate", stopped, "--max-tokens", "3")
    assert (done.returncode, done.stderr) == (0, "")


def test_answers_of_a_stopped_run_come_with_a_note_too(elman: Elman, tmp_path: Path) -> None:
    rows, run = tmp_path / "rows.tsv", tmp_path / "run"
    rows.write_text("the cat\tone\nthe dog\ttwo\n" * 30, encoding="utf-8")
    done = elman(
        *("train", "classify", "--data", rows, "--out", run, *SMALLEST, "--level", "char"),
        *("--set=data.header=no", "--set=training.updates=3"),
    )
    assert done.returncode == 0, done.stderr
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["results"] = {}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    done = elman("predict", run, "-", stdin="the cat\n")
    assert done.returncode == 0, done.stderr
    assert f"note: the run {run} was stopped before its end: all its updates are" in done.stderr


def test_no_writers_write_nothing() -> None:
    told: list[tuple[int, str]] = []

    def show(number: int, piece: str) -> bool:
        told.append((number, piece))
        return False

    write_together([], show)
    assert told == []
