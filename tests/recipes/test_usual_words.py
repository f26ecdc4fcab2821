"""Words of a text by usual settings: which are unknown, and what a person is told of it."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import elman.recipes.sizing as sizing
from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.config.training_settings import TrainingSettings
from elman.recipes.language_model import MANY_WORDS, LanguageTask
from elman.recipes.learning import start_run
from elman.recipes.prepared_text import PreparedText
from elman.recipes.preparing import prepare_text
from elman.recipes.training_request import TrainRequest

SMALL = ("model.hidden_size=4", "model.embedding_size=4", "training.updates=1")


def words_of(number: int) -> str:
    """Return so many words, about a tenth of them once in all, the rest of a hundred kinds."""
    draw = Random(5)
    words = (
        f"rare{place}" if draw.random() < 0.1 else f"word{draw.randrange(100)}"
        for place in range(number)
    )
    return " ".join(words) + "\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(words_of(MANY_WORDS + 4_000), encoding="utf-8")
    return path


def settings(text: Path, *overrides: str) -> Settings:
    given = ("text.level=word", f'data.train=["{text}"]', *overrides)
    return apply_overrides(Settings(), given)


def first(text: Path, *overrides: str) -> tuple[str, ...]:
    return LanguageTask().first_suggestions(settings(text, *overrides), text.parent)


def told(prepared: PreparedText) -> Iterator[str]:
    return (notice for notice in prepared.notices if "unknown" in notice)


def test_words_seen_once_are_unknown_in_a_text_of_many(text: Path) -> None:
    assert first(text) == ("text.min_count=2",)
    prepared = prepare_text(settings(text, *first(text)), text.parent)
    assert len(prepared.tokenizer.vocabulary) < 200
    assert prepared.parts["train"].unknown > 1_000
    (notice,) = told(prepared)
    assert "words seen once are read as unknown" in notice
    assert "(10 % of" in notice or "(9" in notice


@pytest.mark.parametrize(
    "override",
    ["text.level=char", "text.literal_unknown=<unk>", "text.unknown=refuse", "text.unknown=skip"],
)
def test_a_text_that_has_its_own_way_is_left_as_it_is(text: Path, override: str) -> None:
    assert first(text, override) == ()


def test_a_text_of_few_words_keeps_them_all(text: Path) -> None:
    text.write_text(words_of(MANY_WORDS - 1_000), encoding="utf-8")
    assert first(text) == ()


@pytest.mark.parametrize("unit", ["line", "stream"])
def test_a_list_of_words_keeps_them_all(text: Path, unit: str) -> None:
    text.write_text("".join(f"word{n}\n" for n in range(MANY_WORDS * 2)), encoding="utf-8")
    assert first(text, f"text.unit={unit}") == ()


def test_many_are_those_that_are_learnt_from(text: Path) -> None:
    text.write_text(words_of(int(MANY_WORDS * 1.05)), encoding="utf-8")
    assert first(text) == ()  # a tenth is held out of it
    assert first(text, f'data.valid=["{text}"]', f'data.test=["{text}"]') == ("text.min_count=2",)


def test_it_is_told_where_no_unknown_word_is_learnt(text: Path) -> None:
    (notice,) = told(prepare_text(settings(text), text.parent))
    assert "text.min_count = 2" in notice
    text.write_text("a b c d " * 600, encoding="utf-8")
    assert not list(told(prepare_text(settings(text), text.parent)))


def test_slow_products_in_bfloat16_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "has_bfloat16_products", lambda: False)
    (notice,) = sizing.notices_of_precision("bfloat16")
    assert "training.precision" in notice
    assert sizing.notices_of_precision("float32") == ()
    monkeypatch.setattr(sizing, "has_bfloat16_products", lambda: True)
    assert sizing.notices_of_precision("bfloat16") == ()


def suggested(*overrides: str) -> dict[str, str]:
    early = apply_overrides(Settings(), ("text.level=word", *overrides))
    found = sizing.suggested_settings(early, 300_000, budget_seconds=None)
    return dict(one.split("=") for one in found)


def test_a_recurrent_model_of_words_has_adamw_and_a_split_output() -> None:
    found = suggested()
    assert found["training.optimizer"] == "adamw"
    assert float(found["training.learning_rate"]) == sizing.WORD_RATE
    assert found["model.softmax"] == "auto"


@pytest.mark.parametrize(
    ("override", "without"),
    [
        ("training.optimizer=sgd", "training.learning_rate"),
        ("training.learning_rate=0.001", "training.learning_rate"),
        ("model.kind=window", "training.optimizer"),
        ("training.label_smoothing=0.1", "model.softmax"),
        ("model.softmax=adaptive", "model.softmax"),
        ("model.kind=ngram", "model.softmax"),
    ],
)
def test_what_a_person_says_of_it_is_not_gone_against(override: str, without: str) -> None:
    assert without not in suggested(override)


def test_a_rate_is_that_of_the_optimiser_asked_for(text: Path, tmp_path: Path) -> None:
    def begun(name: str, *overrides: str) -> TrainingSettings:
        request = TrainRequest(
            tmp_path / name,
            overrides=("text.level=word", f'data.train=["{text}"]', *overrides, *SMALL),
        )
        return start_run(LanguageTask(), request).settings.training

    usual = begun("usual")
    assert (usual.optimizer, usual.learning_rate) == ("adamw", sizing.WORD_RATE)
    muon = begun("muon", "training.optimizer=muon")
    assert (muon.optimizer, muon.learning_rate) == ("muon", 0.0)
    sgd = begun("sgd", "training.optimizer=sgd")
    assert (sgd.optimizer, sgd.learning_rate) == ("sgd", 0.0)
    own = begun("own", "training.learning_rate=0.002")
    assert (own.optimizer, own.learning_rate) == ("adamw", 0.002)
    asked = begun("asked", "training.optimizer=adamw")
    assert (asked.optimizer, asked.learning_rate) == ("adamw", sizing.WORD_RATE)


@pytest.mark.parametrize("kind", sizing.CAREFUL_RATES)
def test_a_cell_that_needs_it_has_a_lower_rate(kind: str) -> None:
    def of(*overrides: str) -> dict[str, str]:
        early = apply_overrides(Settings(), (f"model.kind={kind}", *overrides))
        found = sizing.suggested_settings(early, 300_000, budget_seconds=None)
        return dict(one.split("=") for one in found)

    assert float(of()["training.learning_rate"]) == sizing.CAREFUL_RATES[kind]
    assert float(of("text.level=word")["training.learning_rate"]) == sizing.WORD_RATES[kind]
    assert "training.learning_rate" not in of("training.optimizer=adam")
    assert "training.learning_rate" not in of("training.learning_rate=0.02")
