"""Byte-pair encoding: the merges learnt, the limits of the vocabulary, where text may be cut."""

import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.config.text_settings import TextSettings
from elman.errors import DataError, SettingError
from elman.text import subwords
from elman.text.building import build_tokenizer
from elman.text.byte_values import byte_names
from elman.text.subwords import SubwordTokenizer, cut_before_blank

BPE = TextSettings(level="bpe")
NAMES = byte_names()


def learnt(text: str, chosen: TextSettings = BPE) -> SubwordTokenizer:
    tokenizer = build_tokenizer([text], chosen)
    assert isinstance(tokenizer, SubwordTokenizer)
    return tokenizer


def reference_merges(words: list[str], wanted: int) -> list[tuple[str, str]]:
    """Byte-pair encoding as the definition says it, counting everything anew for each merge."""
    spelled = [[NAMES[byte] for byte in word.encode()] for word in words]
    age = {name: number for number, name in enumerate(sorted(NAMES))}
    merges: list[tuple[str, str]] = []
    while len(age) < 256 + wanted:
        pairs = Counter(pair for word in spelled for pair in pairwise(word))
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], age[pair[0]], age[pair[1]]))
        merges.append(best)
        age.setdefault("".join(best), len(age))
        spelled = [_merged(word, best) for word in spelled]
    return merges


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for part in word:
        out.append(part)
        # A part that was just joined is no left side any more.
        if len(out) > 1 and (out[-2], out[-1]) == pair:
            out[-2:] = ["".join(pair) + "\0"]
    return [part.removesuffix("\0") for part in out]


def test_merges_come_in_order_and_stop_where_the_text_allows_no_more() -> None:
    # case A19: words already apart, one a line, so that no blank belongs to them
    lines = "ab\nab\nab\nabc\nabc\nbc"
    for unit in ("line", "stream"):
        chosen = replace(BPE, unit=unit, vocabulary_size=256 + 1000)  # type: ignore[arg-type]
        tokenizer = learnt(lines, chosen)
        assert tokenizer.merges == (("a", "b"), ("ab", "c"), ("b", "c"))
        specials = len(tokenizer.vocabulary.specials)
        assert len(tokenizer) == specials + 256 + 3
        assert tokenizer.notices == (
            f"the text allows 3 merges: the vocabulary has {specials + 259} entries, not 1256",
        )
        pieces = [tokenizer.token_bytes(n) for n in tokenizer.encode("abc\nbc\nab").tolist()]
        assert pieces == [b"abc", b"\n", b"bc", b"\n", b"ab"]


def test_a_blank_belongs_to_the_word_after_it() -> None:
    # case A19: pairs counted by hand: a+b 5, blank+ab 4, blank ab+c 2, then two of 1
    tokenizer = learnt("ab ab ab abc abc bc")
    blank = NAMES[ord(" ")]
    assert tokenizer.merges[:3] == (("a", "b"), (blank, "ab"), (blank + "ab", "c"))
    assert set(tokenizer.merges[3:]) == {("b", "c"), (blank, "bc")}
    pieces = [tokenizer.token_bytes(n) for n in tokenizer.encode("ab abc bc").tolist()]
    assert pieces == [b"ab", b" abc", b" bc"]


@pytest.mark.parametrize("unit", ["line", "stream"])
def test_a_vocabulary_below_the_bytes_is_refused_with_the_minimum(unit: str) -> None:
    # case A19
    minimum = 258 if unit == "line" else 256
    for level in ("bpe", "byte"):
        for size in (2, minimum - 1):
            chosen = TextSettings(level=level, unit=unit, vocabulary_size=size)  # type: ignore[arg-type]
            with pytest.raises(SettingError, match=f"got {size}; allowed: 0, or {minimum} and"):
                build_tokenizer(["ab ab"], chosen)
    exact = learnt("ab ab", replace(BPE, unit=unit, vocabulary_size=minimum))  # type: ignore[arg-type]
    assert (len(exact), exact.merges, exact.notices) == (minimum, (), ())


@pytest.mark.parametrize("size", [256, 257, 300, 400])
def test_the_vocabulary_is_never_larger_than_asked_for(size: int) -> None:
    tokenizer = learnt("the cat and the dog and the cats " * 5, replace(BPE, vocabulary_size=size))
    assert len(tokenizer) <= size
    assert (len(tokenizer) < size) == bool(tokenizer.notices)


@given(words=st.lists(st.text(alphabet="abc\u00e9", min_size=1, max_size=7), max_size=25))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_merges_are_those_of_the_definition(words: list[str]) -> None:
    tokenizer = learnt("\n".join(["ab", *words]), replace(BPE, vocabulary_size=256 + 12))
    # Line ends are words of one byte each: they have no pairs.
    assert list(tokenizer.merges) == reference_merges(["ab", *words], 12)[: len(tokenizer.merges)]
    assert len(tokenizer.merges) >= min(12, len(reference_merges(["ab", *words], 12)))


def test_rare_pairs_are_not_merged_where_a_least_count_is_set() -> None:
    tokenizer = learnt("ab\nab\nab\nabc\nabc\nbc", replace(BPE, min_count=2))
    assert tokenizer.merges == (("a", "b"), ("ab", "c"))


def test_pieces_are_cut_only_where_no_token_reaches_across() -> None:
    blanks = [chr(point) for point in range(sys.maxunicode) if chr(point).isspace()]
    others = ["a", "1", "!", "'s", "\u4e2d", "\u0301", "\x00", "\u180e", "\u200b", "\ufeff"]
    text = "".join(f"a{b}{other}{b}{b}b {b}" for b in blanks for other in others)
    tokenizer = learnt(text * 2)
    whole = tokenizer._library.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text).tolist() == whole
    assert len(text) > 2000


@given(text=st.text(alphabet="a! \n\t\x1c\u00a0", max_size=40))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_the_cut_is_the_last_place_before_a_blank_that_follows_another_character(text: str) -> None:
    places = [
        n
        for n in range(1, len(text))
        if text[n] in " \n" and (not text[n - 1].isspace() or text[n - 1] == "\x1c")
    ]
    assert cut_before_blank(text) == max(places, default=0)


def test_a_cut_far_from_the_end_and_on_the_border_of_two_windows_is_found() -> None:
    for tail in (4094, 4095, 4096, 4097, 20_000):
        assert cut_before_blank("ab" + " " + "x" * tail) == 2
        assert cut_before_blank("ab" + " " * tail) == 2


def test_a_run_without_blanks_is_refused_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = TextSettings(level="bpe", vocabulary_size=300)
    tokenizer = build_tokenizer(["some text to learn from " * 40], asked)
    monkeypatch.setattr(subwords, "LONGEST_UNCUT", 1000)
    long = "a " * 2000 + "b" * 1001 + " c"
    with pytest.raises(DataError, match=r"got 1,002; allowed: at most 1,000; read it with"):
        tokenizer.encode(long)
    with pytest.raises(DataError, match="without a blank"):
        build_tokenizer([long], asked)
    assert len(tokenizer.encode("a " * 5000))
