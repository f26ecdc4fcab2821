"""Classifiers from the command: data in, predictions out, line for line."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = (
    "--set=model.hidden_size=12",
    "--set=model.embedding_size=8",
    "--set=training.batch_size=8",
)
WORDS = ("film", "plot", "actor", "scene", "story")


def review(number: int) -> str:
    """Texts whose label hangs on the order of two words that both texts have."""
    word = WORDS[number % len(WORDS)]
    if number % 2:
        return f"the {word} was not dull but good {number % 7}\tpos"
    return f"the {word} was not good but dull {number % 7}\tneg"


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled") / "reviews.tsv"
    rows = "".join(f"{review(number)}\n" for number in range(240))
    path.write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def classifier(elman: Elman, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained classifier. Read it, do not change it."""
    run = tmp_path_factory.mktemp("runs") / "reviews"
    done = elman(
        *("train", "classify", "--data", reviews, "--out", run, *SMALL, "--set=training.epochs=12"),
    )
    assert done.returncode == 0, done.stderr
    return run


def test_a_run_holds_its_labels_and_the_figures_of_simpler_models(classifier: Path) -> None:
    assert {path.name for path in classifier.iterdir()} == {
        *("config.toml", "manifest.json", "metrics.jsonl", "model.safetensors", "labels.json"),
        *("state.json", "state.safetensors", "tokenizer.json"),
    }
    manifest = json.loads((classifier / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["data"]["parts"]["train"]["rows"] == 192
    figures = manifest["results"]["scores"]["test"]
    assert figures["num_rows"] == 24
    assert figures["accuracy"] == 1.0
    blind = figures["baselines"]["bag of words"]
    assert blind["is_order_blind"]
    # Both labels have the very same words: what is blind to order is at chance.
    assert 0.2 <= blind["accuracy"] <= 0.8
    assert figures["baselines"]["most frequent label"]["accuracy"] == 0.5


def test_one_line_is_answered_for_each_line_and_blank_ones_by_blank_ones(  # case D11
    elman: Elman, classifier: Path
) -> None:
    text = "the film was not dull but good 1\n\n   \nthe plot was not good but dull 2\n"
    answers = set()
    for size in ("1", "3", "64"):
        done = elman("predict", classifier, "-", "--batch-size", size, stdin=text)
        assert done.returncode == 0, done.stderr
        answers.add(done.stdout)
    (written,) = answers
    first, second, third, fourth = written.removesuffix("\n").split("\n")
    assert (second, third) == ("", "")
    label, probability = first.split("\t")
    assert label == "pos"
    assert 0.5 < float(probability) <= 1.0
    assert fourth.startswith("neg\t0.")
    assert "2 blank rows answered by nothing" in done.stderr


def test_a_table_is_answered_row_by_row_as_json_with_every_probability(
    elman: Elman, classifier: Path, reviews: Path, tmp_path: Path
) -> None:
    out = tmp_path / "answers.jsonl"
    done = elman("predict", classifier, reviews, "--json", "--probabilities", "--out", out)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in rows] == list(range(2, 242))
    for row in rows:
        assert list(row["probabilities"]) == ["neg", "pos"]
        assert sum(row["probabilities"].values()) == pytest.approx(1.0, abs=1e-9)
        assert row["probability"] == max(row["probabilities"].values())
    gold = [review(number).split("\t")[1] for number in range(240)]
    assert sum(row["label"] == label for row, label in zip(rows, gold, strict=True)) >= 235


def test_order_and_neighbours_of_a_row_change_its_probability_by_less_than_1e_5(
    elman: Elman, classifier: Path
) -> None:
    lines = [review(number).split("\t")[0] for number in range(9)] + ["good", "not " * 60]
    probs = []
    for given in (lines, lines[::-1]):
        done = elman(
            *("predict", classifier, "-", "--json", "--batch-size", "4"),
            stdin="".join(f"{line}\n" for line in given),
        )
        probs.append([json.loads(row)["probability"] for row in done.stdout.splitlines()])
    assert probs[0] == pytest.approx(probs[1][::-1], abs=1e-5)


def test_scores_are_counts_and_the_confusions_can_be_drawn(
    elman: Elman, classifier: Path, reviews: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "confusion.svg"
    done = elman("score", classifier, reviews, "--picture", picture)
    assert done.returncode == 0, done.stderr
    assert "gold \\ predicted" in done.stdout
    assert "precision  recall" in done.stdout
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    figures = json.loads(elman("score", classifier, reviews, "--json").stdout)
    assert figures["num_rows"] == 240
    cells = figures["confusion"]["cells_gold_predicted_count"]
    assert sum(count for _, _, count in cells) == 240
    assert figures["accuracy"] == sum(n for gold, other, n in cells if gold == other) / 240
    assert figures["calibration"]["num_rows"] == 240


def test_labels_that_training_does_not_have_are_told_with_all_that_hangs_on_them(
    elman: Elman, classifier: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    rows = tmp_path / "rows.tsv"
    strange = "".join(f"the film {number}\tstrange{number:03d}\n" for number in range(170))
    rows.write_text(f"text\tlabel\n{review(1)}\n{review(2)}\n{strange}", encoding="utf-8")
    done = elman("score", classifier, rows, "--picture", tmp_path / "confusion.svg")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^nats per row +\d\.\d+\n +over rows of known labels +2$", done.stdout, re.M)
    assert "strange003 1, strange004 1 and 165 more: these rows count as wrong" in done.stderr
    assert "the other 13 stand together as (others)" in done.stderr
    few = tmp_path / "few.tsv"
    few.write_text(f"text\tlabel\n{review(1)}\n{review(2)}\n", encoding="utf-8")
    done = elman("score", classifier, few)
    assert "known labels" not in done.stdout
    assert "note:" not in done.stderr


def test_a_finished_run_shows_simpler_models_in_the_same_order_again(
    elman: Elman, reviews: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    options = (*SMALL, "--set=training.updates=2")
    first = elman("train", "classify", "--data", reviews, "--out", run, *options)
    again = elman("train", "classify", "--out", run, "--resume")
    assert again.returncode == 0, again.stderr
    tables = [done.stderr[done.stderr.index("simpler models") :] for done in (first, again)]
    assert tables[0].split("\nrun: ")[0] == tables[1].split("\nrun: ")[0]
    names = ["most frequent label", "bag of words", "bag of 1 to 2 words in a row"]
    assert [line[2:].split("  ")[0] for line in tables[1].splitlines()[1:4]] == names


def test_rows_that_are_read_in_part_are_counted_wherever_they_are_read(
    elman: Elman, reviews: Path, tmp_path: Path
) -> None:
    run, rows = tmp_path / "run", tmp_path / "rows.tsv"
    done = elman(
        *("train", "classify", "--data", reviews, "--out", run, *SMALL, "--set=training.updates=2"),
        "--set=data.max_length=4",
    )
    assert "rows read up to the first 4 tokens only" in done.stderr
    rows.write_text("text\tlabel\na b c d e\tpos\na b c d\tneg\n", encoding="utf-8")
    for verb in ("predict", "score"):
        done = elman(verb, run, rows)
        assert done.returncode == 0, done.stderr
        assert "note: 1 row read up to the first 4 tokens only (data.max_length)" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_classifier_goes_on_to_the_same_bits(
    elman: Elman, reviews: Path, tmp_path: Path, number: signal.Signals
) -> None:
    options = (*SMALL, "--set=training.updates=200", "--set=training.save_every=7")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = elman("train", "classify", "--data", reviews, "--out", whole, *options)
    assert done.returncode == 0, done.stderr
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "elman", "train", "classify"),
            *("--data", reviews.name, "--out", str(cut), *options),
        ],
        stderr=subprocess.PIPE,
        text=True,
        cwd=reviews.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    metrics = cut / "metrics.jsonl"
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_text().count('"event": "update"') >= 20:
            break
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    if number == signal.SIGINT:
        assert process.returncode == 130, errors
        assert "train classify --out" in errors
    done = elman("train", "classify", "--out", cut, "--resume")
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "state.safetensors", "labels.json"):
        first, second = (
            hashlib.sha256((run / name).read_bytes()).hexdigest() for run in (whole, cut)
        )
        assert first == second, name


def test_data_that_changed_meanwhile_are_not_gone_on_with(
    elman: Elman, reviews: Path, tmp_path: Path
) -> None:
    data, run = tmp_path / "rows.tsv", tmp_path / "run"
    data.write_text(reviews.read_text(encoding="utf-8"), encoding="utf-8")
    options = (*SMALL, "--set=training.updates=5")
    assert elman("train", "classify", "--data", data, "--out", run, *options).returncode == 0
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["results"] = {}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    data.write_text(data.read_text(encoding="utf-8").replace("not good", "quite good"))
    done = elman("train", "classify", "--out", run, "--resume")
    assert done.returncode == 2
    assert "not those that the run began with" in done.stderr


def test_series_are_told_apart_by_their_order_where_readings_alone_are_at_chance(
    elman: Elman, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = elman(
        *("train", "classify", "--data", "builtin:rise-and-fall", "--out", run, "--json"),
        *("--set=training.epochs=6", "--set=model.hidden_size=24"),
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["scores"]["test"]
    assert figures["accuracy"] >= 0.99
    assert 0.35 <= figures["baselines"]["histogram of the numbers"]["accuracy"] <= 0.65
    assert (run / "scaling.json").exists()
    assert not (run / "tokenizer.json").exists()
    table = tmp_path / "series.csv"
    table.write_text(
        "1,2,3,4,5,4,3,2,1\n5,4,3,2,1,2,3,4,5,6\n\n-1,-0.5,0,1,0.8,0.1,-1,-2\n", encoding="utf-8"
    )
    done = elman("predict", run, table)
    labels = [line.split("\t")[0] for line in done.stdout.removesuffix("\n").split("\n")]
    assert labels == ["rise-then-fall", "fall-then-rise", "", "rise-then-fall"]


def test_several_labels_are_learnt_scored_and_written(elman: Elman, tmp_path: Path) -> None:
    data, run = tmp_path / "rows.tsv", tmp_path / "run"
    rows = []
    for number in range(240):
        named = [word for place, word in enumerate(WORDS[:3]) if (number >> place) & 1]
        rows.append(f"{' '.join(named)} {WORDS[3 + number % 2]}\t{','.join(named) or 'none'}\n")
    data.write_text("text\tlabels\n" + "".join(rows), encoding="utf-8")
    done = elman(
        *("train", "classify", "--data", data, "--label-separator", ",", "--out", run, *SMALL),
        *("--set=training.epochs=25", "--set=training.class_weights=balanced", "--json"),
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["scores"]["test"]
    assert figures["subset_accuracy"] >= 0.9
    assert figures["baselines"]["bag of words"]["subset_accuracy"] >= 0.9
    done = elman("predict", run, "-", stdin="film plot scene\n\nfilm story\n")
    first, second, third = done.stdout.removesuffix("\n").split("\n")
    assert first.split("\t")[0].split(",") == ["film", "plot"]
    assert (second, third.split("\t")[0]) == ("", "film")


def test_verbs_of_another_task_are_refused_with_the_right_one(
    elman: Elman, classifier: Path, stream_run: Path, story: Path, reviews: Path
) -> None:
    for arguments, told in (
        (("generate", classifier), "elman predict"),
        (("predict", stream_run, story), "elman generate"),
        (("score", classifier, reviews, "--window", "3", "--unknown", "skip"), "language models"),
        (("train", "lm", "--out", classifier, "--resume"), "elman train classify"),
        (("predict", classifier, "nowhere.txt"), "nowhere.txt"),
    ):
        done = elman(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert told in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--set=text.unit=stream"], "text.unit"),
        (["--set=model.tie_weights=true"], "model.tie_weights"),
        (["--label-column", "nowhere"], "nowhere"),
        (["--series", "--set=data.text_column=1"], "series"),
        (["--series"], "number"),
        (["--set=data.format=conll"], "data.format"),
    ],
)
def test_what_cannot_be_is_told_in_one_line_and_leaves_no_folder(
    elman: Elman, reviews: Path, tmp_path: Path, options: list[str], told: str
) -> None:
    run = tmp_path / "run"
    done = elman("train", "classify", "--data", reviews, "--out", run, *options)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not run.exists()
