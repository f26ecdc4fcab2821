"""`tokenizer.json`: read back whole, read by the library it is made for, refused when altered."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer

from elman.config.text_settings import TextSettings
from elman.errors import RunError
from elman.text.building import build_tokenizer
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json

LEVELS = ("char", "byte", "word", "bpe")
UNITS = ("line", "stream")
ALPHABET = "ab'st.1 \n\t\x00\x1c\x1f\x85\u00a0\u2003\u2028\u3000\u200b\u00e9e\u0301\u4e2d\U0001f469"
TEXT = (ALPHABET + " ab abc's the  \n\n\u00e9 11 .. [ S ] <unk>\n") * 3


def built(level: str, unit: str = "stream", form: str = "none") -> Tokenizer:
    chosen = TextSettings(level=level, unit=unit, normal_form=form)  # type: ignore[arg-type]
    return build_tokenizer([TEXT], chosen)


@pytest.mark.parametrize(
    ("level", "unit", "form"), list(product(LEVELS, UNITS, ("none", "NFC", "NFKD")))
)
def test_a_tokenizer_is_read_back_whole(level: str, unit: str, form: str) -> None:
    tokenizer = built(level, unit, form)
    loaded = tokenizer_from_json(tokenizer.to_json())
    assert type(loaded) is type(tokenizer)
    assert loaded.to_json() == tokenizer.to_json()
    assert loaded.digest() == tokenizer.digest()
    assert loaded.vocabulary == tokenizer.vocabulary
    assert loaded.settings == tokenizer.settings
    assert loaded.notices == tokenizer.notices
    assert loaded.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()
    assert tokenizer.to_json().isascii()


@pytest.mark.parametrize(
    ("level", "unit", "form"), list(product(LEVELS, UNITS, ("none", "NFC", "NFKD")))
)
@given(text=st.text(alphabet=ALPHABET + "zq[]S", max_size=40))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_the_library_gives_the_same_ids_and_the_same_text(
    level: str, unit: str, form: str, text: str
) -> None:
    tokenizer = built(level, unit, form)
    library = LibraryTokenizer.from_str(tokenizer.to_json())
    for sample in (text, TEXT):
        ids = tokenizer.encode(sample)
        assert library.encode(sample).ids == ids.tolist()
        # A special has no text in Elman; that library shows its name.
        if not tokenizer.count_unknown(ids):
            assert library.decode(ids.tolist(), skip_special_tokens=False) == tokenizer.decode(ids)


@pytest.mark.parametrize("level", LEVELS)
def test_symbols_of_every_kind_survive_saving(level: str) -> None:
    # case A08
    odd = '\x00 \x01 "\\/ \u2028 \x85 \x7f \ufeff \u0301 \U0010ffff </s> {} \ue000'
    tokenizer = build_tokenizer([odd], TextSettings(level=level))  # type: ignore[arg-type]
    loaded = tokenizer_from_json(tokenizer.to_json())
    assert loaded.vocabulary.symbols == tokenizer.vocabulary.symbols
    assert loaded.encode(odd).tolist() == tokenizer.encode(odd).tolist()


def alterations(whole: dict[str, Any]) -> list[tuple[str, Any]]:
    """Each a way in which the file can be broken, as a path of keys and a new value."""
    vocab = whole["model"]["vocab"]
    first, second = list(vocab)[-2:]
    swapped = {**vocab, first: vocab[second], second: vocab[first]}
    return [
        ("model.vocab", {**vocab, first: vocab[second]}),
        ("model.vocab", {**vocab, first: len(vocab) + 5}),
        ("model.vocab", {**vocab, first: str(vocab[first])}),
        ("model.vocab", {**vocab, first: True}),
        ("model.vocab", {**vocab, "\ud800": len(vocab)}),
        ("model.vocab", {}),
        ("model.vocab", None),
        ("model.vocab", swapped if whole["model"]["type"] == "BPE" else {**vocab, "": len(vocab)}),
        ("model.type", "Unigram"),
        ("model.elman", None),
        ("model.elman.schema", 2),
        ("model.elman.settings.level", "letters"),
        ("model.elman.settings.min_count", 0),
        ("model.elman.settings.unit", "line"),
        ("model.elman.settings.extra", 1),
        ("model.elman.specials", ["[ S ]"]),
        ("model.elman.specials", [1]),
        ("model.elman.notices", "none"),
        ("normalizer", {"type": "NFC"}),
        ("pre_tokenizer", None),
        ("decoder", None),
        ("added_tokens", [{"id": 0}]),
        ("truncation", False),
        ("extra", None),
        ("model", []),
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_an_altered_file_is_refused_in_one_line(level: str) -> None:
    original = built(level).to_json()
    for path, value in alterations(json.loads(original)):
        whole = json.loads(original)
        *parents, key = path.split(".")
        part = whole
        for parent in parents:
            part = part[parent]
        part[key] = value
        with pytest.raises(RunError, match=r"^tokenizer\.json") as caught:
            tokenizer_from_json(json.dumps(whole))
        assert "\n" not in str(caught.value), path


@pytest.mark.parametrize("level", LEVELS)
def test_a_cut_or_doubled_file_is_refused(level: str) -> None:
    text = built(level).to_json()
    doubled = text.replace('"version": "1.0"', '"version": "1.0", "version": "1.0"')
    for broken in (text[: len(text) // 2], "", "[]", "null", "1", doubled, "[" * 100_000):
        with pytest.raises(RunError, match=r"^tokenizer\.json"):
            tokenizer_from_json(broken)


def test_merges_that_do_not_make_the_symbols_are_refused() -> None:
    whole = json.loads(built("bpe").to_json())
    merges = whole["model"]["merges"]
    for wrong in (merges[:-1], merges[::-1], [["a"]], [["a", 1]], [["\u4e2d", "a"]], merges * 2):
        whole["model"]["merges"] = wrong
        with pytest.raises(RunError, match=r"^tokenizer\.json") as caught:
            tokenizer_from_json(json.dumps(whole))
        assert "Traceback" not in str(caught.value)


def test_the_digest_tells_vocabularies_of_one_size_apart() -> None:
    first = build_tokenizer(["abc"], TextSettings())
    second = build_tokenizer(["abd"], TextSettings())
    assert len(first) == len(second)
    assert first.digest() != second.digest()
    other = build_tokenizer(["abc"], replace(TextSettings(), prompt_unknown="skip"))
    assert other.digest() != first.digest()
