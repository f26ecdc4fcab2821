"""Beams for language models: the best texts, with scores that scoring confirms."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Elman = Callable[..., "CompletedProcess[str]"]


def found_by(elman: Elman, run: Path, *options: str) -> dict[str, Any]:
    done = elman("generate", run, "--json", *options)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize("prompt", ["", "the c"])
def test_a_beam_of_one_takes_the_likeliest_token_each_time(
    elman: Elman, stream_run: Path, line_run: Path, prompt: str
) -> None:
    for run in (stream_run, line_run):
        options = ("--prompt", prompt, "--max-tokens", "30")
        greedy = elman("generate", run, *options, "--temperature", "0")
        beam = elman("generate", run, *options, "--beam", "1")
        assert beam.returncode == 0, beam.stderr
        assert beam.stdout == greedy.stdout


def test_scores_are_those_of_teacher_forcing_and_texts_are_distinct(
    elman: Elman, line_run: Path, tmp_path: Path
) -> None:
    options = ("--beam", "4", "--n-best", "3", "--max-tokens", "40")
    told = found_by(elman, line_run, *options, "--prompt", "the c")
    texts = told["texts"]
    assert len({one["text"] for one in texts}) == len(texts) == 3
    scores = [one["score"] for one in texts]
    assert scores == sorted(scores, reverse=True)
    for one in texts:
        path, rows = tmp_path / "line.txt", tmp_path / "rows.tsv"
        path.write_text("the c" + one["text"] + "\n", encoding="utf-8")
        assert elman("score", line_run, path, "--per-token", rows).returncode == 0
        head, *lines = (row.split("\t") for row in rows.read_text(encoding="utf-8").splitlines())
        bits = [float(line[head.index("surprisal_bits")]) for line in lines]
        nats = sum(bits[5 : 5 + one["num_tokens"]]) * math.log(2)
        assert nats == pytest.approx(-one["log_prob_nats"], abs=1e-3)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--beam", "-1"], "--beam must be an int >= 0; got -1"),
        (["--beam", "2", "--n-best", "0"], "--n-best must be an int from 1 to --beam; got 0"),
        (["--beam", "2", "--n-best", "3"], "--n-best must be an int from 1 to --beam; got 3"),
        (["--beam", "2", "--min-length", "-1"], "--min-length must be an int from 0 to --max-to"),
        (
            ["--beam", "2", "--min-length", "9", "--max-tokens", "3"],
            "--min-length must be an int from 0 to --max-tokens; got 9 with --max-tokens 3",
        ),
        (["--max-tokens", "-1"], "--max-tokens must be an int >= 0; got -1"),
        (["--top-p", "2"], "--top-p cannot be used; got 2.0"),
    ],
)
def test_what_cannot_be_written_is_refused_by_the_option_as_typed(
    elman: Elman, stream_run: Path, options: list[str], told: str
) -> None:
    done = elman("generate", stream_run, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"elman: {told}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_least_and_the_greatest_length_are_kept(elman: Elman, line_run: Path) -> None:
    options = ("--beam", "3", "--n-best", "3", "--min-length", "7", "--max-tokens", "9")
    for one in found_by(elman, line_run, *options)["texts"]:
        stop = one["ended_by"] == "stop mark"
        assert 7 <= one["num_tokens"] - stop <= 9
    nothing = found_by(elman, line_run, "--beam", "2", "--max-tokens", "0")["texts"]
    assert [one["text"] for one in nothing] == [""]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--n-best", "2"), "need a beam"),
        (("--beam", "2", "--temperature", "0.5"), "draws nothing"),
        (("--beam", "2", "--num-samples", "2"), "draws nothing"),
        (("--beam", "2", "--n-best", "3"), "--n-best must be"),
        (("--beam", "2", "--stop", "x"), "stop text"),
        (("--beam", "2", "--min-length", "9", "--max-tokens", "3"), "--min-length must be"),
    ],
)
def test_what_cannot_be_together_is_refused_in_one_line(
    elman: Elman, line_run: Path, options: tuple[str, ...], told: str
) -> None:
    done = elman("generate", line_run, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
