"""Several runs that answer as one: the probabilities of all are averaged."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
PAIRS = "".join(f"{one}{two}\t{two}{one}\n" for one in "abcdefgh" for two in "ijklmnop")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text(PAIRS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(elman: Elman, table: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs on the same pairs that differ in seed and size. Read them, do not change them."""
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for seed in (1, 2, 3):
        out = folder / str(seed)
        done = elman(
            *("train", "translate", "--data", table, "--out", out, "--seed", seed),
            f"--set=model.hidden_size={8 * seed}",
            *("--valid", table, "--test", table, "--set=training.updates=30"),
            *("--set=model.attention=none", "--set=model.encoder_size=0") * (seed == 3),
        )
        assert done.returncode == 0, done.stderr
        made.append(out)
    return made


def test_an_ensemble_answers_as_one_whatever_the_order(
    elman: Elman, runs: list[Path], table: Path
) -> None:
    first, second, third = runs
    answers = []
    for one, others in ((first, (second, third)), (third, (first, second))):
        together = [part for other in others for part in ("--ensemble", other)]
        done = elman("predict", one, "-", "--json", *together, stdin="ai\ncp\n\nhk\n")
        assert done.returncode == 0, done.stderr
        answers.append([json.loads(line) for line in done.stdout.splitlines()])
    for row, other in zip(*answers, strict=True):
        assert row["text"] == other["text"]
        for mine, theirs in zip(row["answers"], other["answers"], strict=True):
            assert mine["log_prob_nats"] == pytest.approx(theirs["log_prob_nats"], abs=1e-5)


def test_an_ensemble_is_scored_by_the_mean_of_its_probabilities(
    elman: Elman, runs: list[Path], table: Path
) -> None:
    def figures(*arguments: object) -> dict[str, float]:
        done = elman("score", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        told: dict[str, float] = json.loads(done.stdout)
        return told

    alone = [figures(run, table)["nats_per_token"] for run in runs]
    twice = figures(runs[0], table, "--ensemble", runs[0])["nats_per_token"]
    assert twice == pytest.approx(alone[0], rel=1e-6)
    together = figures(runs[0], table, "--ensemble", runs[1], "--ensemble", runs[2])
    assert min(alone) - 0.1 < together["nats_per_token"] < sum(alone) / len(alone)


def test_the_attention_of_an_ensemble_is_that_of_the_members_that_attend(
    elman: Elman, runs: list[Path], tmp_path: Path
) -> None:
    first, _, third = runs
    attended = []
    for name, arguments in (("alone", (first,)), ("both", (third, "--ensemble", first))):
        out = tmp_path / name
        done = elman("predict", *arguments, "-", "--attention", out, stdin="ai\n")
        assert done.returncode == 0, done.stderr
        attended.append(json.loads((out / "000001.json").read_text(encoding="utf-8")))
    for one in attended:
        assert one["source_tokens"] == ["a", "i"]
        assert all(sum(row) == pytest.approx(1.0, abs=1e-5) for row in one["weights"])


@pytest.fixture(scope="module")
def classifiers(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A table of rows whose last letter is the label, and two runs on it."""
    folder = tmp_path_factory.mktemp("classifiers")
    table = folder / "rows.tsv"
    rows = (f"{one}{two}\t{two}\n" for one in "abcdefgh" for two in "xyz")
    table.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    made = []
    for seed in (1, 2):
        out = folder / str(seed)
        done = elman(
            *("train", "classify", "--data", table, "--valid", table, "--test", table),
            *("--out", out, "--seed", seed, "--level", "char"),
            *(f"--set=model.hidden_size={8 * seed}", "--set=training.updates=20"),
        )
        assert done.returncode == 0, done.stderr
        made.append(out)
    return table, made


def test_classifiers_answer_with_the_mean_of_their_probabilities(
    elman: Elman, classifiers: tuple[Path, list[Path]]
) -> None:
    table, (first, second) = classifiers

    def probabilities(*arguments: object) -> list[dict[str, float]]:
        done = elman("predict", *arguments, table, "--json", "--probabilities")
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["probabilities"] for line in done.stdout.splitlines()]

    alone = [probabilities(first), probabilities(second)]
    together = probabilities(first, "--ensemble", second)
    assert len(together) == 24
    for row, *each in zip(together, *alone, strict=True):
        for label, probability in row.items():
            mean = sum(one[label] for one in each) / 2
            assert probability == pytest.approx(mean, abs=1e-6)
    scored = elman("score", first, table, "--ensemble", second, "--json")
    assert json.loads(scored.stdout)["num_rows"] == 24
    refused = elman("predict", first, table, "--ensemble", first.parent / "nowhere")
    assert refused.returncode == 2
    assert "there is no run at" in refused.stderr


def test_members_without_the_same_vocabularies_are_refused(
    elman: Elman, runs: list[Path], tmp_path: Path
) -> None:
    path, out = tmp_path / "other.tsv", tmp_path / "run"
    path.write_text(PAIRS.replace("a", "z"), encoding="utf-8")
    done = elman(
        *("train", "translate", "--data", path, "--out", out),
        *("--set=training.updates=1", "--set=model.hidden_size=4"),
    )
    assert done.returncode == 0, done.stderr
    for verb in ("predict", "score"):
        refused = elman(verb, runs[0], path, "--ensemble", out)
        assert refused.returncode == 2
        assert "same vocabularies" in refused.stderr
        assert str(out) in refused.stderr
        assert refused.stderr.count("\n") == 1
