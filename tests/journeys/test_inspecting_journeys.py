"""Looking into a run: what is shown is what scores and generates, and nothing is changed by it."""

import csv
import hashlib
import json
import math
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
TEXT = "the cat sat on the log"


def looked(elman: Elman, run: Path, *options: str) -> dict[str, Any]:
    done = elman("inspect", run, *options, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


def digests(run: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.iterdir())
        if path.is_file()
    }


@pytest.mark.parametrize("fixture", ["stream_run", "line_run"])
def test_surprisals_are_those_of_a_score_and_the_run_stays_as_it_is(
    elman: Elman, fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(fixture)
    before = digests(run)
    told = looked(elman, run, TEXT)
    path, table = tmp_path / "text.txt", tmp_path / "rows.tsv"
    path.write_text(TEXT + ("\n" if fixture == "line_run" else ""), encoding="utf-8")
    assert elman("score", run, path, "--per-token", table).returncode == 0
    rows = list(csv.DictReader(StringIO(table.read_text(encoding="utf-8")), delimiter="\t"))
    scored = [float(row["surprisal_bits"]) for row in rows if row["surprisal_bits"]]
    steps = told["trace"]["steps"]
    traced = [step["next"]["surprisal_bits"] for step in steps if "next" in step]
    assert traced == pytest.approx(scored, abs=1e-4)
    # Nothing is expected after the mark that closes a line: the state ends with it.
    assert len(steps) == len(traced) + (fixture == "stream_run")
    assert len(told["tokens"]) == len(traced) + 1
    assert digests(run) == before


def test_ranks_and_choices_agree_with_each_other(elman: Elman, stream_run: Path) -> None:
    steps = looked(elman, stream_run, TEXT, "--top", "100")["trace"]["steps"]
    for step in steps:
        shares = [choice["probability"] for choice in step["top"]]
        assert shares == sorted(shares, reverse=True)
        assert math.fsum(shares) == pytest.approx(1.0, abs=1e-6)
        if "next" in step:
            ids = [choice["token_id"] for choice in step["top"]]
            assert ids.index(step["next"]["token_id"]) + 1 >= step["next"]["rank"]
            assert step["greedy_differs"] == (ids[0] != step["next"]["token_id"])


def test_units_that_are_asked_for_are_shown_with_their_gates(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "trace.csv"
    done = elman("inspect", stream_run, TEXT, "--unit", "2", "--unit", "5", "--csv", path)
    assert done.returncode == 0, done.stderr
    assert "unit 2" in done.stdout
    assert "unit 5" in done.stdout
    rows = list(csv.DictReader(StringIO(path.read_text(encoding="utf-8"))))
    assert len(rows) == 2 * len(TEXT)
    assert {row["unit"] for row in rows} == {"2", "5"}
    for row, after in zip(rows[::2], rows[2::2], strict=False):
        assert row["h after"] == after["h before"]


def test_a_change_is_seen_from_its_token_on(elman: Elman, stream_run: Path) -> None:
    other = TEXT.replace("cat", "cot")
    told = looked(elman, stream_run, TEXT, "--compare", other)
    distances = [max(step["distances_L"]) for step in told["steps"]]
    assert all(distance == 0.0 for distance in distances[:5])
    assert distances[5] > 0.0
    done = elman("inspect", stream_run, TEXT, "--compare", TEXT)
    assert "the states are the same throughout" in done.stdout


def test_every_view_has_its_numbers_and_its_sentence(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text((TEXT + "\n") * 20, encoding="utf-8")
    views = ("gates", "gradients", "horizon", "memory")
    options = [part for view in views for part in ("--show", view)]
    told = looked(elman, stream_run, "--file", str(path), *options, "--positions", "20")
    assert set(views) <= set(told)
    (layer,) = [one for one in told["gates"]["text"] if one["layer"] == 1]
    assert all(0.0 <= gate["below"] <= 1.0 for gate in layer["gates"].values())
    gradients = told["gradients"]
    assert len(gradients["input_norms"]) == len(gradients["state_norms"]) == 200
    assert told["horizon"]["perturbation"]["nats"][0] > 0.0
    assert told["memory"][0]["accuracy"] > 0.9
    assert [probe["back"] for probe in told["memory"]][:4] == [0, 1, 2, 3]
    done = elman("inspect", stream_run, "--file", path, *options, "--positions", "20")
    assert "the model uses " in done.stdout
    assert "the text repeats itself" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "elman inspect reads one text; got none"),
        ([TEXT, "--file", "x"], "got a text and --file"),
        ([""], "there is no token in the text"),
        ([TEXT, "--layer", "9"], "--layer must be one of the model's; got 9; allowed: 1 to 1"),
        ([TEXT, "--unit", "0"], "--unit must be one of the layer's; got 0; allowed: 1 to 16"),
        ([TEXT, "--top", "0"], "--top must be an int >= 1"),
        ([TEXT, "--compare", "the"], "must have as many tokens as each other; got 22 and 3"),
        ([TEXT, "--compare", TEXT, "--show", "gates"], "--compare shows the states of two texts"),
        ([TEXT, "--csv", "x.csv", "--show", "gates"], "--csv writes a trace"),
        ([TEXT, "--show", "memory"], "the text is too short to fit a probe"),
        (["t", "--show", "gradients"], "a gradient needs a token that comes next"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    elman: Elman, stream_run: Path, options: list[str], told: str
) -> None:
    done = elman("inspect", stream_run, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_of_lines_reads_one_line(elman: Elman, line_run: Path) -> None:
    done = elman("inspect", line_run, "the cat\nthe dog")
    assert done.returncode == 2
    assert "one line at a time for a trace; got 2 lines" in done.stderr
    assert looked(elman, line_run, "the cat\n")["tokens"][0] == "[ S ]"


def test_standard_input_is_read(elman: Elman, stream_run: Path) -> None:
    done = elman("inspect", stream_run, "--file", "-", "--json", stdin="the cat")
    assert json.loads(done.stdout)["tokens"] == list("the cat")


def test_reading_changes_no_parameter_and_training_does(
    elman: Elman, stream_run: Path, line_run: Path, tmp_path: Path
) -> None:
    done = elman("inspect", stream_run, TEXT, "--show", "change", "--json")
    changes = json.loads(done.stdout)["change"]
    assert changes
    assert all(change["equal"] for change in changes)
    told = looked(elman, stream_run, "--since", str(stream_run))
    assert {change["name"] for change in told["change"]} == {one["name"] for one in changes}
    text = tmp_path / "text.txt"
    text.write_text((TEXT + "\n") * 40, encoding="utf-8")
    runs = [tmp_path / name for name in ("one", "two")]
    for run, seed in zip(runs, ("1", "2"), strict=True):
        options = ("--set=model.hidden_size=8", "--set=training.updates=1", "--seed", seed)
        assert elman("train", "lm", "--data", text, "--out", run, *options).returncode == 0
    told = looked(elman, runs[0], "--since", str(runs[1]))
    assert not any(change["equal"] for change in told["change"] if "weight" in change["name"])
    done = elman("inspect", stream_run, "--since", line_run)
    assert done.returncode == 2
    assert "must have the same parameters" in done.stderr
    done = elman("inspect", stream_run, TEXT, "--since", line_run)
    assert "reads no text" in done.stderr


def test_attention_is_shown_step_by_step_and_nothing_falls_on_padding(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    options = ("--set=model.hidden_size=8", "--set=model.embedding_size=8")
    done = elman(
        *("train", "translate", "--data", "builtin:reversal", "--out", run, *options),
        "--set=training.updates=3",
    )
    assert done.returncode == 0, done.stderr
    told = looked(elman, run, "axbyc")["attention"]
    assert told["source_tokens"] == list("axbyc")
    assert told["largest_share_on_padding"] == 0.0
    assert len(told["weights"]) == len(told["steps"])
    for step, row in zip(told["steps"], told["weights"], strict=True):
        assert math.fsum(row) == pytest.approx(1.0, abs=1e-5)
        assert row[step["place"]] == pytest.approx(max(row))
        entropy = -math.fsum(weight * math.log(weight) for weight in row if weight)
        assert step["entropy_nats"] == pytest.approx(entropy, abs=1e-5)
    assert "on padding: 0 of a step" in elman("inspect", run, "axbyc").stdout
    done = elman("inspect", run, "axbyc", "--show", "gates")
    assert done.returncode == 2
    assert "its attention is shown; got --show" in done.stderr
