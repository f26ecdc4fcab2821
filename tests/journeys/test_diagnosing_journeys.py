"""`elman diagnose` on real runs: what it says, its status, and what it leaves alone."""

import json
import shutil
from pathlib import Path

from conftest import Elman


def test_a_short_text_is_told_with_the_setting_to_change(elman: Elman, stream_run: Path) -> None:
    done = elman("diagnose", stream_run)
    assert done.returncode == 0
    assert "the held-out text is too short for its figures  [too-little-held-out]" in done.stdout
    assert "change: data.valid_fraction higher (now 0.05)" in done.stdout
    assert "25 kinds were looked for" in done.stdout


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
    done = elman("diagnose", run)
    assert done.returncode == 0
    assert "its data could not be read again, and were not looked at" in done.stderr
    assert "nothing wrong was found" in " ".join(done.stdout.split())


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
    assert [fault["fault"] for fault in told["faults"]] == ["held-out-in-training"]
    assert told["faults"][0]["figures"]["share"] == 1.0
