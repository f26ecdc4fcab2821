"""Real treebanks and entities: written back byte for byte, scored as counted by hand."""

import re
from itertools import islice
from pathlib import Path

import pytest

from elman.config.toml_file import apply_overrides
from elman.recipes.learning import start_run, train_run
from elman.recipes.predicting import predict_file
from elman.recipes.prediction_request import PredictRequest
from elman.recipes.tag import BASE, TagTask
from elman.recipes.tag_preparing import prepare_tags
from elman.recipes.tagging import open_tagger, score_tagged
from elman.recipes.training_request import TrainRequest

UPOS = 3
NUM_SENTENCES = 150


def some_sentences(path: Path, *, holding: str = "") -> str:
    """The first sentences of a file of which the pattern `holding` is found somewhere."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    found = (block for block in blocks if block and re.search(holding, block))
    return "".join(f"{block}\n\n" for block in islice(found, NUM_SENTENCES))


@pytest.fixture(scope="module")
def ewt(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run learnt from a few sentences, and a file of others."""
    folder, data = tmp_path_factory.mktemp("ewt"), shared_data / "ud-english-ewt"
    train, other = folder / "train.conllu", folder / "other.conllu"
    train.write_text(some_sentences(data / "en_ewt-ud-dev.conllu"), "utf-8")
    source = data / "en_ewt-ud-test.conllu"
    # Some with empty nodes, and some without; ranges and comments are in both.
    with_nodes = some_sentences(source, holding=r"(?m)^[0-9]+\.1\t")
    other.write_text(some_sentences(source) + with_nodes, "utf-8")
    small = ("embedding_size=16", "hidden_size=24", "character_size=8", "character_units=12")
    request = TrainRequest(
        out=folder / "run",
        overrides=(
            f"data.train={train}",
            *(f"model.{setting}" for setting in small),
            "model.dropout=0.1",
            "training.learning_rate=0.01",
            "training.updates=40",
            "training.threads=1",
        ),
    )
    train_run(
        start_run(TagTask(), request),
        on_event=lambda event: None,
        should_stop=lambda: False,
        before_scoring=lambda: None,
        on_scored=lambda count: None,
    )
    return folder / "run", other


def test_a_treebank_comes_back_byte_for_byte_but_for_its_tags(
    ewt: tuple[Path, Path], tmp_path: Path
) -> None:
    run, given = ewt
    written, in_ones = tmp_path / "tagged.conllu", tmp_path / "ones.conllu"
    predict_file(run, PredictRequest(name=str(given), out=written))
    predict_file(run, PredictRequest(name=str(given), out=in_ones, batch_size=1))
    assert written.read_bytes() == in_ones.read_bytes()
    kinds = set()
    right = tokens = 0
    old_lines = given.read_bytes().split(b"\n")
    for old, new in zip(old_lines, written.read_bytes().split(b"\n"), strict=True):
        before, after = old.split(b"\t"), new.split(b"\t")
        if re.fullmatch(rb"[0-9]+", before[0]):
            tokens += 1
            right += before[UPOS] == after[UPOS]
            after[UPOS] = before[UPOS]
        else:
            kinds.add("comment" if old.startswith(b"#") else re.sub(rb"[0-9]+", b"1", before[0]))
        assert after == before
    assert kinds == {"comment", b"", b"1-1", b"1.1"}
    report, notices = score_tagged(open_tagger(run), [str(given)])
    assert notices == ()
    assert report.model.tags.tokens.num_rows == tokens
    assert report.model.tags.token_accuracy == right / tokens
    assert right / tokens > 0.3  # the most frequent tag is that of fewer than a fifth


def test_entities_of_wikigold_are_learnt_as_bioes_and_come_back_as_they_were(
    shared_data: Path, tmp_path: Path
) -> None:
    path = shared_data / "ner-wikigold" / "wikigold.conll.txt"
    settings = apply_overrides(BASE, (f"data.train={path}",))
    prepared = prepare_tags(settings, tmp_path)
    tags = prepared.vocabulary.tags
    assert (tags.written, tags.learnt) == ("IOB1", "BIOES")
    labels = ("LOC", "MISC", "ORG", "PER")
    assert set(tags.tags) == {"O", *(f"{p}-{label}" for p in "BIES" for label in labels)}
    rows = [row for part in prepared.parts.values() for row in part.rows]
    assert len(rows) == 1696
    for row in rows:
        ids = [number for number in tags.ids(row.tags) if number is not None]
        assert tuple(tags.as_written(ids)) == row.tags
