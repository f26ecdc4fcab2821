"""Every level of tokenizer against what it promises, and the public cases with their values."""

import unicodedata
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.config.text_settings import TextSettings
from elman.errors import DataError, SettingError, UnknownSymbolError
from elman.text.building import build_tokenizer, encode_chunks, learn_and_encode
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json
from elman.text.vocabulary import BOUNDARY, PAD, UNK

LEVELS = ("char", "byte", "word", "bpe")
LOSSLESS = ("char", "byte", "bpe")
UNITS = ("line", "stream")
SAMPLE = (
    "the cat sat on the mat.\nThe dog's 25 caf\u00e9s  \u4e2d\u6587\t"
    "\U0001f469\u200d\U0001f467!\n\n x\n"
)
LINE_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 \t\u00a0\u3000\n"
# Blanks of every kind, letters that compose, scripts with and without cases, marks, NUL.
ALPHABET = (
    "ab'st.1 \n\t\r\x00\x1c\x85\u00a0\u2028\u00e9e\u0301\uac00\u1100\u1161\u11a8\u4e2d"
    "\U0001f469\u200d\ufb01"
)
texts = st.text(alphabet=ALPHABET, max_size=60)


def settings_of(level: str, unit: str = "stream") -> TextSettings:
    return TextSettings(level=level, unit=unit)  # type: ignore[arg-type]


def built(level: str, text: str = SAMPLE, unit: str = "stream") -> Tokenizer:
    return build_tokenizer([text], settings_of(level, unit))


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def joined(parts: object) -> list[int]:
    return [number for part in parts for number in part.tolist()]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def covering() -> dict[str, Tokenizer]:
    """Tokenizers that cover the alphabet; the subwords have merges across most of it."""
    text = (ALPHABET + " ab abc's the  \n\n\u00e9\u00e9 11 ..") * 3
    return {level: built(level, text) for level in LEVELS}


@pytest.mark.parametrize("level", LOSSLESS)
@given(text=texts)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_decoding_what_was_encoded_is_the_identity(
    covering: dict[str, Tokenizer], level: str, text: str
) -> None:
    tokenizer = covering[level]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("level", ["byte", "bpe"])
@given(text=st.text())
@settings(derandomize=True, deadline=None)
def test_bytes_and_subwords_spell_every_text(
    covering: dict[str, Tokenizer], level: str, text: str
) -> None:
    tokenizer = covering[level]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.count_unknown(tokenizer.encode(text)) == 0


@given(text=texts)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_the_normal_form_of_words_is_idempotent(covering: dict[str, Tokenizer], text: str) -> None:
    words = build_tokenizer([f"{text} x"], settings_of("word"))
    form = words.decode(words.encode(text))
    assert form == "\n".join(" ".join(line.split()) for line in text.split("\n"))
    assert words.decode(words.encode(form)) == form
    assert words.encode(form).tolist() == words.encode(text).tolist()


@pytest.mark.parametrize("level", LEVELS)
@given(text=texts, size=st.integers(1, 9))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_chunks_encode_as_the_whole_text_does(
    covering: dict[str, Tokenizer], level: str, text: str, size: int
) -> None:
    tokenizer = covering[level]
    whole = tokenizer.encode(text).tolist()
    assert joined(encode_chunks(tokenizer, cut(text, size))) == whole


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("level", LEVELS)
@given(text=texts, size=st.integers(1, 5))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_chunks_encode_as_the_whole_text_does_in_every_normal_form(
    level: str, form: str, text: str, size: int
) -> None:
    chosen = replace(settings_of(level), normal_form=form)  # type: ignore[arg-type]
    tokenizer = build_tokenizer(cut(text + "a", size), chosen)
    assert tokenizer.to_json() == build_tokenizer([text + "a"], chosen).to_json()
    whole = tokenizer.encode(text).tolist()
    assert joined(encode_chunks(tokenizer, cut(text, size))) == whole
    if level in LOSSLESS:
        assert tokenizer.decode(whole) == unicodedata.normalize(form, text)  # type: ignore[arg-type]


@pytest.mark.parametrize(("level", "unit"), list(product(LEVELS, UNITS)))
@given(text=texts, size=st.integers(1, 9))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_learning_does_not_depend_on_chunks_and_reading_once_is_reading_twice(
    level: str, unit: str, text: str, size: int
) -> None:
    text += " word\n"
    chosen = replace(settings_of(level, unit), min_count=2 if level != "char" else 1)
    try:
        whole = build_tokenizer([text], chosen)
    except DataError:
        with pytest.raises(DataError):
            learn_and_encode(cut(text, size), chosen)
        return
    tokenizer, ids = learn_and_encode(cut(text, size), chosen)
    assert tokenizer.to_json() == whole.to_json()
    assert joined(ids) == whole.encode(text).tolist()


@pytest.mark.parametrize(("level", "unit"), list(product(LEVELS, UNITS)))
@given(text=texts)
@settings(derandomize=True, deadline=None, max_examples=50)
def test_offsets_slice_back_to_the_text_of_the_token(level: str, unit: str, text: str) -> None:
    tokenizer = build_tokenizer([text + " word\n"], settings_of(level, unit))
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    assert ids.tolist() == tokenizer.encode(text).tolist()
    assert len(ids) == len(starts) == len(ends)
    for number, start, end in zip(ids.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if number == tokenizer.vocabulary.unk_id:
            assert text[start:end] == "\n"
        elif level in ("char", "word"):
            assert text[start:end] == tokenizer.decode([number])
            assert text[start:end].encode() == tokenizer.token_bytes(number)
        else:
            assert tokenizer.token_bytes(number) in text[start:end].encode()
            # No more characters than the token has a part in.
            assert len(text[start:end][1:-1].encode()) < max(1, len(tokenizer.token_bytes(number)))


def test_offsets_of_parts_of_a_character_point_at_the_whole_character() -> None:
    ids, starts, ends = built("byte").encode_with_offsets("a\u20acb")
    assert ids.tolist() == [97, 0xE2, 0x82, 0xAC, 98]
    assert starts.tolist() == [0, 1, 1, 1, 2]
    assert ends.tolist() == [1, 2, 2, 2, 3]


def test_offsets_point_into_the_normalised_text() -> None:
    tokenizer = build_tokenizer(["caf\u00e9 x"], replace(settings_of("char"), normal_form="NFC"))
    _, starts, _ = tokenizer.encode_with_offsets("cafe\u0301 x")
    assert starts.tolist() == [0, 1, 2, 3, 4, 5]
    assert tokenizer.normalise("cafe\u0301 x") == "caf\u00e9 x"


def test_every_line_end_of_python_is_a_symbol_that_survives_saving() -> None:
    # case A08
    tokenizer = built("char", "a" + LINE_ENDS)
    loaded = tokenizer_from_json(tokenizer.to_json())
    assert len(LINE_ENDS) == 13
    assert len(loaded) == len(tokenizer) == 15
    for symbol in LINE_ENDS:
        number = tokenizer.vocabulary.id_of(symbol)
        assert number is not None
        assert loaded.vocabulary.id_of(symbol) == number
        assert loaded.decode([number]) == symbol
    lines = build_tokenizer(["a" + LINE_ENDS], settings_of("char", "line"))
    assert lines.vocabulary.id_of("\n") is None
    assert lines.vocabulary.id_of("\u2028") is not None


def test_composed_and_decomposed_letters_are_one_under_a_normal_form() -> None:
    # case A14
    composed = replace(settings_of("char"), normal_form="NFC", unknown="refuse")
    tokenizer = build_tokenizer(["caf\u00e9 "], composed)
    assert tokenizer.decode(tokenizer.encode("cafe\u0301")) == "caf\u00e9"
    assert tokenizer_from_json(tokenizer.to_json()).settings.normal_form == "NFC"
    hebrew = "\u05d1\u05bc\u05b0"
    ordered = build_tokenizer([hebrew], composed)
    assert ordered.decode(ordered.encode(hebrew)) == "\u05d1\u05b0\u05bc"
    plain = build_tokenizer(["caf\u00e9 "], replace(composed, normal_form="none"))
    with pytest.raises(UnknownSymbolError, match=r"U\+0301"):
        plain.encode("cafe\u0301", policy="refuse")


def test_stored_order_is_kept_and_joined_emoji_are_their_code_points() -> None:
    # case A14
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    arabic = ["\u200f\u0645\u0631\u062d\u0628\u0627", "\u061c\u0645\u0631"]
    odd = ["\u05d1\u05bc\u05b0", *arabic, family]
    for text, level in product(odd, LOSSLESS):
        tokenizer = built(level, text)
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.decode(tokenizer.encode(text)[:1]) in (text[0], "\ufffd", text)
    assert len(built("char", family).encode(family)) == 5
    assert len(built("byte").encode(family)) == 18


@pytest.mark.parametrize(("level", "unit"), list(product(LEVELS, UNITS)))
def test_no_text_can_spell_a_special(level: str, unit: str) -> None:
    # case A17
    text = f"a </s> b <pad> <unk> {PAD}{BOUNDARY} {UNK}"
    tokenizer = build_tokenizer([text + "\n"], settings_of(level, unit))
    ids = tokenizer.encode(text)
    assert ids.min() >= len(tokenizer.vocabulary.specials)
    assert tokenizer.decode(ids) == text
    assert len(set(tokenizer.vocabulary.symbols)) == len(tokenizer)


def test_a_literal_unknown_means_the_unknown_word_only_where_it_is_set() -> None:
    # case A17
    text = "the <unk> cat <unk>\n"
    plain = built("word", text)
    assert plain.vocabulary.id_of("<unk>") is not None
    assert plain.count_unknown(plain.encode(text)) == 0
    chosen = replace(settings_of("word"), literal_unknown="<unk>")
    for tokenizer in (build_tokenizer([text], chosen), learn_and_encode([text], chosen)[0]):
        assert tokenizer.vocabulary.id_of("<unk>") is None
        for policy in ("replace", "refuse", "skip"):
            ids = tokenizer.encode(text, policy=policy)  # type: ignore[arg-type]
            assert tokenizer.count_unknown(ids) == 2
        assert tokenizer.decode(tokenizer.encode(text)) == "the \ufffd cat \ufffd\n"
    assert joined(learn_and_encode([text], chosen)[1]) == tokenizer.encode(text).tolist()
    for wrong in ({"literal_unknown": "two words"}, {"unknown": "refuse"}):
        with pytest.raises(SettingError, match="literal_unknown"):
            build_tokenizer([text], replace(chosen, **wrong))  # type: ignore[arg-type]


def test_blanks_are_kept() -> None:
    # case A20
    runs = ["x" + " " * n + "y" for n in range(1, 10)]
    texts_with_blanks = ["a  b\n\n\tc ", "25. Sept.", "", *runs]
    everything = "".join(texts_with_blanks)
    for text, level in product(texts_with_blanks, LOSSLESS):
        tokenizer = built(level, everything)
        assert tokenizer.decode(tokenizer.encode(text)) == text
    words = built("word", everything)
    for text in texts_with_blanks:
        once = words.decode(words.encode(text))
        assert words.decode(words.encode(once)) == once
    spaced = built("word", "a b\nc")
    assert spaced.decode(spaced.encode("a  b\n\n\tc ")) == "a b\n\nc"


def test_unknown_symbols_are_listed_with_their_code_points() -> None:
    # case D04
    tokenizer = build_tokenizer(["abc" * 9], replace(settings_of("char"), unknown="refuse"))
    with pytest.raises(UnknownSymbolError) as caught:
        tokenizer.encode("az\u00e9zz")
    assert "z (U+007A), \u00e9 (U+00E9);" in str(caught.value)
    assert tokenizer.encode("").tolist() == []
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab"
    assert tokenizer.decode(tokenizer.encode("az\u00e9b", policy="skip")) == "ab"
    with pytest.raises(SettingError, match="no \\[ UNK \\]"):
        tokenizer.encode("ab", policy="replace")
    many = "".join(chr(0x4E00 + n) for n in range(25))
    with pytest.raises(UnknownSymbolError, match=r"\u4e09 \(U\+4E09\) and 15 more"):
        tokenizer.encode(many)
    with pytest.raises(UnknownSymbolError, match=r"got U\+0301, U\+200B, U\+000A;"):
        tokenizer.encode("\u0301\u200b\n\n")


def test_unknown_words_are_listed_and_a_line_end_among_them() -> None:
    # case D04
    tokenizer = build_tokenizer(["the cat"], replace(settings_of("word"), unknown="refuse"))
    with pytest.raises(UnknownSymbolError, match=r"got dog, caf\u00e9 \(U\+00E9\), U\+000A;"):
        tokenizer.encode("the dog caf\u00e9 dog\n")
    with pytest.raises(UnknownSymbolError, match=r"got dog"):
        tokenizer.encode_with_offsets("the dog")


@pytest.mark.parametrize("level", ["char", "word"])
def test_policies_replace_skip_and_refuse(level: str) -> None:
    chosen = settings_of(level)
    tokenizer = build_tokenizer(["a b a\n"], chosen)
    unk_id = tokenizer.vocabulary.unk_id
    text = "a z b"
    replaced = tokenizer.encode(text)
    assert tokenizer.count_unknown(replaced) == 1
    assert tokenizer.decode(replaced) == "a \ufffd b"
    assert tokenizer.token_text(unk_id or 0) == UNK
    skipped = tokenizer.encode(text, policy="skip")
    assert skipped.tolist() == replaced[replaced != unk_id].tolist()
    ids, starts, ends = tokenizer.encode_with_offsets(text, policy="skip")
    assert ids.tolist() == skipped.tolist()
    assert [text[s:e] for s, e in zip(starts, ends, strict=True)] == [
        tokenizer.decode([n]) for n in ids
    ]
    with pytest.raises(UnknownSymbolError, match=r"got z"):
        list(encode_chunks(tokenizer, ["a ", "z", " b"], policy="refuse"))


@pytest.mark.parametrize("level", LEVELS)
def test_half_a_surrogate_pair_is_refused_by_name(level: str) -> None:
    with pytest.raises(DataError, match=r"U\+D83C at position 2"):
        built(level).encode("a \ud83c")
    with pytest.raises(DataError, match=r"U\+D83C"):
        learn_and_encode(["a \ud83c b"], settings_of(level))


@pytest.mark.parametrize("level", LEVELS)
def test_ids_outside_the_vocabulary_are_refused(level: str) -> None:
    tokenizer = built(level)
    for wrong in (-1, len(tokenizer)):
        with pytest.raises(DataError, match="outside the vocabulary"):
            tokenizer.decode([wrong])
    assert tokenizer.decode([]) == ""
    assert tokenizer.encode("").dtype == np.int32


@pytest.mark.parametrize(("level", "unit"), list(product(LEVELS, UNITS)))
def test_token_bytes_joined_are_the_decoded_text(level: str, unit: str) -> None:
    tokenizer = built(level, unit=unit)
    for number, name in enumerate(tokenizer.vocabulary.specials):
        assert tokenizer.token_bytes(number) == ("\ufffd".encode() if name == UNK else b"")
        assert tokenizer.token_text(number) == name
    ids = tokenizer.encode("the cat").tolist()
    pieces = [tokenizer.token_bytes(number) for number in ids]
    assert tokenizer.token_separator.join(pieces).decode() == tokenizer.decode(ids) == "the cat"


def test_tokens_are_named_as_python_quotes_them() -> None:
    char, byte = built("char"), built("byte")
    assert char.token_text(char.encode("\n")[0]) == r"'\n'"
    assert char.token_text(char.encode(" ")[0]) == "' '"
    assert byte.token_text(0xC3) == r"b'\xc3'"
    assert byte.token_text(ord("a")) == "'a'"


def test_words_of_any_character_are_words() -> None:
    text = "\x00 \x01 a\x00b \x00\n\x1fc\n"
    tokenizer, ids = learn_and_encode(cut(text, 2), settings_of("word"))
    assert tokenizer.decode(joined(ids)) == "\x00 \x01 a\x00b \x00\nc\n"
