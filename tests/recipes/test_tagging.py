"""A tagger at work: the same tags alone and in batches, after saving, and scored rightly."""

from pathlib import Path

import pytest
import torch

from elman.config.toml_file import apply_overrides
from elman.evaluation.tag_report import tag_figures
from elman.kernels.dispatch import KernelPlan
from elman.recipes.learning import start_run, train_run
from elman.recipes.tag import BASE, TagTask
from elman.recipes.tag_vocabulary import learn_vocabulary
from elman.recipes.tagging import TrainedTagger, new_tagger, open_tagger, tag_report
from elman.recipes.training_request import TrainRequest
from elman.training.tag_objective import TagObjective, unknown_rates

NAMES = ("Ann", "Bob", "Cid", "Dora", "Eve")
PLACES = ("Rome", "Oslo", "Lima")
SMALL = (
    "model.embedding_size=8",
    "model.hidden_size=12",
    "model.character_size=6",
    "model.character_units=6",
    "model.dropout=0.1",
    "training.batch_size=8",
    "training.threads=1",
)


def sentences() -> list[list[tuple[str, str]]]:
    """Short sentences with people and places, in BIO."""
    made = []
    for first in NAMES:
        for second in (*NAMES, ""):
            for place in PLACES:
                person = [(first, "B-PER"), *([(second, "I-PER")] if second else [])]
                made.append([*person, ("went", "O"), ("to", "O"), (place, "B-LOC"), (".", "O")])
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger")
    path = folder / "all.conll"
    path.write_text(
        "\n".join("".join(f"{word} {tag}\n" for word, tag in row) for row in sentences()),
        encoding="utf-8",
    )
    out = folder / "run"
    request = TrainRequest(out=out, overrides=(f"data.train={path}", *SMALL, "training.epochs=25"))
    trained = start_run(TagTask(), request)
    assert trained.settings.model.head == "crf"
    report = train_run(
        trained,
        on_event=lambda event: None,
        should_stop=lambda: False,
        before_scoring=lambda: None,
        on_scored=lambda count: None,
    )
    assert report.scores["test"]["token_accuracy"] == 1.0
    return out


def test_what_is_learnt_is_found_again_after_saving(run: Path) -> None:
    tagger = open_tagger(run)
    rows = [([w for w, _ in row], [t for _, t in row]) for row in sentences()]
    assert list(tagger.tag(tokens for tokens, _ in rows)) == [t for _, t in rows]
    report = tag_report(tagger, rows)
    assert report.model.tags.token_accuracy == 1.0
    assert report.model.strict is not None
    assert report.model.strict.f1 == 1.0
    assert report.num_loss_tokens == sum(len(tags) for _, tags in rows)
    # Names stand first and second alike: their usual tag cannot be right for both.
    assert report.usual.tags.token_accuracy < 1.0


def test_a_sentence_has_the_same_tags_alone_and_in_any_batch(run: Path) -> None:
    tagger = open_tagger(run)
    given = [
        ["Ann", "Unknown", "went", "to", "Narnia", "."],
        ["Eve"],
        [],
        ["x"] * 40,
        ["Bob", "went"],
        ["supercalifragilistic" * 5, "Rome"],
    ]
    whole = list(tagger.tag(given))
    for size in (1, 2, 3):
        assert list(tagger.tag(given, batch_size=size)) == whole
    assert [len(tags) for tags in whole] == [len(tokens) for tokens in given]
    for tokens in filter(None, given):
        alone, _ = tagger.emissions([tokens])
        for neighbours in ([["x"] * 40], [["Ann"], ["supercalifragilistic" * 9] * 3]):
            beside, _ = tagger.emissions([*neighbours, tokens])
            difference = (beside[-1, : len(tokens)] - alone[0]).abs().max().item()
            assert difference < 1e-5


def test_labels_of_the_test_alone_do_not_crash_and_are_listed(run: Path) -> None:  # case C08 (3)
    tagger = open_tagger(run)
    rows = [(["Ann", "went", "to", "Rome", "."], ["B-PER", "O", "O", "B-NEW", "O"])]
    assert next(tagger.tag([rows[0][0]])) == ["B-PER", "O", "O", "B-LOC", "O"]
    report = tag_report(tagger, rows)
    assert report.model.tags.tokens.unknown_labels == (("B-NEW", 1),)
    assert report.model.conll is not None
    assert report.model.conll.unknown_tags == (("B-NEW", 1),)
    assert (report.model.conll.precision, report.model.conll.recall) == (0.5, 0.5)
    assert report.num_loss_tokens == 0
    assert report.nats_per_token is None
    assert report.to_json()["nats_per_token"] is None


@pytest.mark.parametrize(
    ("gold", "predicted", "tags", "token_accuracy", "strict", "conll"),
    [  # case C08 (1), (2), (3)
        ("B-LOC E-LOC B-LOC E-LOC", "B-LOC I-LOC I-LOC E-LOC", "", 0.5, 0.0, 0.0),
        ("O B-PER I-PER", "O I-PER I-PER", "", 2 / 3, 0.0, 1.0),
        ("B-X O B-NEW", "B-X O O", "O B-X I-X", 2 / 3, 2 / 3, 2 / 3),
    ],
)
def test_spans_are_scored_by_both_rules(
    gold: str, predicted: str, tags: str, token_accuracy: float, strict: float, conll: float
) -> None:
    figures = tag_figures(
        [gold.split()],
        [predicted.split()],
        words=[["w"] * len(gold.split())],
        train_words={"w"},
        tags=tags.split() or sorted({*gold.split(), *predicted.split()}),
        scheme="BIOES" if "E-" in gold else "BIO",
    )
    assert figures.tags.token_accuracy == pytest.approx(token_accuracy)
    assert figures.strict is not None
    assert figures.conll is not None
    found = {
        scores.rule: 0.0 if scores.f1 is None else scores.f1
        for scores in (figures.strict, figures.conll)
    }
    assert found == {"strict": pytest.approx(strict), "conll": pytest.approx(conll)}
    assert figures.strict.unknown_tags == ((("B-NEW", 1),) if "NEW" in gold else ())


def test_words_are_forgotten_at_the_rate_of_their_rarity() -> None:
    counts_V = torch.tensor([0, 1, 3, 1000])
    rates_V = unknown_rates(counts_V, 1.0)
    assert rates_V.tolist() == pytest.approx([0.0, 0.5, 0.25, 1 / 1001])
    assert unknown_rates(counts_V, 0.0).tolist() == [0.0, 0.0, 0.0, 0.0]
    rows = [(["a", "b"], ["X", "Y"])]
    vocabulary, _ = learn_vocabulary(BASE.text, rows, written="none", learnt="none")
    tagger = new_tagger(apply_overrides(BASE, SMALL), vocabulary, seed=1)
    objective = TagObjective(tagger, unknown_rates_V=rates_V, unk_id=9)
    ids_BT = torch.tensor([0, 1, 2, 3]).repeat(2000, 1)
    forgotten_BT = objective.forgetting(ids_BT, torch.Generator().manual_seed(1)) == 9
    shares = forgotten_BT.double().mean(dim=0)
    assert shares[0] == 0
    # Four standard deviations of a share of 2,000 draws.
    for place in (1, 2, 3):
        p = rates_V[place].item()
        assert abs(shares[place].item() - p) < 4 * (p * (1 - p) / 2000) ** 0.5 + 1e-9
    again_BT = objective.forgetting(ids_BT, torch.Generator().manual_seed(1)) == 9
    assert torch.equal(again_BT, forgotten_BT)


@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_recomputing_changes_neither_loss_nor_gradients(head: str) -> None:
    rows = [(["a", "b", "c", "a", "b", "b", "c"], list("XYXXYXY")), (["d"], ["X"])]
    vocabulary, counts = learn_vocabulary(BASE.text, rows, written="none", learnt="none")
    one_way = ("model.bidirectional=false", "model.dropout=0.5", f"model.head={head}")
    tagger = new_tagger(apply_overrides(BASE, (*SMALL, *one_way)), vocabulary, seed=1).double()
    counts_V = torch.tensor([counts[word] for word in vocabulary.words.vocabulary.symbols])
    batch = vocabulary.batch([tokens for tokens, _ in rows])
    found = []
    for recompute in (0, 3):
        objective = TagObjective(
            tagger,
            unknown_rates_V=unknown_rates(counts_V, 0.25),
            unk_id=vocabulary.unk_id,
            recompute=recompute,
        )
        draw = torch.Generator().manual_seed(2)
        loss = objective.loss(batch, None, plan=KernelPlan(), generator=draw).loss
        gradients = torch.autograd.grad(loss.minimised.nats, list(tagger.parameters()))
        found.append([loss.minimised.nats.detach(), *gradients])
    for again, once in zip(*found, strict=True):
        torch.testing.assert_close(again, once, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_predictions_are_valid_in_the_scheme_even_of_new_weights(head: str) -> None:
    rows = [(["a", "b", "c"], ["I-X", "B-X", "O"]), (["d"], ["I-Y"])]
    vocabulary, _ = learn_vocabulary(BASE.text, rows, written="IOB1", learnt="BIOES")
    settings = apply_overrides(BASE, (*SMALL, f"model.head={head}"))
    tagger = TrainedTagger(
        settings, vocabulary, new_tagger(settings, vocabulary, seed=3), KernelPlan()
    )
    given = [["a"], ["b", "b"], ["a", "zz", "c", "d", "b", "a", "a"]]
    for tags in tagger.tag(given):
        assert set(tags) <= set(vocabulary.tags.written_tags)
        assert vocabulary.tags.num_misplaced(tags) == 0


def test_a_tagger_that_reads_no_spellings_and_smooths_its_targets_learns(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("".join(f"w{n % 7} T{n % 7 % 2}\n\n" for n in range(60)), encoding="utf-8")
    overrides = ("model.character_units=0", "training.label_smoothing=0.1", "training.epochs=30")
    request = TrainRequest(
        out=tmp_path / "run",
        overrides=(f"data.train={path}", *SMALL, *overrides, "training.learning_rate=0.02"),
    )
    started = start_run(TagTask(), request)
    assert started.trainer.model.describe()["spelling"] == "not read"
    report = train_run(
        started,
        on_event=lambda event: None,
        should_stop=lambda: False,
        before_scoring=lambda: None,
        on_scored=lambda count: None,
    )
    assert report.scores["test"]["token_accuracy"] == 1.0
    assert report.scores["test"]["spans"] is None
