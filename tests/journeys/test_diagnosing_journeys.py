"""`elman diagnose` on real runs: what it says, its status, and what it leaves alone."""

import json
import shutil
from pathlib import Path

import pytest

from conftest import Elman


def test_a_short_text_is_told_with_the_setting_to_change(elman: Elman, stream_run: Path) -> None:
    done = elman("diagnose", stream_run)
    assert done.returncode == 0
    told = " ".join(done.stdout.split())
    assert "1. the held-out text is too short for its figures the valid part has" in told
    assert "change: data.valid_fraction = 0.1" in told
    assert "[too-little-held-out]" in told
    assert "25 kinds of fault were looked for" in told
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())


def test_check_ends_with_status_1_and_json_has_the_figures(elman: Elman, stream_run: Path) -> None:
    done = elman("diagnose", stream_run, "--check", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    names = [fault["fault"] for fault in told["faults"]]
    assert "repeated-training-text" in names  # three sentences again and again
    assert not set(names) & set(told["not_found"])
    assert all(fault["figures"] and fault["change"] for fault in told["faults"])


def test_files_that_are_gone_are_told_and_the_rest_is_looked_at(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    text, run = tmp_path / "text.txt", tmp_path / "run"
    shutil.copy(story, text)
    small = ("--set=model.hidden_size=8", "--set=training.updates=5")
    assert elman("train", "lm", "--data", text, "--out", run, *small).returncode == 0
    text.unlink()
    done = elman("diagnose", run, "--check")
    told = " ".join(done.stdout.split())
    assert done.returncode == 1, "what could not be looked at is not shown to be sound"
    assert "note: its data could not be read again, and were not looked at" in told
    assert "nothing wrong was found in what could be looked at: 5 kinds of fault were" in told
    assert json.loads(elman("diagnose", run, "--json").stdout)["is_lacking"] is True


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("state.safetensors", "there is no saved state"),
        ("metrics.jsonl", "there are no metrics"),
        ("manifest.json", "there is no manifest"),
    ],
)
def test_what_is_missing_of_a_run_is_told_and_is_no_success(
    elman: Elman, stream_run: Path, tmp_path: Path, name: str, told: str
) -> None:
    shutil.copytree(stream_run, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    done = json.loads(elman("diagnose", tmp_path / "run", "--json").stdout)
    assert done["is_lacking"] is True
    assert any(told in line for line in done["left_out"])


def test_metrics_that_cannot_be_read_cost_a_note_alone(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(stream_run, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_bytes(b"{\n" + metrics.read_bytes())
    done = elman("diagnose", tmp_path / "run", "--check")
    assert done.returncode == 1
    assert "its metrics could not be read, and were not looked at" in done.stdout
    assert "[too-little-held-out]" in done.stdout


def test_a_run_that_has_kept_no_weights_yet_is_unfinished(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(stream_run, tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"results": {}}))
    done = elman("diagnose", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "all 60 updates are made, and what is held out is not scored yet" in told
    assert "note: no weights were kept yet: the model was not looked at" in told


def test_a_model_that_learnt_nothing_is_told_so_once(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    small = ("--set=model.hidden_size=8", "--set=training.updates=1")
    assert elman("train", "lm", "--data", story, "--out", run, *small).returncode == 0
    told = json.loads(elman("diagnose", run, "--json").stdout)
    assert "nothing-learnt" in [fault["fault"] for fault in told["faults"]]
    following = {fault["fault"]: fault["of"] for fault in told["following"]}
    assert following["input-ignored"] == "nothing-learnt"
    assert not set(following) & set(told["not_found"])
    assert "also seen, and explained by nothing-learnt: " in elman("diagnose", run).stdout


def test_a_folder_that_is_no_run_is_one_line(elman: Elman, tmp_path: Path) -> None:
    done = elman("diagnose", tmp_path / "none")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "there is no run at" in done.stderr


def test_rows_of_a_classifier_that_are_learnt_from_are_found(elman: Elman, tmp_path: Path) -> None:
    rows = [
        f"text {number} of this kind\t{'even' if number % 2 == 0 else 'odd'}"
        for number in range(120)
    ]
    table = tmp_path / "rows.tsv"
    table.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    run = tmp_path / "run"
    trained = elman(
        *("train", "classify", "--data", table, "--valid", table, "--test", table, "--out", run),
        *("--set=model.hidden_size=8", "--set=training.updates=5"),
    )
    assert trained.returncode == 0, trained.stderr
    told = json.loads(elman("diagnose", run, "--json").stdout)
    found = {fault["fault"]: fault for fault in told["faults"]}
    assert set(found) == {"nothing-learnt", "held-out-in-training"}  # five updates teach nothing
    assert found["held-out-in-training"]["figures"] == {"share": 1.0, "valid": 1.0, "test": 1.0}
