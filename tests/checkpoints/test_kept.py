"""Checkpoints kept beside the latest: which stay, that each is a run, that none is half made."""

import errno
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from elman.checkpoints import free_space, kept
from elman.checkpoints.kept import FACTS, KeptCheckpoint, kept_checkpoints, staying
from elman.checkpoints.run_folder import KEPT, RunFolder
from elman.errors import RunError
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import resume_run, start_run, train_run
from elman.recipes.scoring import score_sentences
from elman.recipes.trained import open_trained
from elman.recipes.training_request import TrainRequest

TEXT = "the cat sat on the mat and a dog ran to the log\n" * 40


def request(out: Path, text: Path, *more: str) -> TrainRequest:
    text.write_text(TEXT, encoding="utf-8")
    tiny = ("model.hidden_size=8", "training.threads=1", "training.updates=20")
    data = f"data.train={json.dumps([str(text)])}"
    often = ("training.evaluate_every=4", "training.batch_size=4", "training.save_every=2")
    return TrainRequest(out, overrides=(*tiny, data, *often, *more))


def trained(out: Path, text: Path, *more: str, until: int = 10**9) -> Path:
    run = start_run(LanguageTask(), request(out, text, *more))
    train_run(run, should_stop=lambda: run.trainer.update >= until)
    return out


def test_the_newest_and_the_lowest_stay_by_chance() -> None:
    print("seed", seed := random.randrange(2**32))
    draw = random.Random(seed)
    for _ in range(200):
        updates = draw.sample(range(1, 99), draw.randrange(9))
        losses = [draw.choice((None, 1.0, 2.0, 0.5, float("nan"), float("inf"))) for _ in updates]
        found = [KeptCheckpoint(Path(str(u)), u, x) for u, x in zip(updates, losses, strict=True)]
        last, best = draw.randrange(4), draw.randrange(4)
        stay = staying(found, last=last, best=best)
        gone = [one for one in found if one not in stay]
        assert [one.update for one in stay] == sorted(one.update for one in stay)
        newest = sorted(updates)[-last:] if last else []
        assert set(newest) <= {one.update for one in stay}
        measured = [one for one in found if one.loss in (0.5, 1.0, 2.0)]
        others = [one for one in stay if one.update not in newest]
        assert all(one in measured for one in others)
        assert len(stay) <= last + best
        if len([one for one in stay if one in measured]) < min(best, len(measured)):
            raise AssertionError("fewer of the best stayed than there are")
        for one in gone:
            if one in measured:
                better = [x for x in stay if x.loss is not None and x.loss <= (one.loss or 0)]
                assert len(better) >= best


def test_last_and_best_rotate_and_each_is_a_run(tmp_path: Path) -> None:
    more = ("training.keep_last=2", "training.keep_best=1")
    run = trained(tmp_path / "run", tmp_path / "text", *more)
    found = kept_checkpoints(run)
    assert [one.update for one in found][-2:] == [18, 20]
    assert len(found) <= 3
    assert min(one.loss for one in found if one.loss is not None) == found[-1].loss
    for one in found:
        record = RunFolder.open(one.path, purpose="resume").settings
        assert record == RunFolder.open(run).settings
        assert score_sentences(open_trained(one.path), ["the cat sat"])
    assert json.loads((found[0].path / "state.json").read_text())["facts"]["update"] == 18


def test_going_on_from_one_ends_in_the_same_weights(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", tmp_path / "text", "training.keep_last=4")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(kept_checkpoints(run)[0].path, elsewhere)
    again = resume_run(LanguageTask(), elsewhere)
    assert again.trainer.update == 14
    train_run(again)
    assert (elsewhere / "model.safetensors").read_bytes() == (
        run / "model.safetensors"
    ).read_bytes()


def test_without_the_settings_nothing_is_kept(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", tmp_path / "text")
    assert not (run / KEPT).exists()


def test_a_disk_that_fills_leaves_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path / "run", tmp_path / "text", "training.keep_last=2", until=8)
    before = [one.update for one in kept_checkpoints(run)]

    def full(*given: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept, "_link", full)
    again = resume_run(LanguageTask(), run)
    with pytest.raises(RunError, match=r"cannot keep a checkpoint .*No space left"):
        train_run(again)
    assert [one.update for one in kept_checkpoints(run)] == before
    assert sorted(path.name for path in (run / KEPT).iterdir()) == [
        f"update-{update:08d}" for update in before
    ]
    monkeypatch.undo()
    train_run(resume_run(LanguageTask(), run))
    whole = trained(tmp_path / "whole", tmp_path / "text")
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_where_links_cannot_be_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*given: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(kept.os, "link", none)
    run = trained(tmp_path / "run", tmp_path / "text", "training.keep_last=1")
    (one,) = kept_checkpoints(run)
    assert RunFolder.open(one.path, purpose="resume").saved_update() == 20


def test_broken_facts_and_strange_names_harm_nothing(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", tmp_path / "text", "training.keep_last=2", until=8)
    mine = run / KEPT / "my-notes"
    mine.mkdir()
    (run / KEPT / "update-00000006" / FACTS).write_text("[" * 5000)
    assert kept_checkpoints(run)[0].loss is None
    train_run(resume_run(LanguageTask(), run))
    assert mine.is_dir()
    assert [one.update for one in kept_checkpoints(run)] == [18, 20]


def test_a_run_that_has_no_room_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = free_space.shutil.disk_usage(tmp_path)._replace(free=5000)
    monkeypatch.setattr(free_space.shutil, "disk_usage", lambda folder: room)
    with pytest.raises(RunError, match=r"too little room in .* for what training saves") as told:
        start_run(LanguageTask(), request(tmp_path / "run", tmp_path / "text"))
    assert "0.0 MB free" in str(told.value)
    assert not (tmp_path / "run").exists()


def test_the_room_asked_for_is_what_a_run_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        "elman.recipes.saving.require_space", lambda folder, needed, what: asked.append(needed)
    )
    wide = ("model.hidden_size=64", "training.keep_last=2")
    run = trained(tmp_path / "run", tmp_path / "text", *wide)
    tensors = [path.stat().st_size for path in run.rglob("*.safetensors")]
    state = (run / "state.safetensors").stat().st_size
    most = sum(tensors) + 2 * state  # a new state and a new checkpoint beside the old ones
    assert 0.8 * most < asked[0] < 1.6 * most
