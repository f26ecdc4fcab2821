"""Prompts that spell special tokens, or letters in another form than the text that was learnt."""

from pathlib import Path

import pytest

from elman.decoding.filters import SamplingSettings
from elman.errors import UnknownSymbolError
from elman.recipes.generating import Writer, WriteRequest, prompt_ids
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import start_run, train_run
from elman.recipes.trained import TrainedModel, open_trained
from elman.recipes.training_request import TrainRequest

SMALL = (
    *("model.hidden_size=8", "model.embedding_size=8", "training.threads=1"),
    *("training.updates=3", "data.valid_fraction=0", "data.test_fraction=0"),
)
SPELT = "a </s> b <pad>"


def trained_on(tmp_path: Path, text: str, *overrides: str) -> TrainedModel:
    data, out = tmp_path / "text.txt", tmp_path / "run"
    data.write_text(text, encoding="utf-8")
    given = (f"data.train={data}", *SMALL, *overrides)
    train_run(start_run(LanguageTask(), TrainRequest(out, overrides=given)))
    return open_trained(out)


def written_after(trained: TrainedModel, prompt: str) -> Writer:
    sampling = SamplingSettings(temperature=0)
    writer = Writer(trained, WriteRequest(prompt=prompt, max_tokens=20, sampling=sampling))
    writer.begin()
    assert not writer.generation.ended
    list(writer.pieces())
    return writer


@pytest.mark.parametrize(
    ("level", "unit"), [("char", "stream"), ("bpe", "stream"), ("bpe", "line")]
)
def test_a_prompt_that_spells_a_stop_mark_ends_nothing(  # case A17
    tmp_path: Path, level: str, unit: str
) -> None:
    trained = trained_on(tmp_path, f"{SPELT}\n" * 30, f"text.level={level}", f"text.unit={unit}")
    vocabulary = trained.tokenizer.vocabulary
    ids = prompt_ids(trained, SPELT, None)
    assert ids.min() >= len(vocabulary.specials)
    assert trained.tokenizer.decode(ids) == SPELT
    writer = written_after(trained, SPELT)
    if unit == "stream":
        assert (writer.ended_by, writer.num_tokens) == ("max tokens", 20)
    else:  # only what is generated can end it
        assert writer.num_tokens > 0


def test_a_normal_form_of_a_run_is_that_of_its_prompts(tmp_path: Path) -> None:  # case A14
    trained = trained_on(tmp_path, "caf\u00e9 " * 40, "text.normal_form=NFC")
    tokenizer = trained.tokenizer
    assert trained.settings.text.normal_form == "NFC"
    assert (
        prompt_ids(trained, "cafe\u0301", None).tolist() == tokenizer.encode("caf\u00e9").tolist()
    )
    assert written_after(trained, "cafe\u0301").num_tokens == 20


def test_without_a_normal_form_the_mark_of_a_prompt_is_named(tmp_path: Path) -> None:  # case A14
    trained = trained_on(tmp_path, "caf\u00e9 " * 40)
    with pytest.raises(UnknownSymbolError, match=r"e \(U\+0065\), U\+0301"):
        written_after(trained, "cafe\u0301")
