"""`elman bench` as a process: its options, its JSON, and an interruption that keeps the rows."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from conftest import environment

Elman = Callable[..., "CompletedProcess[str]"]

FASTEST = ("--quick", "--repeats", "1")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rows", "words"], "recurrences, ragged, word"),
        (["--threads", "0"], "1 to 1,024"),
        (["--repeats", "-1"], "--repeats"),
        (["--repeats", "2.5"], "whole number"),
        (["--out", "."], "a folder"),
        (["--out", "nowhere/at/all.json"], "a folder that can be written to"),
        (["--quik"], "--quik"),
    ],
)
def test_a_bad_option_is_one_line_and_measures_nothing(
    elman: Elman, options: list[str], told: str
) -> None:
    done = elman("bench", *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("elman: ")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr


def test_json_is_one_object_on_standard_output_and_the_file_holds_the_same(
    elman: Elman, tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    done = elman("bench", *FASTEST, "--rows", "generation,gpu", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == json.loads(out.read_text(encoding="utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]
    assert told["complete"] is told["quick"] is True
    assert told["machine"]["threads"] == 1
    assert {row["family"] for row in told["rows"]} == {"generation"}
    assert "2×256, V 65" in done.stderr  # rows as they come, beside the object


def test_the_table_is_on_standard_output(elman: Elman) -> None:
    done = elman("bench", *FASTEST, "--rows", "ragged")
    assert done.returncode == 0, done.stderr
    assert "Ragged batches" in done.stdout
    assert "400,8,128" in done.stdout
    assert "6 rows in" in done.stdout


def test_an_interruption_keeps_the_rows_that_are_done(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "elman", "bench", "--rows", "recurrences", "--json", "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment(),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "35,20,200" in line:
            break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    told = json.loads(stdout)
    assert told["complete"] is False
    assert told["rows"][0]["T"] == 35
    assert len(told["rows"]) < 20
    assert told == json.loads(out.read_text(encoding="utf-8"))
    assert stderr.endswith("elman: interrupted\n")
