"""Looking into classifiers, taggers and supplied weights: what is shown is what they answer."""

import csv
import json
import math
from collections.abc import Callable
from fractions import Fraction
from importlib.resources import files
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from test_inspecting_journeys import digests, looked

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = ("--set=model.hidden_size=8", "--set=training.updates=12", "--set=training.batch_size=8")
TEXT = "the film was not dull but good"
SENTENCE = "Ann went to Rome"
NUMBERS = " -0.5, 0.25 1e0"
FIXTURE = Path(str(files("elman.recipes.lab").joinpath("fixtures", "clue.json")))


@pytest.fixture(scope="module")
def classifier(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of two layers in both directions with attention. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("looked")
    pairs = (("not dull but good", "pos"), ("not good but dull", "neg"))
    rows = [
        f"the {w} was {said}\t{label}\n" for w in ("film", "plot") * 20 for said, label in pairs
    ]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    done = elman(
        *("train", "classify", "--data", folder / "rows.tsv", "--out", folder / "run", *SMALL),
        *("--set=model.pooling=attention", "--set=model.num_layers=2"),
        "--set=model.bidirectional=true",
    )
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def tagger(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger of spans with a chain. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("looked-tags")
    rows = [
        f"{name} B-PER\nwent O\nto O\n{place} B-LOC\n\n"
        for name in ("Ann", "Bob", "Cid", "Eve") * 4
        for place in ("Rome", "Oslo")
    ]
    (folder / "rows.conll").write_text("".join(rows), encoding="utf-8")
    done = elman(
        *("train", "tag", "--data", folder / "rows.conll", "--out", folder / "run", *SMALL),
        *("--set=model.character_units=4", "--set=model.character_size=4"),
    )
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def series_run(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of series. Read it, do not change it."""
    run = tmp_path_factory.mktemp("looked-series") / "run"
    done = elman("train", "classify", "--data", "builtin:rise-and-fall", "--out", run, *SMALL)
    assert done.returncode == 0, done.stderr
    return run


def predicted(elman: Elman, run: Path, text: str) -> list[dict[str, Any]]:
    done = elman("predict", run, "-", "--json", "--probabilities", stdin=text)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_classifier_is_shown_with_the_answers_that_it_gives(
    elman: Elman, classifier: Path
) -> None:
    before = digests(classifier)
    told = looked(elman, classifier, TEXT)
    tokens = told["tokens"]
    assert tokens == TEXT.split()
    beginnings = [" ".join(tokens[: length + 1]) for length in range(len(tokens))]
    answers = predicted(elman, classifier, "".join(f"{text}\n" for text in beginnings))
    steps = told["trace"]["steps"]
    for step, answer in zip(steps, answers, strict=True):
        here = step["if_ended_here"]
        assert here["label"] == answer["label"]
        assert here["probability"] == pytest.approx(answer["probability"], abs=1e-6)
        shares = {each["label"]: each["probability"] for each in here["top"]}
        assert shares == pytest.approx(answer["probabilities"], abs=1e-6)
    assert told["answer"]["label"] == answers[-1]["label"]
    assert told["answer"]["probabilities"] == pytest.approx(answers[-1]["probabilities"], abs=1e-6)
    assert told["trace"]["layer"] == 2
    assert {unit["direction"] for unit in steps[0]["units"]} == {"forward", "backward"}
    assert digests(classifier) == before


def test_words_that_a_classifier_does_not_know_are_told_of(elman: Elman, classifier: Path) -> None:
    for policy in ((), ("--unknown", "skip")):
        done = elman("inspect", classifier, "the zebra was good", *policy, "--json")
        assert done.returncode == 0, done.stderr
        become = "left out" if policy else "read as [ UNK ]: 'zebra'"
        assert f"1 of 4 tokens is unknown to the run, {become}" in done.stderr
        told = json.loads(done.stdout)
        assert len(told["tokens"]) == (3 if policy else 4)
        assert told["unknown"] == ([] if policy else [{"position": 1, "token": "zebra"}])
    done = elman("inspect", classifier, "the zebra was good", "--unknown", "refuse")
    assert done.returncode == 2
    assert "got zebra" in done.stderr


def test_attention_gradients_and_gates_of_a_classifier_have_their_numbers_and_pictures(
    elman: Elman, classifier: Path, tmp_path: Path
) -> None:
    views = ("trace", "gates", "gradients", "attention", "change")
    options = [part for view in views for part in ("--show", view)]
    told = looked(elman, classifier, TEXT, *options, "--layer", "1")
    weights = told["attention"]["weights"]
    assert math.fsum(weights) == pytest.approx(1.0, abs=1e-6)
    assert told["attention"]["share_on_padding"] == 0.0
    assert len(told["gradients"]["input_norms"]) == len(weights) == 7
    assert set(told["gradients"]["state_norms"]) == {"forward", "backward"}
    loss = -math.log(told["answer"]["probability"])
    assert told["gradients"]["value"] == pytest.approx(loss, abs=1e-5)
    places = [(layer["layer"], layer["direction"]) for layer in told["gates"]["text"]]
    assert places == [(1, "forward"), (1, "backward"), (2, "forward"), (2, "backward")]
    assert all(change["equal"] for change in told["change"])
    picture, table = tmp_path / "views.svg", tmp_path / "trace.csv"
    done = elman(
        *("inspect", classifier, TEXT, *options, "--unit", "2", "--layer", "1"),
        *("--picture", picture, "--csv", table),
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().lstrip().startswith(b"<?xml")
    words = " ".join(done.stdout.split())
    assert f"answer: {told['answer']['label']}; probabilities:" in words
    assert "layer 1 backward, unit 2" in words
    assert "on padding: 0, which must be 0" in words
    rows = list(csv.DictReader(StringIO(table.read_text(encoding="utf-8"))))
    assert len(rows) == 2 * len(weights)
    for row, later in zip(rows[::2], rows[2::2], strict=False):
        assert (row["direction"], row["h after"]) == ("forward", later["h before"])
    for row, later in zip(rows[1::2], rows[3::2], strict=False):
        assert (row["direction"], row["h before"]) == ("backward", later["h after"])


def test_a_tagger_is_shown_with_the_tags_that_it_gives(elman: Elman, tagger: Path) -> None:
    before = digests(tagger)
    told = looked(elman, tagger, SENTENCE, "--show", "trace", "--show", "gradients", "--at", "4")
    (answer,) = predicted(elman, tagger, f"{SENTENCE}\n")
    steps = told["trace"]["steps"]
    assert [step["written"] for step in steps] == answer["tags"] == told["answer"]["tags"]
    shares = [step["probability"] for step in steps]
    assert shares == pytest.approx(answer["probabilities"], abs=1e-6)
    for step in steps:
        assert step["runner_up"]["tag"] != step["tag"]
        assert math.fsum(share["probability"] for share in step["top"]) <= 1.0 + 1e-9
    assert told["gradients"]["value"] == pytest.approx(-math.log(shares[3]), abs=1e-5)
    assert told["gradients"]["answer"] == f"{steps[3]['tag']} at token 4 (Rome)"
    done = elman("inspect", tagger, SENTENCE, "--show", "trace", "--show", "gates")
    assert "written: as files spell them" in done.stdout
    assert "backward" in done.stdout
    assert digests(tagger) == before


def test_a_series_is_shown_number_by_number(elman: Elman, series_run: Path) -> None:
    told = looked(elman, series_run, NUMBERS, "--show", "trace", "--show", "gates")
    assert told["tokens"] == ["-0.5", "0.25", "1e0"]
    (answer,) = predicted(elman, series_run, "-0.5\t0.25\t1\n")
    assert told["answer"]["label"] == answer["label"]
    assert told["answer"]["probabilities"] == pytest.approx(answer["probabilities"], abs=1e-6)
    scaled = [step["scaled"] for step in told["trace"]["steps"]]
    assert (scaled[2] - scaled[1]) / (scaled[1] - scaled[0]) == pytest.approx(1.0, rel=1e-5)
    assert told["gates"]["vocabulary"] == []
    done = elman("inspect", series_run, "--file", "-", stdin="-0.5 1\n")
    assert "if it ended here" in done.stdout


@pytest.mark.parametrize(
    ("fixture", "options", "told"),
    [
        (
            "classifier",
            [TEXT, "--show", "trace", "--show", "horizon"],
            "a run of elman train classify has no such view; got --show horizon; allowed: trace, "
            "gates, gradients, attention, change",
        ),
        ("classifier", [TEXT, "--show", "memory"], "got --show memory; allowed: trace, gates"),
        (
            "classifier",
            [TEXT, "--html", "page.html"],
            "--html is for language models; got a run of",
        ),
        ("classifier", [TEXT, "--compare", TEXT], "--compare is for language models; got a run of"),
        (
            "classifier",
            [TEXT, "--show", "gradients", "--at", "1"],
            "--at is for taggers; got a run",
        ),
        ("classifier", [TEXT, "--layer", "3"], "--layer must be one of the model's; got 3"),
        ("classifier", [" "], "there is no token in the text; got ' '"),
        ("tagger", ["a b\nc"], "a tagger reads one sentence at a time; got 2 lines"),
        ("tagger", ["a", "--show", "attention"], "a run of elman train tag has no such view"),
        ("tagger", ["a", "--unknown", "skip"], "--unknown is not for taggers"),
        ("tagger", ["a", "--at", "1"], "--at is asked of gradients; got no --show gradients"),
        (
            "tagger",
            ["a b", "--show", "gradients", "--at", "3"],
            "--at must be a token of the sentence; got 3; allowed: 1 to 2",
        ),
        ("series_run", ["1 two"], "a run of series reads numbers; got 'two'"),
        ("series_run", ["1,,2"], "a run of series reads numbers; got ''"),
        ("series_run", ["1 1e300"], "too far from those that were learnt from; got 1e+300"),
        ("series_run", ["1", "--show", "attention"], "has no attention to look at; got model.pool"),
        ("stream_run", ["the", "--show", "attention"], "a run of elman train lm has no such view"),
    ],
)
def test_what_has_no_meaning_for_a_task_is_one_line(
    elman: Elman, fixture: str, options: list[str], told: str, request: pytest.FixtureRequest
) -> None:
    done = elman("inspect", request.getfixturevalue(fixture), *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_mark_of_byte_order_before_supplied_weights_is_passed_over(
    elman: Elman, tmp_path: Path
) -> None:
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + FIXTURE.read_bytes())
    done = elman("inspect", marked, "blue key is", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"] == "blue"


@pytest.mark.parametrize("fillers", [0, 6])
def test_supplied_weights_are_traced_in_fractions(
    elman: Elman, fillers: int, tmp_path: Path
) -> None:
    text, table = " ".join(["blue", *["filler"] * fillers, "key", "is"]), tmp_path / "trace.csv"
    done = elman("inspect", FIXTURE, text, "--show", "trace", "--json", "--csv", table)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    halves = [Fraction(1, 2**step) for step in range(fillers + 3)]
    for step, half in zip(told["trace"]["steps"], halves, strict=True):
        assert step["new"]["fractions"] == ["0", str(half)]
        assert step["new"]["floats"] == [0.0, float(half)]
        assert step["logits"] == {"red": "1/8", "blue": str(half)}
        share = 1.0 / (1.0 + math.exp(0.125 - float(half)))
        assert float(step["probabilities"]["blue"]) == pytest.approx(share, rel=1e-12)
        # Forty digits, but for equal logits, whose shares are short.
        assert len(step["probabilities"]["blue"]) >= 42 or half == Fraction(1, 8)
    assert told["answer"] == ("red" if halves[-1] <= Fraction(1, 8) else "blue")
    rows = list(csv.DictReader(StringIO(table.read_text(encoding="utf-8"))))
    logits = [row for row in rows if row["part"] == "logit" and row["name"] == "blue"]
    assert [Fraction(row["fraction"]) for row in logits] == halves
    assert [float(row["float"]) for row in logits] == [float(half) for half in halves]
    shown = elman("inspect", FIXTURE, text, "--unit", "2").stdout
    assert f"{halves[-1]} = {float(halves[-1]):.6g}" in shown
    assert f"answer: {told['answer']};" in shown


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["green is"], "the model does not know a word; got green; allowed: red, blue, filler"),
        (["red", "--show", "gates"], "the trace is shown, in exact fractions; got --show gates"),
        (["red", "--picture", "x.svg"], "in exact fractions; got --picture; allowed: --show trace"),
        (["red", "--layer", "2"], "in exact fractions; got --layer"),
        (["red", "--unit", "3"], "--unit must be one of the network's; got 3; allowed: 1 to 2"),
        ([" "], "there is no token in the text"),
        ([], "elman inspect FILE TEXT reads one text; got none"),
    ],
)
def test_what_supplied_weights_cannot_show_is_one_line(
    elman: Elman, options: list[str], told: str
) -> None:
    done = elman("inspect", FIXTURE, *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "holds no network of supplied weights: the text of an exact model must be JSON"),
        (b'{"model": 3}', 'holds no network of supplied weights: an exact model stands under "mo'),
        (b"\xff\xfe", "must be a JSON file of supplied weights; got bytes that are no UTF-8"),
    ],
)
def test_a_file_without_supplied_weights_is_one_line(
    elman: Elman, content: bytes, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "weights.json"
    path.write_bytes(content)
    done = elman("inspect", path, "red")
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_fractions_that_grow_too_long_are_refused(elman: Elman, tmp_path: Path) -> None:
    whole = json.loads(FIXTURE.read_text(encoding="utf-8"))
    whole["model"]["recurrent_weights"][0][0] = "1/" + "7" * 60
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert elman("inspect", path, "red " * 20).returncode == 0
    done = elman("inspect", path, "red " * 80)
    assert done.returncode == 2
    assert "fractions of more than 4,000 digits are not written out" in done.stderr
