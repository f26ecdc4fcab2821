import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.decoding.streaming import TextStream
from elman.errors import RunError

SNOWMAN = "☃".encode()
WORDS = (b"", b"the", b"cat", b"\n", b"sat")


def byte_stream() -> TextStream:
    return TextStream(lambda token: bytes([token]))


def word_stream() -> TextStream:
    return TextStream(WORDS.__getitem__, separator=b" ")


def test_a_character_is_shown_when_its_last_byte_has_come() -> None:
    stream = byte_stream()
    assert [stream.push(byte) for byte in b"a" + SNOWMAN + b"b"] == ["a", "", "", "☃", "b"]
    assert stream.flush() == ""


def test_bytes_that_can_never_become_a_character_are_replaced() -> None:
    stream = byte_stream()
    assert [stream.push(byte) for byte in (0xFF, 0xE2, 0x41)] == ["\ufffd", "", "\ufffdA"]


def test_a_character_begun_and_never_finished_is_replaced_at_the_end() -> None:
    stream = byte_stream()
    assert [stream.push(byte) for byte in SNOWMAN[:2]] == ["", ""]
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""
    assert stream.push(0x61) == "a"


def test_words_are_joined_by_one_blank_and_none_beside_a_line_end() -> None:
    stream = word_stream()
    assert [stream.push(token) for token in (1, 2, 3, 1, 4, 3, 3, 1)] == [
        "the",
        " cat",
        "\n",
        "the",
        " sat",
        "\n",
        "\n",
        "the",
    ]


def test_a_token_without_bytes_adds_no_separator() -> None:
    stream = word_stream()
    assert [stream.push(token) for token in (0, 1, 0, 2)] == ["", "the", "", " cat"]


@pytest.mark.parametrize(("last", "shown"), [(1, " cat"), (3, "cat"), (0, "cat")])
def test_the_first_word_follows_the_prompt(last: int, shown: str) -> None:
    stream = word_stream()
    stream.follow(last)
    assert stream.push(2) == shown


def test_a_stream_goes_on_from_what_was_saved() -> None:
    first = byte_stream()
    assert first.push(SNOWMAN[0]) + first.push(SNOWMAN[1]) == ""
    second = byte_stream()
    second.restore(json.loads(json.dumps(first.facts())))
    assert second.push(SNOWMAN[2]) == "☃"
    words = word_stream()
    words.push(1)
    other = word_stream()
    other.restore(words.facts())
    assert other.push(2) == " cat"


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"held_bytes": "zz", "joins": True},
        {"held_bytes": "e2" * 4, "joins": True},
        {"held_bytes": "", "joins": 1},
    ],
)
def test_damaged_facts_are_refused(facts: dict[str, object]) -> None:
    with pytest.raises(RunError, match="saved text stream is damaged"):
        byte_stream().restore(facts)


@settings(derandomize=True, max_examples=300)
@given(st.lists(st.binary(max_size=3) | st.characters(codec="utf-8").map(str.encode), max_size=20))
def test_the_pieces_joined_are_the_text_of_all_bytes_at_once(tokens: list[bytes]) -> None:
    stream = TextStream(tokens.__getitem__)
    pieces = [stream.push(token) for token in range(len(tokens))]
    whole = "".join(pieces) + stream.flush()
    assert whole == b"".join(tokens).decode("utf-8", errors="replace")
    for end in range(len(pieces) + 1):
        assert whole.startswith("".join(pieces[:end]))
