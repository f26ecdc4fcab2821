"""Text without an end is refused at a limit that is told, and text below it is left as it is."""

import pytest

from elman.config.text_settings import TextSettings
from elman.errors import DataError
from elman.text import holding, word_count
from elman.text.building import build_tokenizer, encode_chunks
from elman.text.holding import HeldText
from elman.text.normalising import normalised_chunks
from elman.text.reading import iter_lines

LIMIT = 1000


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "LONGEST_HELD", LIMIT)


def test_what_is_held_comes_out_in_order_and_once() -> None:
    held = HeldText("a line")
    assert not held
    held.add("ab")
    held.add("")
    held.add("c")
    assert held
    assert held.take("d") == "abcd"
    assert not held
    assert held.take() == ""


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_a_line_is_held_up_to_the_limit(size: int) -> None:
    chunks = ["x" * 100] * (size // 100) + ["x" * (size % 100), "\nnext\n"]
    if size <= LIMIT:
        assert list(iter_lines(chunks)) == ["x" * size, "next"]
        return
    with pytest.raises(DataError, match=r"a line is too .*got 1,001 .*at most 1,000; .*--level"):
        list(iter_lines(chunks))


def test_many_lines_are_longer_than_the_limit_together() -> None:
    assert len(list(iter_lines(["some words\n" * 50] * 50))) == 2500


@pytest.mark.parametrize("level", ["word", "bpe"])
def test_a_word_without_end_is_refused(level: str) -> None:
    settings = TextSettings(level=level, unknown="replace" if level == "word" else "refuse")
    endless = ["a b c d " * 20, *["x" * 90] * 100]
    with pytest.raises(DataError, match=r"without a place to cut .*at most 1,000"):
        build_tokenizer(endless, settings)
    tokenizer = build_tokenizer(["a b c d " * 20], settings)
    with pytest.raises(DataError, match=r"without a place to cut .*at most 1,000"):
        list(encode_chunks(tokenizer, endless))


def test_characters_and_bytes_have_no_limit() -> None:
    for level in ("char", "byte"):
        tokenizer = build_tokenizer(["x" * 90] * 100, TextSettings(level=level))
        assert sum(len(ids) for ids in encode_chunks(tokenizer, ["x" * 90] * 100)) == 9000


def test_marks_that_merge_without_end_are_refused() -> None:
    with pytest.raises(DataError, match=r"merges with it .*at most 1,000"):
        list(normalised_chunks(["a", *["\u0301" * 90] * 100], "NFC"))


def test_more_distinct_words_than_can_be_counted_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(word_count, "MOST_WORDS", 100)
    few = [f"w{number} " * 3 for number in range(100)]
    assert len(build_tokenizer(few, TextSettings(level="word", unknown="refuse"))) == 100
    with pytest.raises(DataError, match=r"too many distinct words .*more than 100; read it with"):
        build_tokenizer([*few, "another"], TextSettings(level="word"))
