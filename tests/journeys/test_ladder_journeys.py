"""Models that count, look back or attend, through every command that the recurrent ones have."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

Elman = Callable[..., "CompletedProcess[str]"]
LEARNT = (
    "--set=model.hidden_size=16",
    "--set=model.num_layers=1",
    "--set=training.batch_size=4",
    "--set=training.window=16",
    "--set=training.updates=25",
)
KINDS = ("ngram", "window", "transformer")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "story.txt"
    parts = ("the cat sat on the mat", "a dog ran to the tree", "the bird flew over a log")
    lines = [f"{one} and {two}." for one in parts for two in parts] * 12
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(elman: Elman, text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind, on the same files. Read them, do not change them."""
    folder, found = tmp_path_factory.mktemp("ladder"), {}
    for kind in KINDS:
        more = () if kind == "ngram" else LEARNT
        if kind == "window":
            more += ("--set=model.embedding_size=8",)
        out = folder / kind
        done = elman(
            *("train", "lm", "--data", text, "--out", out, f"--set=model.kind={kind}"), *more
        )
        assert done.returncode == 0, done.stderr
        found[kind] = out
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_any_kind_is_scored_and_writes(
    elman: Elman, runs: dict[str, Path], text: Path, tmp_path: Path, kind: str
) -> None:
    table = tmp_path / "tokens.tsv"
    figures = [
        json.loads(elman("score", runs[kind], text, "--json", *more).stdout)
        for more in ((), ("--window", "3"), ("--per-token", table))
    ]
    for other in figures[1:]:
        assert other["loss_nats"] == pytest.approx(figures[0]["loss_nats"], rel=1e-6)
    bits = [row.split("\t")[3] for row in table.read_text("utf-8").splitlines()[2:]]
    total = sum(map(float, bits)) * math.log(2)
    assert total == pytest.approx(figures[0]["loss_nats"], rel=1e-9)
    state = tmp_path / "state"
    whole = elman("generate", runs[kind], "--prompt", "the ", "--max-tokens", "40", "--seed", "2")
    assert whole.returncode == 0, whole.stderr
    first = elman(
        *("generate", runs[kind], "--prompt", "the ", "--max-tokens", "15", "--seed", "2"),
        *("--state", state),
    )
    rest = elman("generate", runs[kind], "--max-tokens", "25", "--state", state)
    assert first.stdout.rstrip("\n") + rest.stdout == whole.stdout
    beam = elman("generate", runs[kind], "--prompt", "the ", "--max-tokens", "9", "--beam", "3")
    assert beam.returncode == 0, beam.stderr


def test_the_order_is_chosen_by_held_out_text_and_told(
    elman: Elman, text: Path, tmp_path: Path
) -> None:
    done = elman(
        *("train", "lm", "--data", text, "--out", tmp_path / "run", "--set=model.kind=ngram"),
        "--json",
    )
    told = json.loads(done.stdout)
    tried = {one["order"]: one["nats_per_token"] for one in told["counts"]["tried"]}
    assert told["counts"]["order"] == min(tried, key=tried.__getitem__)
    assert "histories seen" in done.stderr
    assert f"order = {told['counts']['order']}" in (tmp_path / "run" / "config.toml").read_text()


def test_counts_are_finished_when_they_are_there(elman: Elman, runs: dict[str, Path]) -> None:
    done = elman("train", "lm", "--out", runs["ngram"], "--resume", "--json")
    assert done.returncode == 0
    assert "nothing left to do" in done.stderr
    assert set(json.loads(done.stdout)["scores"]) == {"valid", "test"}


def test_counts_go_to_an_arpa_file_and_come_back(
    elman: Elman, runs: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    file, back = tmp_path / "counts.arpa", tmp_path / "back"
    assert elman("convert", runs["ngram"], file, "--to", "arpa").returncode == 0
    done = elman("convert", file, "--from", "arpa", "--out", back)
    assert done.returncode == 0, done.stderr
    scores = [
        json.loads(elman("score", run, text, "--json").stdout)["loss_nats"]
        for run in (runs["ngram"], back)
    ]
    assert scores[1] == pytest.approx(scores[0], rel=1e-12)
    refused = elman("convert", runs["window"], tmp_path / "x.arpa", "--to", "arpa")
    assert refused.returncode == 2
    assert "counts of n-grams" in refused.stderr
    refused = elman("convert", runs["ngram"], tmp_path / "x", "--to", "torch")
    assert refused.returncode == 2
    assert "only recurrent models" in refused.stderr


def test_an_arpa_file_from_elsewhere_is_read_to_the_base_ten(  # case G05
    elman: Elman, tmp_path: Path
) -> None:
    file, lines = tmp_path / "a.arpa", tmp_path / "lines.txt"
    file.write_text(
        "\\data\\\nngram 1=3\n\n\\1-grams:\n-0.30103\ta\n-0.60206\tb\n-0.60206\t</s>\n\n\\end\\\n"
    )
    lines.write_text("a b\n")
    assert elman("convert", file, "--from", "arpa", "--out", tmp_path / "run").returncode == 0
    figures = json.loads(elman("score", tmp_path / "run", lines, "--json").stdout)
    assert figures["num_tokens"] == 3
    assert figures["loss_nats"] == pytest.approx(3.465736, abs=1e-5)
    assert figures["perplexity"] == pytest.approx(3.174802, abs=1e-5)


def test_add_one_of_one_line_is_what_it_is_by_hand(  # case G02
    elman: Elman, tmp_path: Path
) -> None:
    learnt, scored = tmp_path / "learnt.txt", tmp_path / "scored.txt"
    learnt.write_text("a b a\n")
    scored.write_text("a zzz\n")
    common = ("--level", "word", "--unit", "line", "--set=model.kind=ngram", "--set=model.order=2")
    held_out = ("--set=data.valid_fraction=0", "--set=data.test_fraction=0")
    for method, want in (("add_k", -math.log(2 / 5 * 1 / 6 * 1 / 4)), ("none", None)):
        run = tmp_path / method
        done = elman(
            *("train", "lm", "--data", learnt, "--out", run, *common, *held_out),
            f"--set=model.smoothing={method}",
        )
        assert done.returncode == 0, done.stderr
        figures = json.loads(elman("score", run, scored, "--json").stdout)
        if want is not None:
            assert figures["loss_nats"] == pytest.approx(want, rel=1e-9)
        else:
            assert figures["perplexity_is_infinite"] is True
            assert figures["perplexity"] is None


def test_runs_are_compared_in_one_table_under_one_unit(
    elman: Elman, runs: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    markdown, picture = tmp_path / "table.md", tmp_path / "table.svg"
    done = elman(
        *("compare", *runs.values(), text, "--markdown", markdown, "--picture", picture),
        *("--cache", "20"),
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_text("utf-8").startswith("<?xml")
    rows = [line for line in markdown.read_text("utf-8").splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    figures = json.loads(elman("compare", *runs.values(), text, "--json").stdout)
    assert figures["same_tokens"] is True
    names = [row["name"] for row in figures["rows"]]
    assert names == list(KINDS)
    for row in figures["rows"]:
        alone = json.loads(elman("score", runs[row["name"]], text, "--json").stdout)
        assert row["bits_per_byte"] == pytest.approx(alone["bits_per_byte"], rel=1e-9)
        interval = row["bits_per_byte_interval"]
        assert interval["low"] < row["bits_per_byte"] < interval["high"]
    first, second = (row["bits_per_byte"] for row in figures["rows"][:2])
    assert figures["rows"][1]["difference"]["difference"] == pytest.approx(second - first, abs=2e-3)


def test_other_tokens_are_compared_by_bytes_alone(
    elman: Elman, runs: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    done = elman(
        *("train", "lm", "--data", text, "--out", words, "--level", "word"),
        "--set=model.kind=ngram",
    )
    assert done.returncode == 0, done.stderr
    done = elman("compare", runs["ngram"], words, text)
    assert "different tokens" in done.stderr
    assert "perplexity" not in done.stdout
    assert "bits/byte" in done.stdout


def test_how_far_back_runs_look_is_told_and_drawn(
    elman: Elman, runs: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "reach.svg"
    command = ("compare", runs["ngram"], runs["window"], text, "--reach", "--positions", "20")
    done = elman(*command, "--picture", picture)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("reaches") == 2
    assert picture.read_text("utf-8").startswith("<?xml")
    figures = json.loads(elman(*command, "--json").stdout)["reach"]
    for curve in figures["window"]:
        nats = dict(zip(curve["lengths"], curve["nats_per_token"], strict=True))
        assert nats[8] == pytest.approx(nats[200], rel=1e-5)
        assert nats[5] != pytest.approx(nats[200], rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "needs runs and a text; got 1 run and 0 files"),
        (("text", "--picture", "x.jpg"), "must be a .png or .svg file"),
    ],
)
def test_a_comparison_of_nothing_is_refused(
    elman: Elman, runs: dict[str, Path], text: Path, arguments: tuple[str, ...], told: str
) -> None:
    given = [text if one == "text" else one for one in arguments]
    done = elman("compare", runs["ngram"], *given)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_cache_and_a_second_run_are_fitted_on_validation_text_and_told(
    elman: Elman, runs: dict[str, Path], text: Path
) -> None:
    alone = json.loads(elman("score", runs["window"], text, "--json").stdout)
    done = elman("score", runs["window"], text, "--json", "--mix", runs["ngram"])
    mixed = json.loads(done.stdout)
    assert "fitted on" in done.stderr
    assert 0.0 < mixed["mixed_weight"] <= 1.0
    assert mixed["loss_nats"] < alone["loss_nats"]
    done = elman("score", runs["transformer"], text, "--json", "--cache", "30")
    assert json.loads(done.stdout)["cache_size"] == 30
    done = elman("score", runs["window"], text, "--json", "--dynamic", "--dynamic-rate", "1e-3")
    assert json.loads(done.stdout)["dynamic_rate"] == 1e-3
    assert json.loads(done.stdout)["loss_nats"] < alone["loss_nats"]
    fixed = elman(
        *("score", runs["window"], text, "--json", "--mix", runs["ngram"], "--mix-weight", "0"),
    )
    assert json.loads(fixed.stdout)["loss_nats"] == pytest.approx(alone["loss_nats"], rel=1e-9)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--cache", "9", "--precision", "int8"), "score files in float32"),
        (("--cache-weight", "0.5"), "need --cache"),
        (("--mix-weight", "0.5"), "needs --mix RUN"),
        (("--dynamic-rate", "0.5"), "needs --dynamic"),
        (("--dynamic", "--cache", "9"), "one of them"),
        (("--precision", "int8"), "those of a recurrent model"),
    ],
)
def test_what_cannot_be_added_is_refused_in_one_line(
    elman: Elman, runs: dict[str, Path], text: Path, options: tuple[str, ...], told: str
) -> None:
    done = elman("score", runs["window"], text, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        ("score", ("--cache", "9"), "score it without --cache, or mix it into a recurrent run"),
        ("score", ("--dynamic",), "score it without --dynamic, or mix it into a recurrent run"),
        ("convert", ("--to", "onnx"), "got model.kind = ngram; allowed: a run of model.kind ="),
        ("convert", ("--to", "onnx"), "; a count model is written by --to arpa"),
    ],
)
def test_what_counts_cannot_do_is_refused_with_what_they_can(
    elman: Elman,
    runs: dict[str, Path],
    text: Path,
    tmp_path: Path,
    command: str,
    options: tuple[str, ...],
    told: str,
) -> None:
    given = text if command == "score" else tmp_path / "x.onnx"
    done = elman(command, runs["ngram"], given, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_ladder_is_trained_compared_and_not_trained_again(
    elman: Elman, text: Path, tmp_path: Path
) -> None:
    command = (
        *("train", "ladder", "--data", text, "--out", tmp_path / "ladder", *LEARNT, "--json"),
        *("--rungs", "ngram", "window-2", "gru"),
    )
    done = elman(*command)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["name"] for row in rows] == ["ngram", "window-2", "gru"]
    weights = tmp_path / "ladder" / "gru" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    again = elman(*command)
    assert again.returncode == 0, again.stderr
    assert "gru is finished" in again.stderr
    assert weights.stat().st_mtime_ns == before
    assert json.loads(again.stdout)["rows"] == rows
    refused = elman(*command[:6], "--rungs", "nothing")
    assert refused.returncode == 2
    assert "has no such rung" in refused.stderr


@pytest.mark.parametrize("unit", ["stream", "line"])
def test_a_run_that_reads_from_the_end_is_a_run_of_the_turned_text(
    elman: Elman, text: Path, tmp_path: Path, unit: str
) -> None:
    turned = tmp_path / "turned.txt"
    lines = text.read_text("utf-8").splitlines()
    whole = "\n".join(lines) + "\n"
    given = "".join(f"{line[::-1]}\n" for line in lines) if unit == "line" else whole[::-1]
    turned.write_text(given, "utf-8")
    held_out = ("--set=data.valid_fraction=0", "--set=data.test_fraction=0", "--unit", unit)
    counts = ("--set=model.kind=ngram", "--set=model.order=3", *held_out)
    backward, forward = tmp_path / "backward", tmp_path / "forward"
    for out, file, more in (
        (backward, text, ("--set=text.direction=backward",)),
        (forward, turned, ()),
    ):
        done = elman("train", "lm", "--data", file, "--out", out, *counts, *more)
        assert done.returncode == 0, done.stderr
    table = tmp_path / "tokens.tsv"
    mine = json.loads(elman("score", backward, text, "--json", "--per-token", table).stdout)
    theirs = json.loads(elman("score", forward, turned, "--json").stdout)
    assert mine["loss_nats"] == pytest.approx(theirs["loss_nats"], rel=1e-9)
    rows = [row.split("\t") for row in table.read_text("utf-8").splitlines()[1:]]
    starts = [int(row[0]) for row in rows]
    assert starts == sorted(starts)
    if unit == "stream":
        assert rows[-1][3] == ""
        assert "".join(row[2] for row in rows).replace("\\n", "\n") == whole
    refused = elman("generate", backward, "--prompt", "the ")
    assert refused.returncode == 2
    assert "reads texts from their end" in refused.stderr
    ahead = tmp_path / "ahead"
    assert elman("train", "lm", "--data", text, "--out", ahead, *counts).returncode == 0
    alone = json.loads(elman("score", ahead, text, "--json").stdout)["loss_nats"]
    done = elman("score", backward, text, "--json", "--mix", ahead)
    both = json.loads(done.stdout)
    assert both["mixed_by"] == "text"
    assert ("warning: one stream is one text" in done.stderr) == (unit == "stream")
    assert ("one stream is one text" in both["warning"]) == (unit == "stream")
    if unit == "stream":
        want = -np.logaddexp(-mine["loss_nats"], -alone) + math.log(2)
        assert both["loss_nats"] == pytest.approx(want, rel=1e-12)
    else:
        better = min(mine["loss_nats"], alone)
        assert better * 0.9 < both["loss_nats"] < better + math.log(2) * len(lines)
    refused = elman("score", backward, text, "--mix", ahead, "--per-token", table)
    assert refused.returncode == 2
    assert "no surprisal of a token in common" in refused.stderr


def test_counts_that_cannot_be_leave_nothing_and_take_nothing(elman: Elman, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("a b c d e f\n" * 30, encoding="utf-8")
    done = elman(
        *("train", "lm", "--data", text, "--out", out, "--set=model.kind=ngram"),
        *("--set=model.smoothing=add_k", "--set=model.prune=1e-3"),
    )
    assert done.returncode == 2
    assert "cannot be pruned" in done.stderr
    assert not out.exists()
