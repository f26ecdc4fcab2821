"""What a table of models must say so that nobody reads more out of it than was measured."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
TINY = ("--set=model.hidden_size=16", "--set=training.batch_size=4", "--set=training.window=16")


def made(elman: Elman, out: Path, text: Path, *options: object) -> Path:
    done = elman("train", "lm", "--data", text, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    return out


def refused(done: "CompletedProcess[str]") -> str:
    assert done.returncode == 2, done.stderr
    (line,) = [one for one in done.stderr.splitlines() if not one.startswith("note:")]
    return line


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fair")
    learnt = ["gold ledge .", *(f"the cat sat on the mat {k % 7} times ." for k in range(200))]
    other = [f"the dog sat on the log {k % 5} times ." for k in range(200)]
    for name, lines in (("learnt", learnt), ("other", other)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: folder / f"{name}.txt" for name in ("learnt", "other")}


@pytest.fixture(scope="module")
def runs(elman: Elman, texts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: counts of characters and of words, and a word model of two updates."""
    folder, count = tmp_path_factory.mktemp("runs"), ("--set=model.kind=ngram",)
    made(elman, folder / "char", texts["learnt"], *count)
    made(elman, folder / "word", texts["learnt"], "--level", "word", *count)
    brief = ("--level", "word", "--set=model.kind=elman", "--set=training.updates=2", *TINY)
    made(elman, folder / "brief", texts["learnt"], *brief)
    return folder


def test_what_does_not_know_the_words_is_marked_and_not_said_to_win(
    elman: Elman, runs: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    table = tmp_path / "table.md"
    one, two = runs / "char", runs / "word"
    done = elman("compare", one, two, one, texts["other"], "--json", "--markdown", table)
    told = json.loads(done.stdout)
    assert [row["is_too_low"] for row in told["rows"]] == [False, True, False]
    assert [row["difference"] for row in told["rows"]] == [None, None, None]
    assert told["rows"][0]["bits_per_byte_interval"]["method"].startswith("bootstrap over blocks")
    (note,) = [one for one in told["notices"] if one.startswith(f"* {two}:")]
    assert "are unknown" in note
    _, _, *rows = [line for line in table.read_text("utf-8").splitlines() if "|" in line]
    assert ["\\*" in row or "*" in row for row in rows] == [False, True, False]
    assert f"\\* {two}:" in table.read_text("utf-8")


def test_with_the_same_tokens_the_known_ones_have_a_column(
    elman: Elman, runs: Path, texts: dict[str, Path]
) -> None:
    done = elman("compare", runs / "word", runs / "brief", texts["other"])
    head, first, second = done.stdout.splitlines()
    assert "of known" in head
    assert first.split()[0] == "word"
    assert "(p" in second
    assert "less than one pass over its text: brief" in done.stderr
    score = json.loads(elman("score", runs / "word", texts["other"], "--json").stdout)
    assert f"{score['perplexity_excluding_unknown']:,.2f}" in first
    plain = elman("compare", runs / "char", texts["learnt"])
    assert "of known" not in plain.stdout


def test_a_text_that_was_learnt_from_is_told(
    elman: Elman, runs: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    done = elman("compare", runs / "char", texts["learnt"])
    assert "is a text that char learnt from" in done.stderr
    assert "learnt from" not in elman("compare", runs / "char", texts["other"]).stderr
    same = ("--valid", texts["learnt"], "--test", texts["learnt"])
    done = elman(
        *("train", "lm", "--data", texts["learnt"], "--out", tmp_path / "run"),
        *("--set=model.kind=ngram", *same),
    )
    for part in ("valid", "test"):
        assert f"the {part} part is the text that is learnt from" in done.stderr


def test_folders_and_files_that_are_no_runs_are_named(
    elman: Elman, runs: Path, texts: dict[str, Path]
) -> None:
    assert "none, which is not there" in refused(elman("compare", runs / "none", texts["other"]))
    for command in (("compare", runs / "char", runs), ("score", runs), ("generate", runs)):
        line = refused(
            elman(*command, texts["other"]) if command[0] != "generate" else elman(*command)
        )
        assert f"allowed: {runs / 'brief'}, {runs / 'char'}, {runs / 'word'}" in line


def test_an_order_that_could_be_longer_or_is_hardly_chosen_is_told(
    elman: Elman, texts: dict[str, Path], tmp_path: Path
) -> None:
    long, short = tmp_path / "long.txt", tmp_path / "short.txt"
    verse = "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyy\n"
    long.write_text(verse * 900, encoding="utf-8")
    short.write_text(verse * 20, encoding="utf-8")
    count = ("--set=model.kind=ngram",)
    done = elman("train", "lm", "--data", long, "--out", tmp_path / "long", *count)
    assert "order 12 is the longest that is tried" in done.stderr
    assert "tokens alone" not in done.stderr
    done = elman("train", "lm", "--data", short, "--out", tmp_path / "short", *count)
    assert "tokens alone; another text may want another" in done.stderr


def test_a_ladder_is_gone_on_with_under_the_same_budget_alone(
    elman: Elman, texts: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "ladder"
    command = ("train", "ladder", "--data", texts["learnt"], "--out", out, "--rungs", "unigram")
    assert elman(*command, "--budget", "20s").returncode == 0
    assert elman(*command, "--budget", "20s").returncode == 0
    line = refused(elman(*command, "--budget", "1m"))
    assert f"another budget in seconds than {out} was begun with: 60.0 in place of 20.0" in line
    line = refused(elman(*command, "--budget", "20s", "--seed", "7"))
    assert "training.seed=7 in place of nothing" in line
    assert "--resume" not in elman("train", "ladder", "--help").stdout


def test_models_of_little_time_are_small(texts: dict[str, Path]) -> None:
    from elman.config.settings import Settings
    from elman.config.toml_file import apply_overrides
    from elman.recipes.sizing import suggested_settings

    sizes = []
    for budget in (5.0, 20.0, 45.0, 60.0, None):
        early = Settings()
        found = apply_overrides(early, suggested_settings(early, 400_000, budget_seconds=budget))
        sizes.append((found.model.hidden_size, found.model.embedding_size))
    usual = (Settings().model.hidden_size, Settings().model.embedding_size)
    assert sizes == [
        (64, min(64, usual[1])),
        (128, min(128, usual[1])),
        (256, min(256, usual[1])),
        usual,
        usual,
    ]
    for kind in ("transformer", "window", "lstm"):
        early = apply_overrides(Settings(), (f"model.kind={kind}",))
        found = apply_overrides(early, suggested_settings(early, 400_000, budget_seconds=5.0))
        assert found.model.hidden_size == 64


def test_every_brief_run_is_named_and_counts_are_told_to_have_no_cache(
    elman: Elman, texts: dict[str, Path], tmp_path: Path
) -> None:
    names = [str(tmp_path / name) for name in ("first", "second", "counts")]
    small = ("--set=model.hidden_size=8", "--set=training.updates=1", "--set=training.window=4")
    small += ("--set=training.batch_size=2",)
    for name, seed in zip(names, ("1", "2", "3"), strict=True):
        how = ("--set=model.kind=ngram",) if name.endswith("counts") else (*small, "--seed", seed)
        done = elman("train", "lm", "--data", texts["learnt"], "--out", name, *how)
        assert done.returncode == 0, done.stderr
    done = elman("compare", *names, texts["other"], "--cache", "20")
    assert done.returncode == 0, done.stderr
    told = " ".join((done.stdout + done.stderr).split())
    assert "first (" in told
    assert "second (" in told
    assert "counts: counts have no states for a cache to compare" in told


def test_pairs_with_unknown_words_are_counted(
    elman: Elman, texts: dict[str, Path], tmp_path: Path
) -> None:
    run, pairs = tmp_path / "run", tmp_path / "pairs.tsv"
    how = ("--level", "word", "--set=model.kind=ngram")
    assert elman("train", "lm", "--data", texts["learnt"], "--out", run, *how).returncode == 0
    pairs.write_text("qqq\tzzz\n", encoding="utf-8")
    done = elman("score", run, "--minimal-pairs", pairs)
    assert "1 of them have words unknown here" in done.stdout
    told = json.loads(elman("score", run, "--minimal-pairs", pairs, "--json").stdout)
    assert told["num_pairs_with_unknown"] == 1
