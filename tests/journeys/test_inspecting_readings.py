"""What `elman inspect` tells of a text beside its numbers: unknown tokens, lines, bytes, order."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from test_inspecting_journeys import TEXT, looked

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = ("--set=model.hidden_size=8", "--set=model.embedding_size=8", "--set=training.updates=3")


def trained(elman: Elman, story: Path, run: Path, *options: str) -> Path:
    done = elman("train", "lm", "--data", story, "--out", run, *SMALL, *options)
    assert done.returncode == 0, done.stderr
    return run


def test_unknown_tokens_are_told_and_marked(elman: Elman, stream_run: Path) -> None:
    done = elman("inspect", stream_run, "the cät")
    assert "1 of 7 tokens is unknown to the run, read as [ UNK ]: 'ä'" in done.stderr
    assert "ä ?" in done.stdout
    assert "?: a token that the run does not know" in done.stdout
    marked = [{"position": 5, "token": "ä"}]
    assert looked(elman, stream_run, "the cät")["unknown"] == marked
    assert looked(elman, stream_run, "the cat")["unknown"] == []
    done = elman("inspect", stream_run, "the cät", "--compare", "the cöt", "--json")
    told = json.loads(done.stdout)["unknown"]
    assert told == {"first": marked, "second": [{"position": 5, "token": "ö"}]}
    assert "first text: 1 of 7 tokens" in done.stderr
    assert "second text: 1 of 7 tokens" in done.stderr
    done = elman("inspect", stream_run, "the cät", "--unknown", "skip")
    assert "1 of 7 tokens is unknown to the run, left out" in done.stderr


def test_many_candidates_hide_no_column(elman: Elman, stream_run: Path) -> None:
    told = looked(elman, stream_run, TEXT, "--top", "3", "--unit", "1")["trace"]["steps"]
    lines = elman("inspect", stream_run, TEXT, "--top", "1000").stdout.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert lines[0].split() == ["read", "next", "bits", "rank", "p", "likeliest"]
    for line, step in zip(lines[1:], told[:-1], strict=False):
        assert f"{step['next']['surprisal_bits']:.2f}" in line
        assert f"{step['next']['probability']:.3f}" in line
        assert (" * " in line) == step["greedy_differs"]
    assert any("likeliest: as many as fit" in line for line in lines)
    last = elman("inspect", stream_run, "t").stdout
    assert "of 0" not in last


def test_lines_are_read_each_from_its_own_beginning(
    elman: Elman, line_run: Path, story: Path, tmp_path: Path
) -> None:
    views = ("--show", "gates", "--show", "memory", "--show", "change")
    done = elman("inspect", line_run, "--file", story, *views, "--json")
    assert done.returncode == 0, done.stderr
    lines = story.read_text(encoding="utf-8").splitlines()
    assert f"{len(lines)} lines are read, each from its own beginning" in done.stderr
    told = json.loads(done.stdout)
    # A step for the mark before a line and for each character, and none for the mark that ends it.
    assert told["gates"]["text"][0]["num_steps"] == sum(len(line) + 1 for line in lines)
    assert told["memory"][0]["accuracy"] > 0.9
    twice = tmp_path / "twice.txt"
    twice.write_text(f"{TEXT}\n\n{TEXT}\n", encoding="utf-8")
    once = looked(elman, line_run, TEXT, "--show", "gates")["gates"]["text"][0]
    both = looked(elman, line_run, "--file", str(twice), "--show", "gates")["gates"]["text"][0]
    assert both["num_steps"] == 2 * once["num_steps"]
    assert both["time_constants"] == pytest.approx(once["time_constants"], rel=1e-5)
    done = elman("inspect", line_run, TEXT, "--show", "gates", "--show", "memory")
    assert done.stdout == ""
    assert "one line is too short to fit a probe of memory" in done.stderr
    assert "--file with many lines" in done.stderr
    for view in ("gradients", "horizon"):
        done = elman("inspect", line_run, "--file", story, "--show", view)
        assert "reads one line at a time for" in done.stderr
    done = elman("inspect", line_run, TEXT, "--compare", TEXT, "--json")
    assert len(json.loads(done.stdout)["steps"]) == len(TEXT) + 1


def test_of_few_steps_it_is_not_said_what_is_stuck(elman: Elman, stream_run: Path) -> None:
    done = elman("inspect", stream_run, "t", "--show", "gates")
    assert "with 1 steps it cannot be known which gates are stuck" in " ".join(done.stdout.split())
    assert "dead;" not in done.stdout
    told = looked(elman, stream_run, "the", "--show", "gates")["gates"]
    assert told["text"][0]["dead_units"] is None
    assert {gate["stuck_units"] for gate in told["text"][0]["gates"].values()} == {None}
    assert isinstance(told["vocabulary"][0]["dead_units"], list)
    assert (
        looked(elman, stream_run, TEXT, "--show", "gates")["gates"]["text"][0]["dead_units"] == []
    )


def test_bytes_of_one_character_are_told_apart(elman: Elman, story: Path, tmp_path: Path) -> None:
    run = trained(elman, story, tmp_path / "run", "--set=text.level=byte")
    assert looked(elman, run, "é")["tokens"] == ["é 0xc3", "é 0xa9"]


def test_a_run_that_reads_backward_says_so_and_ties_are_counted_once(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    tied = "--set=model.tie_weights=true"
    run = trained(elman, story, tmp_path / "run", "--set=text.direction=backward", tied)
    done = elman("inspect", run, "cat", "--json")
    assert json.loads(done.stdout)["tokens"] == list("tac")
    assert "from the end of the text, and next is the token before" in done.stderr
    names = [one["name"] for one in looked(elman, run, "cat", "--show", "change")["change"]]
    assert "readout.weight" not in names
    since = looked(elman, run, "--since", str(run))["change"]
    assert [one["name"] for one in since] == names


def test_units_and_norms_are_named(elman: Elman, stream_run: Path) -> None:
    gates = " ".join(elman("inspect", stream_run, TEXT, "--show", "gates").stdout.split())
    assert "longest, in tokens: unit " in gates
    for scalar, told in (
        ("loss", "loss after the last token read: "),
        ("logit", "logit of the last token of the text: "),
        ("state", "norm of the state after the last token read: "),
    ):
        options = ("--show", "gradients", "--scalar", scalar)
        shown = elman("inspect", stream_run, TEXT, *options).stdout
        assert told in shown
        assert (" nats; inputs up to" in shown) == (scalar == "loss")
        assert "by input, log scale" in shown
