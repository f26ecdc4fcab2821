import csv
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]


def score(elman: Elman, *arguments: str | Path) -> dict[str, float]:
    done = elman("score", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_score_has_every_figure_under_its_unit(
    elman: Elman, stream_run: Path, story: Path
) -> None:
    figures = score(elman, stream_run, story)
    text = story.read_text(encoding="utf-8")
    assert figures["num_tokens"] == len(text) - 1  # the first is context only
    assert figures["coverage"] == 1.0
    assert figures["num_unknown"] == figures["unknown_rate"] == 0
    nats = figures["loss_nats"]
    assert figures["nats_per_token"] == pytest.approx(nats / (len(text) - 1))
    assert figures["perplexity"] == pytest.approx(math.exp(nats / (len(text) - 1)))
    assert figures["bits_per_character"] == pytest.approx(nats / math.log(2) / len(text))
    assert figures["bits_per_byte"] == pytest.approx(nats / math.log(2) / len(text.encode()))


@pytest.mark.parametrize("window", ["1", "5", "100"])
def test_the_window_of_a_stream_changes_no_number(  # case C07
    elman: Elman, stream_run: Path, tmp_path: Path, window: str
) -> None:
    text = tmp_path / "short.txt"
    text.write_text("the cat sat on the mat\n", encoding="utf-8")  # 23 characters
    whole = score(elman, stream_run, text)
    cut = score(elman, stream_run, text, "--window", window)
    assert whole["num_tokens"] == cut["num_tokens"] == 22
    assert cut["loss_nats"] == pytest.approx(whole["loss_nats"], rel=1e-6)


@pytest.mark.parametrize("batch", ["1", "2", "3", "7"])
def test_batch_neighbours_change_no_number(  # case C07
    elman: Elman, line_run: Path, tmp_path: Path, batch: str
) -> None:
    text = tmp_path / "seven.txt"
    rows = ["the cat", "a", "the dog sat on the mat", "mat", "dog and cat", "tree", "a bird sang"]
    text.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    whole = score(elman, line_run, text, "--batch-size", "64")
    cut = score(elman, line_run, text, "--batch-size", batch)
    assert whole["num_tokens"] == cut["num_tokens"] == sum(map(len, rows)) + len(rows)
    assert cut["loss_nats"] == pytest.approx(whole["loss_nats"], rel=1e-6)


def test_surprisals_sum_to_the_score_and_point_into_the_text(
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    table = tmp_path / "surprisal.tsv"
    figures = score(elman, stream_run, story, "--per-token", table)
    text = story.read_text(encoding="utf-8")
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == len(text)
    assert rows[0]["surprisal_bits"] == ""
    bits = sum(float(row["surprisal_bits"]) for row in rows[1:])
    assert bits * math.log(2) == pytest.approx(figures["loss_nats"], rel=1e-9)
    for row in rows[:200]:
        piece = text[int(row["start"]) : int(row["end"])]
        assert row["token"] == piece.replace("\n", "\\n")


def test_unknown_symbols_are_counted_and_told_both_ways(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    text = tmp_path / "odd.txt"
    text.write_text("the ☃ cat\n", encoding="utf-8")
    figures = score(elman, stream_run, text)
    assert figures["num_unknown"] == 1
    assert figures["unknown_rate"] == pytest.approx(1 / 9)
    assert figures["num_tokens_excluding_unknown"] == 8
    refused = elman("score", stream_run, text, "--unknown", "refuse")
    assert refused.returncode == 2
    assert "U+2603" in refused.stderr
    skipped = score(elman, stream_run, text, "--unknown", "skip")
    assert skipped["num_tokens"] == 8
    assert skipped["coverage"] == pytest.approx(8 / 9)


def test_standard_input_and_crlf_score_as_the_file_does(
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    expected = score(elman, stream_run, story)
    piped = elman("score", stream_run, "-", "--json", stdin=story.read_text(encoding="utf-8"))
    assert json.loads(piped.stdout) == expected
    windows = tmp_path / "crlf.txt"
    windows.write_bytes(b"\xef\xbb\xbf" + story.read_bytes().replace(b"\n", b"\r\n"))
    assert score(elman, stream_run, windows) == expected  # cases A01 and A04


def test_of_a_minimal_pair_the_sentence_like_the_training_text_is_likelier(
    elman: Elman, stream_run: Path, line_run: Path, tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("the cat sat on the mat\tzzz qqq xxx kkk jjj vv\n", encoding="utf-8")
    for run in (stream_run, line_run):
        done = elman("score", run, "--minimal-pairs", pairs, "--json", "--unknown", "replace")
        judged = json.loads(done.stdout)
        assert judged["num_pairs"] == 1
        assert judged["accuracy"] == 1.0
    pairs.write_text("one column\nthese\tare\tfour\tcolumns\n", encoding="utf-8")
    done = elman("score", stream_run, "--minimal-pairs", pairs)
    assert done.returncode == 2
    assert "line 1" in done.stderr
    assert "line 2" in done.stderr
    done = elman("score", stream_run, "--minimal-pairs", "builtin:foo")
    assert done.returncode == 2
    assert done.stderr == (
        "elman: there is no built-in set of pairs of that name; got builtin:foo; "
        "allowed: builtin:agreement\n"
    )


def test_a_run_that_was_moved_works_and_weights_alone_do_not(  # case E02
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(stream_run, moved)
    assert score(elman, moved, story) == score(elman, stream_run, story)
    alone = tmp_path / "weights" / "model.safetensors"
    alone.parent.mkdir()
    shutil.copy(stream_run / "model.safetensors", alone)
    for path in (alone, alone.parent):
        done = elman("score", path, story)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1


def test_a_truncated_or_altered_file_of_a_run_is_one_line(
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(stream_run, broken)
    weights = (broken / "model.safetensors").read_bytes()
    for content in (weights[:-100], weights[:200], b"", weights[:-3] + b"abc"):
        (broken / "model.safetensors").write_bytes(content)
        done = elman("score", broken, story)
        assert done.returncode == 2
        assert done.stderr.startswith("elman: ")
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr
