"""Every option of `elman inspect` acts or is refused, in one line and before any work."""

import csv
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from test_inspecting_journeys import TEXT, looked

Elman = Callable[..., "CompletedProcess[str]"]
ALONE = "--compare shows the states of two texts alone; got "


@pytest.fixture(scope="module")
def reversal_run(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder-decoder that has hardly learnt. Read it, do not change it."""
    run = tmp_path_factory.mktemp("reversal") / "run"
    done = elman(
        *("train", "translate", "--data", "builtin:reversal", "--out", run),
        *("--set=model.hidden_size=8", "--set=model.embedding_size=8", "--set=training.updates=3"),
    )
    assert done.returncode == 0, done.stderr
    return run


def refused(done: "CompletedProcess[str]", told: str) -> None:
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--unit", "1", "--show", "gates"], "--unit names units of a trace; got no --show trace"),
        (["--layer", "1", "--show", "gates"], "got no --show trace or --show gradients"),
        (["--top", "9", "--show", "gates"], "--top is for a trace; got no --show trace"),
        (["--scalar", "logit"], "--scalar is asked of gradients; got no --show gradients"),
        (["--positions", "9"], "--positions are places of a horizon; got no --show horizon"),
        (["--encoding", "utf-8"], "--encoding says how --file is read; got no --file"),
        (["--show", "change", "--picture", "x.png"], "the views shown have no picture"),
        (["--compare", TEXT, "--html", "x.html"], f"{ALONE}--html; allowed: --csv, --picture"),
        (["--compare", TEXT, "--layer", "1"], f"{ALONE}--layer"),
        (["--compare", TEXT, "--unit", "1", "--top", "2"], f"{ALONE}--unit, --top"),
        (["--picture", "x.jpg"], "a picture must be a .png or .svg file; got x.jpg"),
        (["--picture", "none/x.png"], "--picture must be a file in a folder that is there"),
        (["--csv", "none/x.csv"], "--csv must be a file in a folder that is there and can be"),
        (["--html", "none/x.html"], "--html must be a file in a folder that is there and can be"),
        (["--csv", "."], "--csv must be a file; got ., a folder"),
        (["--show", "trace", "--show", "memory"], "the text is too short to fit a probe"),
    ],
)
def test_an_option_that_nothing_heeds_and_a_bad_place_are_one_line(
    elman: Elman, stream_run: Path, options: list[str], told: str
) -> None:
    refused(elman("inspect", stream_run, TEXT, *options), told)


def test_a_text_too_short_for_a_later_view_is_told_before_the_first(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    done = elman("inspect", stream_run, "t", "--html", page)
    refused(done, "a gradient needs a token that comes next")
    done = elman("inspect", stream_run, "the", "--show", "trace", "--show", "horizon")
    refused(done, "the text is too short to look so far back")
    assert not page.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--picture", "x.png"], "--picture; allowed: elman inspect RUN --since RUN"),
        (["--compare", "a"], "--compare; allowed"),
        (["--show", "gates"], "--show; allowed"),
    ],
)
def test_weights_are_compared_alone(
    elman: Elman, stream_run: Path, options: list[str], told: str
) -> None:
    done = elman("inspect", stream_run, "--since", stream_run, *options)
    refused(done, f"--since compares weights alone; got {told}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--html", "x.html"], "got --html; allowed: elman inspect RUN TEXT"),
        (["--layer", "1"], "got --layer"),
        (["--unit", "1", "--csv", "x.csv"], "got --unit, --csv"),
        (["--top", "3", "--unknown", "skip"], "got --top, --unknown"),
    ],
)
def test_of_an_answer_attention_alone_is_shown(
    elman: Elman, reversal_run: Path, options: list[str], told: str
) -> None:
    done = elman("inspect", reversal_run, "axb", *options)
    refused(done, f"of a run that writes sequences its attention is shown; {told}")
    done = elman("inspect", reversal_run, "axb", "--compare", "axc")
    refused(done, "--compare is for language models; got a run of elman train translate")


def test_an_answer_is_told_and_its_text_may_stand_in_a_file(
    elman: Elman, reversal_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "text.txt"
    path.write_text("ax1b\n", encoding="utf-8")
    done = elman("inspect", reversal_run, "--file", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("answer: ")
    assert "1 of 4 tokens is unknown to the run, read as [ UNK ]: '1'" in done.stderr
    told = looked(elman, reversal_run, "--file", str(path))
    assert told["attention"]["source_tokens"] == list("ax1b")
    assert told["attention"]["unknown"] == [{"position": 2, "token": "1"}]
    steps = told["attention"]["steps"]
    assert told["answer"] == "".join(step["token"] for step in steps[:-1])
    path.write_text("ax\nby\n", encoding="utf-8")
    refused(elman("inspect", reversal_run, "--file", path), "one line at a time; got 2 lines")


def test_two_texts_are_written_and_drawn(elman: Elman, stream_run: Path, tmp_path: Path) -> None:
    table, picture = tmp_path / "apart.csv", tmp_path / "apart.svg"
    other = TEXT.replace("cat", "cot")
    options = ("--compare", other, "--csv", str(table), "--picture", str(picture))
    told = looked(elman, stream_run, TEXT, *options)
    rows = list(csv.DictReader(StringIO(table.read_text(encoding="utf-8"))))
    assert [row["first"] for row in rows] == told["first"]
    assert [row["second"] for row in rows] == told["second"]
    for row, step in zip(rows, told["steps"], strict=True):
        assert [float(row["layer 1"])] == step["distances_L"]
        assert float(row["next nats apart"]) == step["nats_apart"]
    assert "next predictions, nats" in picture.read_text(encoding="utf-8")
    shown = elman("inspect", stream_run, TEXT, "--compare", other).stdout
    assert "a *    o *" in shown


def test_a_file_is_read_in_another_encoding(elman: Elman, stream_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("the cät".encode("latin-1"))
    done = elman("inspect", stream_run, "--file", path)
    refused(done, "set --encoding (text.encoding)")
    done = elman("inspect", stream_run, "--file", path, "--encoding", "latin-1", "--json")
    assert json.loads(done.stdout)["tokens"] == list("the cät")
