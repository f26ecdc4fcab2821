"""From tagged files to a tagger, its figures, and the files written back: the real command."""

import gzip
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from test_training_journeys import begin, digests, interrupt_after, one_line_refusal

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = (
    "--set=model.embedding_size=8",
    "--set=model.hidden_size=12",
    "--set=model.character_size=6",
    "--set=model.character_units=6",
    "--set=training.batch_size=8",
    "--set=training.learning_rate=0.02",
)
DETERMINERS, NOUNS, VERBS = ("the", "a", "this"), ("cat", "dog", "bird"), ("sees", "hears", "likes")
A13 = (
    "# text = du chat\r\n"
    "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\r\n"
    "1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_\r\n"
    "2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_\r\n"
    "3\tchat\tchat\tNOUN\t_\t_\t0\troot\t_\t_\r\n"
    "3.1\tvu\tvoir\tVERB\t_\t_\t_\t_\t3:x\t_\r\n"
    "\r\n"
)
LABELS = {"DET", "NOUN", "VERB", "PUNCT"}


def clauses() -> list[list[tuple[str, str]]]:
    return [
        [(d, "DET"), (n, "NOUN"), (v, "VERB"), (e, "DET"), (m, "NOUN"), (".", "PUNCT")]
        for d in DETERMINERS
        for n in NOUNS
        for v in VERBS
        for e in DETERMINERS[:2]
        for m in NOUNS[:2]
    ]


def conllu(sentences: list[list[tuple[str, str]]]) -> str:
    return "".join(
        "".join(
            f"{place}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n"
            for place, (word, tag) in enumerate(sentence, 1)
        )
        + "\n"
        for sentence in sentences
    )


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tagged") / "clauses.conllu"
    path.write_text(conllu(clauses()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tag_run(elman: Elman, treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("tag-runs") / "run"
    done = elman(
        *("train", "tag", "--data", treebank, "--out", run, *SMALL, "--set=training.epochs=12"),
    )
    assert done.returncode == 0, done.stderr
    assert "tokens right" in done.stderr
    assert "usual tags" in done.stderr
    assert f"next: python -m elman predict {run} FILE" in done.stderr
    return run


def test_a_tagger_holds_its_vocabularies_and_its_figures(tag_run: Path) -> None:
    names = {path.name for path in tag_run.iterdir()}
    assert {"tokenizer.json", "labels.json", "characters.json", "model.safetensors"} <= names
    assert "cache" not in names
    manifest = json.loads((tag_run / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["sizes"]["tags"] == 4
    scores = manifest["results"]["scores"]
    assert set(scores) == {"valid", "test"}
    assert scores["test"]["token_accuracy"] == 1.0
    assert scores["test"]["spans"] is None
    assert 0 < scores["test"]["usual_tags"]["token_accuracy"] <= 1.0


def test_conllu_comes_back_byte_for_byte_but_for_the_tags(  # case A13
    elman: Elman, tag_run: Path, treebank: Path, tmp_path: Path
) -> None:
    given, written = tmp_path / "a.conllu", tmp_path / "b.conllu"
    given.write_bytes(A13.encode())
    done = elman("predict", tag_run, given, "--out", written)
    assert done.returncode == 0, done.stderr
    lines = zip(A13.split("\n"), written.read_bytes().decode().split("\n"), strict=True)
    for old, new in lines:
        if re.match(r"[0-9]+\t", old):
            before, after = old.split("\t"), new.split("\t")
            assert after[3] in LABELS
            after[3] = before[3]
            assert after == before
        else:
            assert new == old
    gold = treebank.read_text(encoding="utf-8")
    packed = tmp_path / "c.conllu.gz"
    packed.write_bytes(gzip.compress(gold.replace("NOUN", "_").encode()))
    done = elman("predict", tag_run, packed)
    assert done.returncode == 0, done.stderr
    assert done.stdout == gold


def test_lines_of_text_are_answered_by_lines_of_tags(elman: Elman, tag_run: Path) -> None:
    text = "the cat sees a dog .\n\n  \nthis\u00a0bird"
    done = elman("predict", tag_run, "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "DET NOUN VERB DET NOUN PUNCT\n\n\nDET NOUN\n"
    done = elman("predict", tag_run, "-", "--json", "--probabilities", stdin=text)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    assert rows[0]["tokens"] == ["the", "cat", "sees", "a", "dog", "."]
    assert rows[0]["tags"] == ["DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT"]
    assert all(0.3 < prob <= 1 for prob in rows[0]["probabilities"])
    assert rows[1] == {"line": 2, "tokens": [], "tags": [], "probabilities": []}


def test_one_column_gets_a_second_one(elman: Elman, tag_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "words.conll"
    path.write_bytes(b"the\ncat\n\n\nsees\n")
    done = elman("predict", tag_run, path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"the\tDET\ncat\tNOUN\n\n\nsees\t[A-Z]+\n", done.stdout)


def test_figures_of_a_tagged_file_are_those_of_its_predictions(
    elman: Elman, tag_run: Path, treebank: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.conllu"
    odd.write_text(
        treebank.read_text(encoding="utf-8").replace("\tlikes\t_\tVERB", "\tlikes\t_\tNEW"),
        encoding="utf-8",
    )
    done = elman("score", tag_run, odd, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["num_tokens"] == 6 * 108
    assert figures["tokens"]["unknown_labels"] == {"NEW": 36}
    assert figures["num_tokens_right"] == 6 * 108 - 36
    assert figures["num_sentences_right"] == 72
    assert figures["num_loss_tokens"] == 6 * 72
    assert figures["usual_tags"]["num_tokens"] == 6 * 108
    assert "training has not the tags NEW (36)" in done.stderr
    shown = elman("score", tag_run, odd, "--verbose", "--batch-size", "3")
    assert "tokens right" in shown.stdout
    assert "kernels: " in shown.stderr
    assert re.search(r"^NEW +– +0\.0000 +0\.0000 +36 +0$", shown.stdout, re.MULTILINE)


def test_spans_are_learnt_as_bioes_and_written_as_the_file_has_them(
    elman: Elman, tmp_path: Path
) -> None:
    names, places = ("Ann", "Bob", "Cid Dorn"), ("Rome", "New York", "Oslo")
    rows = []
    for name in names:
        for place in places:
            words = [(word, "I-PER") for word in name.split()] + [("likes", "O")]
            rows.append(words + [(word, "I-LOC") for word in place.split()])
    text = "\n".join("".join(f"{word} {tag}\n" for word, tag in row) for row in rows * 8)
    path, run = tmp_path / "spans.txt", tmp_path / "run"
    path.write_text(text, encoding="utf-8")
    done = elman(
        *("train", "tag", "--data", path, "--out", run, *SMALL, "--set=training.epochs=20"),
        *("--set=model.dropout=0", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert "the tags tell spans in the scheme IOB1, learnt as BIOES" in done.stderr
    assert "sentences to learn from repeat the tokens of another" in done.stderr
    assert "test sentences are among those learnt from" in done.stderr
    spans = json.loads(done.stdout)["scores"]["test"]["spans"]
    assert (spans["strict"]["f1"], spans["conll"]["f1"]) == (1.0, 1.0)
    assert spans["strict"]["scheme"] == "IOB1"
    assert "a linear-chain CRF" in done.stderr
    done = elman("predict", run, path, "--format", "conll")
    assert done.stdout == text
    raw = tmp_path / "raw.txt"
    raw.write_text("Ann I-PER\nlikes O\n\nBob I-PER\nsees Oslo\n", encoding="utf-8")
    refused = one_line_refusal(elman("score", run, raw))
    assert f"{raw}, line 5: the column of tags holds no tag of the scheme IOB1" in refused
    assert "got 'Oslo'" in refused


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_tagger_goes_on_to_the_same_bits(
    elman: Elman, treebank: Path, tmp_path: Path, number: signal.Signals
) -> None:
    options = (*SMALL, "--set=training.updates=150", "--set=training.save_every=7")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = elman("train", "tag", "--data", treebank, "--out", whole, *options)
    assert done.returncode == 0, done.stderr
    process = begin(
        ["train", "tag", "--data", treebank.name, "--out", str(cut), *options], cwd=treebank.parent
    )
    interrupt_after(cut, 20, process, number)
    process.communicate(timeout=120)
    done = elman("train", "tag", "--out", cut, "--resume")
    assert done.returncode == 0, done.stderr
    names = ("model.safetensors", "state.safetensors", "labels.json", "characters.json")
    assert digests(cut, *names) == digests(whole, *names)


def test_mistakes_are_one_line(
    elman: Elman, tag_run: Path, treebank: Path, stream_run: Path, tmp_path: Path
) -> None:
    nine = tmp_path / "nine.conllu"
    nine.write_text("1\tx\tx\tADP\t_\t_\t3\tcase\t_\n\n", encoding="utf-8")
    refused = one_line_refusal(elman("train", "tag", "--data", nine, "--out", tmp_path / "r"))
    assert "line 1: 9 columns, expected 10" in refused
    assert not (tmp_path / "r").exists()
    written = tmp_path / "out.conllu"
    refused = one_line_refusal(elman("predict", tag_run, nine, "--out", written))
    assert "line 1: 9 columns, expected 10" in refused
    assert not written.exists()
    refused = one_line_refusal(elman("predict", tag_run, nine, "--format", "csv"))
    assert "a tagger reads sentences" in refused
    refused = one_line_refusal(elman("predict", tag_run, treebank, "--probabilities"))
    assert "--json" in refused
    asked = ("train", "tag", "--data", treebank, "--out", tmp_path / "r")
    refused = one_line_refusal(elman(*asked, "--column", "NOPOS"))
    assert "there is no such column; got 'NOPOS'" in refused
    refused = one_line_refusal(elman(*asked, "--set=training.class_weights=balanced"))
    assert "training.class_weights has an effect only with" in refused
    assert not (tmp_path / "r").exists()
    refused = one_line_refusal(elman("score", tag_run, treebank, "--picture", tmp_path / "a.png"))
    assert "--picture is for classifiers" in refused
    for verb in ("predict", "score"):
        refused = one_line_refusal(elman(verb, tag_run, treebank, "--beam", "3"))
        assert "for runs that write sequences; got a run of elman train tag" in refused
    refused = one_line_refusal(elman("train", "tag", "--out", stream_run, "--resume"))
    assert "train lm" in refused


def test_changed_data_are_not_resumed_with(elman: Elman, treebank: Path, tmp_path: Path) -> None:
    data, run = tmp_path / "own.conllu", tmp_path / "run"
    data.write_bytes(treebank.read_bytes())
    process = begin(
        [
            "train",
            "tag",
            "--data",
            str(data),
            "--out",
            str(run),
            *SMALL,
            "--set=training.updates=2000",
            "--set=training.save_every=5",
        ],
        cwd=tmp_path,
    )
    interrupt_after(run, 8, process, signal.SIGINT)
    process.communicate(timeout=120)
    data.write_text(conllu(clauses()[:-1]), encoding="utf-8")
    refused = one_line_refusal(elman("train", "tag", "--out", run, "--resume"))
    assert "not those that the run began with" in refused
