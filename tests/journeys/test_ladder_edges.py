"""The ladder where it is easily got wrong: numbers that depend on nothing, and clear refusals."""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
WHOLE = ("--set=data.valid_fraction=0", "--set=data.test_fraction=0")
TINY = (
    "--set=model.hidden_size=16",
    "--set=training.batch_size=4",
    "--set=training.window=16",
    "--set=training.updates=8",
)


def figures(done: "CompletedProcess[str]") -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal(done: "CompletedProcess[str]") -> str:
    assert done.returncode == 2, done.stderr
    (line,) = [one for one in done.stderr.splitlines() if not one.startswith("note:")]
    return line


def counts(elman: Elman, out: Path, text: Path, *more: object) -> Path:
    kind = ("--set=model.kind=ngram", "--set=model.order=3")
    done = elman("train", "lm", "--data", text, "--out", out, *kind, *more)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines with blank ones among them, and accents."""
    path = tmp_path_factory.mktemp("edges") / "book.txt"
    parts = ("the café sat on the mat", "a dog ran to the señor", "the bird flew over a log")
    lines = [
        f"{one} and {two}.{chr(10) * (k % 3 == 0)}"
        for k in range(24)
        for one in parts
        for two in parts
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def learnt(elman: Elman, book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("edges") / "gru"
    done = elman("train", "lm", "--data", book, "--out", out, "--set=model.kind=gru", *TINY)
    assert done.returncode == 0, done.stderr
    return out


def test_weights_that_follow_a_text_give_one_number_for_every_window(
    elman: Elman, learnt: Path, book: Path
) -> None:
    rate = ("--dynamic", "--dynamic-rate", "0.001", "--json")
    found = [
        figures(elman("score", learnt, book, *rate, "--window", str(window)))["loss_nats"]
        for window in (512, 20, 7)
    ]
    assert found == pytest.approx([found[0]] * 3, rel=1e-6)


def test_weights_that_lose_the_text_are_warned_of(elman: Elman, learnt: Path, book: Path) -> None:
    for rate, lost in (("0", False), ("0.0001", False), ("1", True), ("1e30", True)):
        done = elman("score", learnt, book, "--json", "--dynamic", "--dynamic-rate", rate)
        told = figures(done)
        assert ("the rate is too high; leave --dynamic-rate out" in told["warning"]) == lost
        assert (f"warning: weights that follow at a rate of {float(rate):g}" in done.stderr) == lost
    assert told["loss_is_nan"] or told["loss_is_infinite"]


def test_each_try_is_told_while_numbers_are_fitted(learnt: Path, book: Path) -> None:
    from elman.recipes.mixing import Mixing, score_mixed
    from elman.recipes.scoring import ScoreRequest
    from elman.recipes.trained import open_trained

    trained, request = open_trained(learnt), ScoreRequest((str(book),))
    for mixing, what, tries in (
        (Mixing(is_dynamic=True), "fitting the rate, try {} of 5", 5),
        (Mixing(cache_size=9), "fitting the cache, try {}", None),
        (Mixing(other=learnt), "fitting the weight of the mixture, run {} of 2", 2),
    ):
        told: dict[str, list[int]] = {}
        score_mixed(
            trained,
            request,
            mixing,
            on_fitted=lambda stage, count, told=told: told.setdefault(stage, []).append(count),
        )
        stages = [stage for stage in told if stage.startswith(what.split(",")[0] + ", ")]
        tried = [one for one in stages if "alone" not in one]
        assert 3 <= len(tried) <= 10 if tries is None else len(tried) == tries
        assert tried == [what.format(number) for number, _ in enumerate(tried, 1)]
        for stage in stages:
            assert told[stage][0] == 0
            assert told[stage] == sorted(told[stage])
            assert told[stage][-1] > 100


def test_what_is_fitted_is_fitted_on_known_words_and_the_guessing_of_others_is_told(
    elman: Elman, book: Path, tmp_path: Path
) -> None:
    from elman.evaluation.scorers import ModelScorer
    from elman.recipes.trained import open_trained
    from elman.recipes.validation_text import ValidationText

    run, rare = tmp_path / "words", ("--level", "word", "--set=text.vocabulary_size=14")
    done = elman("train", "lm", "--data", book, "--out", run, "--json", *rare, *TINY)
    valid = figures(done)["scores"]["valid"]
    assert valid["num_unknown"] > 0
    trained = open_trained(run)
    texts = ValidationText(trained)
    nats_N = texts.nats(ModelScorer(trained.model, trained.plan), "once")
    assert texts.num_scored == valid["num_tokens_excluding_unknown"]
    assert texts.num_left_out == valid["num_unknown"]
    assert nats_N.sum() == pytest.approx(valid["loss_nats_excluding_unknown"], rel=1e-5)
    done = elman("score", run, book, "--cache", "9")
    assert f"tokens of validation text, {texts.num_left_out:,} unknown ones left out" in done.stderr
    assert "note: part of what this gains is the guessing of [ UNK ]" in done.stderr
    assert "perplexity, unknown left out" in done.stdout
    alone = elman("score", run, book)
    assert "the guessing of" not in alone.stderr


def test_the_usual_rates_are_those_that_are_tried(elman: Elman) -> None:
    from elman.recipes.dynamic_evaluation import RATES

    told = f"usually {RATES[0]:.5f} to {RATES[-1]}"
    assert told in " ".join(elman("score", "--help").stdout.replace("│", " ").split())
    ladder = Path(__file__).parents[2] / "docs" / "ladder.md"
    assert told in " ".join(ladder.read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--cache", "9", "--cache-weight=2"),
            "--cache-weight must be a number from 0 to 1; got 2",
        ),
        (("--cache", "9", "--cache-weight=nan"), "--cache-weight must be a number from 0 to 1"),
        (
            ("--cache", "9", "--cache-flatness=inf"),
            "--cache-flatness must be a number of 0 or more",
        ),
        (("--dynamic", "--dynamic-rate=nan"), "--dynamic-rate must be a number of 0 or more"),
        (("--dynamic", "--dynamic-rate=-1"), "--dynamic-rate must be a number of 0 or more"),
        (("--cache", "99999999999"), "--cache must be a number of states"),
    ],
)
def test_numbers_out_of_range_are_refused(
    elman: Elman, learnt: Path, book: Path, options: tuple[str, ...], told: str
) -> None:
    assert told in refusal(elman("score", learnt, book, *options))


def test_a_weight_that_is_given_is_kept_where_the_flatness_is_fitted(
    elman: Elman, learnt: Path, book: Path
) -> None:
    for weight in (0.3, 1.0):
        done = elman("score", learnt, book, "--json", "--cache", "9", f"--cache-weight={weight}")
        assert figures(done)["cache_weight"] == weight
        assert "Warning" not in done.stderr


def test_a_run_from_the_end_keeps_its_direction(elman: Elman, book: Path, tmp_path: Path) -> None:
    run = counts(elman, tmp_path / "back", book, "--set=text.direction=backward", *WHOLE)
    told = refusal(elman("convert", run, tmp_path / "back.arpa", "--to", "arpa"))
    assert "no place for the direction of a text" in told
    config = run / "config.toml"
    written = config.read_text(encoding="utf-8")
    config.write_text(written.replace('"backward"', '"forward"'), encoding="utf-8")
    told = refusal(elman("score", run, book))
    assert "text.direction = forward in config.toml, backward in model.safetensors" in told


def test_blank_lines_and_normal_forms_change_neither_sign_nor_interval(
    elman: Elman, book: Path, tmp_path: Path
) -> None:
    runs = [
        counts(elman, tmp_path / "stream", book, *WHOLE),
        counts(elman, tmp_path / "lines", book, "--unit", "line", *WHOLE),
        counts(elman, tmp_path / "apart", book, "--set=text.normal_form=NFD", *WHOLE),
    ]
    done = elman("compare", *runs, book, "--json")
    rows = figures(done)["rows"]
    assert "runs of lines are not asked about blank lines" in done.stderr
    for row, run in zip(rows, runs, strict=True):
        alone = figures(elman("score", run, book, "--json"))
        assert row["bits_per_byte"] == pytest.approx(alone["bits_per_byte"], rel=1e-9)
        interval = row["bits_per_byte_interval"]
        assert interval["low"] <= row["bits_per_byte"] <= interval["high"]
        assert interval["high"] - interval["low"] < 0.3 * row["bits_per_byte"]
    for above, row in pairwise(rows):
        difference = row["bits_per_byte"] - above["bits_per_byte"]
        assert row["difference"]["difference"] == pytest.approx(difference, rel=0.05, abs=2e-3)


def test_standard_input_is_compared_and_what_is_skipped_is_told(
    elman: Elman, book: Path, tmp_path: Path
) -> None:
    one = counts(elman, tmp_path / "one", book, *WHOLE)
    two = counts(elman, tmp_path / "two", book, "--set=text.unknown=skip", *WHOLE)
    odd = "the café ЖЖЖЖЖЖЖЖЖЖ sat\n" * 60
    done = elman("compare", one, two, one, "-", "--json", stdin=odd)
    rows = figures(done)["rows"]
    assert len({row["name"] for row in rows}) == 3
    assert f"{rows[1]['name']}: " in done.stderr
    assert "of the text has no tokens, is skipped" in done.stderr
    reach = figures(elman("compare", one, "-", "--reach", "--positions", "9", "--json", stdin=odd))
    assert len(reach["reach"]) == 1


def test_what_is_no_run_is_told(elman: Elman, learnt: Path, book: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "x.txt").write_text(book.read_text(encoding="utf-8"), encoding="utf-8")
    done = elman("compare", learnt, folder)
    assert f"note: {folder} is no run, and is read as a folder of texts" in done.stderr
    (folder / "model.safetensors").write_bytes(b"")
    assert "config.toml" in refusal(elman("compare", folder, book))
    for options, told in (
        (("--positions", "9"), "--positions is of --reach"),
        (("--reach", "--cache", "9"), "--reach asks the runs alone"),
        (("--markdown", tmp_path / "none" / "x.md"), "the folder to write to is not there"),
    ):
        assert told in refusal(elman("compare", learnt, book, *options))


def test_what_is_impossible_is_null_in_json_and_has_its_place_in_the_table(
    elman: Elman, book: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small.txt"
    small.write_text("ab ba ab.\nno way\n", encoding="utf-8")
    plain = ("--set=model.smoothing=none", "--set=text.unknown=replace", *WHOLE)
    run = counts(elman, tmp_path / "none", book, *plain)
    scored = elman("score", run, small)
    assert "first impossible token (from 0)" in scored.stdout
    assert "impossible to the model" in scored.stderr
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("the mat\tzz qq\n", encoding="utf-8")
    judged = figures(elman("score", run, "--minimal-pairs", pairs, "--json"))
    assert judged["pairs"][0]["bad_bits_is_infinite"] is True
    other = counts(elman, tmp_path / "other", book, *plain)
    mixed = elman("score", run, small, "--mix", other, "--mix-weight", "0.5", "--json")
    assert figures(mixed)["loss_is_infinite"] is True
    turned = tmp_path / "turned.txt"
    turned.write_text("mat the dog a mat the dog a\n", encoding="utf-8")
    auto = elman(
        *("train", "lm", "--data", book, "--out", tmp_path / "auto", "--level", "word", "--json"),
        *("--valid", turned, "--set=data.test_fraction=0"),
        *("--set=model.kind=ngram", "--set=model.smoothing=none"),
    )
    assert any(one.get("nats_per_token_is_infinite") for one in figures(auto)["counts"]["tried"])


def test_agreement_is_at_chance_for_a_trigram_that_knows_one_number_alone(
    elman: Elman, tmp_path: Path
) -> None:
    from elman.data.agreement import NOUNS, agreement_pairs

    singular = {one for one, _ in NOUNS[1:]}
    text = tmp_path / "text.txt"
    sentences = [pair.good for pair in agreement_pairs() if not singular & set(pair.good.split())]
    text.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    run = counts(elman, tmp_path / "run", text, "--level", "word", *WHOLE)
    judged = figures(elman("score", run, "--minimal-pairs", "builtin:agreement", "--json"))
    assert judged["num_pairs_left_out"] > 0
    for name, group in judged["groups"].items():
        if "between" in name and int(name.split()[0]) >= 2:
            assert group["accuracy"] == 0.5, name


def test_a_ladder_is_gone_on_with_by_the_same_command_alone(
    elman: Elman, book: Path, tmp_path: Path
) -> None:
    other, out = tmp_path / "other.txt", tmp_path / "ladder"
    other.write_text(book.read_text(encoding="utf-8") + "more\n" * 50, encoding="utf-8")
    config = tmp_path / "config.toml"
    config.write_text("[training]\nupdates = 4\n[model]\nhidden_size = 16\n", encoding="utf-8")
    command = ("train", "ladder", "--out", out, "--rungs", "unigram", "transformer", "window-2")
    more = ("--config", config, "--set=model.embedding_size=8", "--set=model.context_length=5")
    done = elman(*command, "--data", book, *more, "--json")
    assert [row["name"] for row in figures(done)["rows"]] == ["unigram", "window-2", "transformer"]
    assert "window of 2" in (out / "window-2" / "manifest.json").read_text(encoding="utf-8")
    assert "another text than" in refusal(elman(*command, "--data", other, *more))
    assert "another set of settings than" in refusal(elman(*command, "--data", book, *more[:3]))
    fresh = ("train", "ladder", "--data", book, "--out", tmp_path / "fresh")
    for written, told in (("[model", "is not valid TOML"), ("model = 3", "must be a section of")):
        config.write_text(written, encoding="utf-8")
        assert told in refusal(elman(*fresh, "--rungs", "gru", "--config", config))
    for options, told in (
        (
            ("--rungs", "gru", "--set=model.kind=lstm"),
            "each rung of a ladder has its own model.kind",
        ),
        (("--rungs", "gru", "--set=model.order=4"), "model.order acts on none of the rungs"),
        (("--rungs", "gru", "transformer", "--set=model.hidden_size=12"), "of an even width"),
        (("--rungs", "gru", "--cache=-1"), "--cache must be"),
        (("--rungs", "gru", "--set=data.test_fraction=0"), "compared on a part of the text"),
    ):
        assert told in refusal(elman(*fresh, *options))
        assert not (tmp_path / "fresh").exists()


def test_sizes_by_name_go_with_lines_and_other_kinds(
    elman: Elman, book: Path, tmp_path: Path
) -> None:
    small = ("--set=model.hidden_size=16", "--set=training.updates=2", "--preset", "large")
    for place, more in enumerate(
        (("--unit", "line"), ("--set=model.kind=mingru",), ("--set=model.kind=window",))
    ):
        done = elman("train", "lm", "--data", book, "--out", tmp_path / f"{place}", *small, *more)
        assert done.returncode == 0, done.stderr
    words = ("--level", "word", "--set=training.updates=2", "--set=model.hidden_size=16")
    for place, more in enumerate(
        (
            ("--set=model.kind=window", "--set=model.direct_connections=true"),
            ("--set=model.input=one-hot",),
        )
    ):
        done = elman("train", "lm", "--data", book, "--out", tmp_path / f"w{place}", *words, *more)
        assert done.returncode == 0, done.stderr


ARPA = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-99\t<s>\t-0.3
-0.9\t{word}\t-0.1
-0.5\tb\t-0.1
-0.9\t<unk>
-0.6\t</s>

\\2-grams:
-0.1\t<s> {word}
-0.2\t{word} b

\\end\\
"""


@pytest.mark.parametrize("word", ["1\\/2", "10\u00a0000", "C\\x20D"])
def test_words_of_other_programs_are_read_as_they_stand(
    elman: Elman, tmp_path: Path, word: str
) -> None:
    path, text = tmp_path / "x.arpa", tmp_path / "text.txt"
    path.write_text(ARPA.format(word=word), encoding="utf-8")
    text.write_text(f"{word} b\n", encoding="utf-8")
    run = tmp_path / "run"
    done = elman("convert", path, "--from", "arpa", "--out", run)
    assert done.returncode == 0, done.stderr
    if "\u00a0" in word:
        return  # white space to us, so that no text of ours has it as one word
    want = 0.1 + 0.2 + 0.1 + 0.6
    got = figures(elman("score", run, text, "--json"))["loss_nats"] / math.log(10)
    assert got == pytest.approx(want, rel=1e-9)


def test_arpa_files_that_are_none_are_told_in_one_line(elman: Elman, tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    tidy = ARPA.format(word="aa")
    for text, options, told in (
        (tidy, ("--level", "char"), "every word of the file must be one character; got 'aa'"),
        (tidy.replace("2=2", "2=3"), (), "line 16 ends another number of 2-grams"),
        (tidy.replace("-0.1\t<s>", "-1_0\t<s>"), (), "must be a number; got -1_0"),
    ):
        path.write_text(text, encoding="utf-8")
        done = elman("convert", path, "--from", "arpa", "--out", tmp_path / "run", *options)
        assert told in refusal(done)
        assert not (tmp_path / "run").exists()
    assert "a folder" in refusal(
        elman("convert", tmp_path, "--from", "arpa", "--out", tmp_path / "run")
    )
    path.write_bytes(tidy.encode().replace(b"aa", b"\xff\xfe"))
    told = refusal(elman("convert", path, "--from", "arpa", "--out", tmp_path / "run"))
    assert "is no text in UTF-8" in told
    assert "--encoding" not in told
