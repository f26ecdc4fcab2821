"""From pairs to answers: every command as a person types it, on a few small pairs."""

import hashlib
import json
import os
import shutil
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
    "--set=model.hidden_size=16",
    "--set=model.embedding_size=8",
    "--set=training.batch_size=8",
    "--set=data.valid_fraction=0.1",
    "--set=data.test_fraction=0.1",
)
WORDS = ("ba", "dog", "cat", "bird", "a", "tree", "log", "mat", "sang", "slept")
PAIRS = [(f"{one}{two}", f"{two}{one}"[::-1]) for one in WORDS for two in WORDS if one != two]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("".join(f"{one}\t{two}\n" for one, two in PAIRS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(elman: Elman, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of characters. Read it, do not change it."""
    out = tmp_path_factory.mktemp("runs") / "translate"
    done = elman(
        *("train", "translate", "--data", table, "--out", out, *SMALL),
        "--set=training.updates=60",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    test = told["scores"]["test"]
    gap = test["teacher_forced_accuracy"] - test["free_running_accuracy"]
    assert test["exposure_gap"] == pytest.approx(gap)
    assert test["bleu"]["signature"].startswith("nrefs:1")
    assert "exact matches" in done.stderr
    return out


def test_a_run_keeps_both_vocabularies_and_tells_of_its_pairs(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert {"tokenizer.json", "target.json", "config.toml", "model.safetensors"} <= names
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    parts = manifest["data"]["parts"]
    assert sum(part["pairs"] for part in parts.values()) == len(PAIRS)
    assert parts["test"]["pairs"] == 9
    # Of an alphabet nothing is smoothed.
    assert "label_smoothing = 0.0" in (run / "config.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("beam", ["1", "3"])
def test_there_is_one_answer_for_each_line_in_any_company(  # cases D10, D11
    elman: Elman, run: Path, tmp_path: Path, beam: str
) -> None:
    """Blank lines stay blank, batches change nothing, standard input is a file."""
    lines = ["dogcat", "", "   ", "a", "treelogmat", "ba", "birdslept", "x?"]
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    answers = []
    for size in ("1", "3", "64"):
        done = elman("predict", run, path, "--beam", beam, "--batch-size", size)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
        assert "2 rows without text" in done.stderr
    assert answers[0] == answers[1] == answers[2]
    found = answers[0].split("\n")
    assert len(found) == len(lines) + 1
    assert found[1] == found[2] == found[8] == ""
    assert all(found[place] for place in (0, 3, 4, 5, 6))
    alone = elman("predict", run, "-", "--beam", beam, stdin="birdslept\n")
    assert alone.stdout == f"{found[6]}\n"


def test_answers_as_objects_hold_every_hypothesis_with_its_score(
    elman: Elman, run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("dogcat\n\nba\n", encoding="utf-8")
    rows = []
    for size in ("1", "2"):
        done = elman(
            *("predict", run, path, "--json", "--beam", "3", "--n-best", "2"),
            *("--batch-size", size),
        )
        rows.append([json.loads(line) for line in done.stdout.splitlines()])
    assert [row["row"] for row in rows[0]] == [1, 2, 3]
    assert rows[0][1]["text"] is None
    for one, other in zip(*rows, strict=True):
        assert len(one["answers"]) == (0 if one["text"] is None else 2)
        for first, second in zip(one["answers"], other["answers"], strict=True):
            assert first["text"] == second["text"]
            assert first["score"] == pytest.approx(second["score"], abs=1e-5)
        scores = [answer["score"] for answer in one["answers"]]
        assert scores == sorted(scores, reverse=True)


def test_attention_is_written_as_numbers_and_pictures(
    elman: Elman, run: Path, tmp_path: Path
) -> None:
    path, folder = tmp_path / "lines.txt", tmp_path / "attention"
    path.write_text("dogcat\n\nba\n", encoding="utf-8")
    done = elman("predict", run, path, "--attention", folder)
    assert done.returncode == 0, done.stderr
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["000001.json", "000001.png", "000003.json", "000003.png"]
    told = json.loads((folder / "000001.json").read_text(encoding="utf-8"))
    assert told["source_tokens"] == list("dogcat")
    answer = "".join(told["target_tokens"]).removesuffix("[end]")
    assert answer == done.stdout.split("\n")[0]
    assert len(told["weights"]) == len(told["target_tokens"])
    for row in told["weights"]:
        assert len(row) == 6
        assert sum(row) == pytest.approx(1.0, abs=1e-5)
    refused = elman("predict", run, path, "--attention", folder)
    assert refused.returncode == 2
    assert "new folder" in refused.stderr
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"dogcat\n" * 1500 + b"\xff\n")
    for source in (tmp_path / "nowhere.txt", broken):
        refused = elman("predict", run, source, "--attention", tmp_path / "new" / "att9")
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--beam", "0"], "--beam must be an int >= 1; got 0"),
        (["--beam", "2", "--n-best", "3"], "--n-best must be an int from 1 to --beam"),
        (["--min-length", "9", "--max-length", "3"], "--max-length must be 0 or at least"),
        (["--batch-size", "0"], "--batch-size must be an int >= 1; got 0"),
    ],
)
def test_searches_that_cannot_be_are_refused_in_one_line(
    elman: Elman, run: Path, table: Path, options: list[str], told: str
) -> None:
    for verb in ("predict", "score"):
        done = elman(verb, run, table, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"elman: {told}" in done.stderr
        assert done.stderr.count("\n") == 1


def test_what_ran_the_model_is_told_where_asked(elman: Elman, run: Path) -> None:
    done = elman("predict", run, "-", "--verbose", stdin="dogcat\n")
    assert done.returncode == 0, done.stderr
    assert "kernels: " in done.stderr
    assert done.stdout.count("\n") == 1


def test_scoring_the_same_pairs_gives_the_same_figures_in_any_batches(
    elman: Elman, run: Path, table: Path, tmp_path: Path
) -> None:
    figures = [
        json.loads(elman("score", run, table, "--json", "--batch-size", size).stdout)
        for size in ("7", "64")
    ]
    assert figures[0]["num_rows"] == len(PAIRS)
    for name, value in figures[0].items():
        if isinstance(value, float):
            assert value == pytest.approx(figures[1][name], rel=1e-6), name
        else:
            assert value == figures[1][name], name
    sources, targets = tmp_path / "one.txt", tmp_path / "two.txt"
    sources.write_text("".join(f"{one}\n" for one, _ in PAIRS), encoding="utf-8")
    targets.write_text("".join(f"{two}\n" for _, two in PAIRS), encoding="utf-8")
    parallel = elman("score", run, sources, "--targets", targets, "--json", "--batch-size", "7")
    assert json.loads(parallel.stdout) == figures[0]
    table_of = elman("score", run, table, "--beam", "2", "--phones")
    assert "phone error rate" in table_of.stdout
    assert ["pairs", "90"] in [line.split() for line in table_of.stdout.splitlines()]
    assert "\nBLEU: nrefs:1" in table_of.stdout
    assert "\nchrF2: nrefs:1" in table_of.stdout


def test_parallel_files_lose_a_pair_on_both_sides_and_must_be_as_long(  # case D11
    elman: Elman, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("ab\n\nba\naab\nbba\n", encoding="utf-8")
    two.write_text("ba\nxyz\nab\nbaa\nabb\n", encoding="utf-8")
    arguments = ("train", "translate", "--data", one, "--targets", two, "--set=training.updates=2")
    done = elman(*arguments, "--out", tmp_path / "run", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "x" not in json.loads((tmp_path / "run" / "target.json").read_text())["model"]["vocab"]
    assert "blank" in done.stderr
    two.write_text("ba\nxyz\n", encoding="utf-8")
    refused = elman(*arguments, "--out", tmp_path / "other", *SMALL)
    assert refused.returncode == 2
    assert "5 in" in refused.stderr
    assert "2 in" in refused.stderr


def test_no_source_that_is_held_out_is_learnt_from(elman: Elman, tmp_path: Path) -> None:
    """Every source twice, with two targets: both go to the same part."""
    path = tmp_path / "pairs.csv"
    rows = [f"{one},{target}\n" for one, two in PAIRS for target in (two, f"{two}s")]
    path.write_text("source,target\n" + "".join(rows), encoding="utf-8")
    run = tmp_path / "run"
    done = elman(
        *("train", "translate", "--data", path, "--out", run, *SMALL, "--set=training.updates=1")
    )
    assert done.returncode == 0, done.stderr
    assert "in training too" not in done.stderr
    parts = json.loads((run / "manifest.json").read_text())["data"]["parts"]
    assert [parts[name]["pairs"] for name in ("train", "valid", "test")] == [144, 18, 18]


def test_an_interrupted_run_goes_on_to_the_same_bits(
    elman: Elman, table: Path, tmp_path: Path
) -> None:
    settings = (
        *SMALL,
        "--set=training.updates=120",
        "--set=training.save_every=10",
        "--set=model.dropout=0.2",
        "--set=training.scheduled_sampling=0.2",
        "--preset=bahdanau",
    )
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    arguments = ("train", "translate", "--data", str(table), *settings, "--out")
    assert elman(*arguments, whole).returncode == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "elman", *arguments, str(cut)],
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        rows = cut / "metrics.jsonl"
        if rows.exists() and rows.read_text().count("\n") >= 20:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "train translate" in errors
    assert elman("train", "translate", "--out", cut, "--resume").returncode == 0
    for name in ("model.safetensors", "tokenizer.json", "target.json"):
        digests = [hashlib.sha256((run / name).read_bytes()).digest() for run in (whole, cut)]
        assert digests[0] == digests[1], name


def test_two_sides_must_have_as_many_files_as_each_other(
    elman: Elman, run: Path, table: Path
) -> None:
    for targets, told in (((table, table), "1 and 2 files"), (("-",), "only once")):
        first = "-" if targets == ("-",) else str(table)
        refused = elman("score", run, first, "--targets", *targets, stdin="a\n")
        assert refused.returncode == 2
        assert told in refused.stderr


def test_options_of_other_tasks_are_refused_by_runs_of_sequences(
    elman: Elman, run: Path, table: Path, tmp_path: Path
) -> None:
    for arguments, told in (
        (("predict", run, table, "--probabilities"), "classifiers and taggers"),
        (("score", run, table, "--picture", tmp_path / "a.png"), "for classifiers"),
        (("score", run, table, "--per-token", tmp_path / "a.tsv"), "for language models"),
    ):
        refused = elman(*arguments)
        assert refused.returncode == 2
        assert told in refused.stderr
        assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options", [("--beam", "2"), ("--attention", "folder"), ("--ensemble", "another")]
)
def test_options_of_sequences_are_refused_by_runs_of_other_tasks(
    elman: Elman, line_run: Path, table: Path, options: tuple[str, str]
) -> None:
    refused = elman("predict", line_run, table, *options)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    scored = elman("score", line_run, table, "--beam", "2")
    assert scored.returncode == 2
    assert "write sequences" in scored.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--set=model.attention=dot",), "model.encoder_size"),
        (("--set=model.context=state",), "model.attention"),
        (("--set=model.coverage=vector",), "model.coverage"),
        (("--set=data.valid_target=['x']",), "as many files"),
        (("--set=text.unit=stream",), "text.unit"),
    ],
)
def test_settings_that_cannot_be_together_are_refused_in_one_line(
    elman: Elman, table: Path, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    done = elman("train", "translate", "--data", table, "--out", tmp_path / "run", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_unknown_words_are_copied_from_where_the_model_attends(
    elman: Elman, tmp_path: Path
) -> None:
    path, run = tmp_path / "pairs.tsv", tmp_path / "run"
    names = [f"name{number}" for number in range(40)]
    path.write_text("".join(f"hello {name}\tbonjour {name}\n" for name in names), encoding="utf-8")
    done = elman(
        *("train", "translate", "--data", path, "--out", run, "--level", "word", *SMALL),
        *(
            "--set=training.updates=80",
            "--set=text.min_count=2",
            "--set=training.label_smoothing=0",
        ),
    )
    assert done.returncode == 0, done.stderr
    plain = elman("predict", run, "-", stdin="hello zoe\n").stdout.split()
    copied = elman("predict", run, "-", "--copy-unknown", stdin="hello zoe\n").stdout.split()
    assert "zoe" not in plain
    assert copied[0] == "bonjour"
    assert len(copied) == 2
    assert copied[1] in ("zoe", "hello")


def test_a_score_is_of_what_is_written_where_unknown_words_are_copied(
    elman: Elman, tmp_path: Path
) -> None:
    path, run, asked = (tmp_path / name for name in ("pairs.tsv", "run", "asked.tsv"))
    path.write_text("".join(f"say n{n}\tsay n{n}\n" for n in range(300)), encoding="utf-8")
    asked.write_text("".join(f"say m{n}\tsay m{n}\n" for n in range(8)), encoding="utf-8")
    done = elman(
        *("train", "translate", "--data", path, "--out", run, "--level", "word", *SMALL),
        *("--set=training.updates=60", "--set=text.min_count=5"),
    )
    assert done.returncode == 0, done.stderr
    sources = "".join(f"say m{n}\n" for n in range(8))
    written = elman("predict", run, "-", "--copy-unknown", stdin=sources).stdout
    right = sum(
        one == other for one, other in zip(written.splitlines(), sources.splitlines(), strict=True)
    )
    told = json.loads(elman("score", run, asked, "--copy-unknown", "--json").stdout)
    assert told["exact_match"] == right / 8
    told = json.loads(elman("score", run, asked, "--json").stdout)
    assert told["exact_match"] == 0.0


def test_an_answer_keeps_the_signs_that_end_no_line(elman: Elman, tmp_path: Path) -> None:
    path, run = tmp_path / "pairs.tsv", tmp_path / "run"
    path.write_text("".join(f"k{n}\ta\u2028b\x85c\n" for n in range(30)), encoding="utf-8")
    done = elman(
        *("train", "translate", "--data", path, "--out", run, *SMALL),
        *("--set=training.updates=200", "--set=training.label_smoothing=0"),
    )
    assert done.returncode == 0, done.stderr
    assert elman("predict", run, "-", stdin="k1\nk2\n").stdout == "a\u2028b\x85c\n" * 2


def test_a_vocabulary_that_was_altered_is_named(elman: Elman, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    target = copy / "target.json"
    target.write_text(target.read_text(encoding="utf-8") + " ", encoding="utf-8")
    refused = elman("predict", copy, "-", stdin="ab\n")
    assert refused.returncode == 2
    assert "tokenizer.json or target.json of the run" in refused.stderr


def test_answers_are_compared_in_the_normal_form_they_are_written_in(
    elman: Elman, tmp_path: Path
) -> None:
    """A letter that the file has in one code point and the answer in two is the same letter."""
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{one}{two}\té\n" for one in WORDS for two in WORDS), "utf-8")
    done = elman(
        *("train", "translate", "--data", table, "--out", tmp_path / "run", *SMALL, "--json"),
        *("--set=text.normal_form=NFD", "--set=training.updates=200"),
    )
    assert done.returncode == 0, done.stderr
    test = json.loads(done.stdout)["scores"]["test"]
    assert (test["exact_match"], test["chrf"]["score"]) == (1.0, 100.0)
