"""Repeats are dropped once and counted; what is left is the text itself."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from elman.data.repeats import FirstSeen, drop_repeated_lines, drop_repeated_paragraphs


def without_repeats(*chunks: str) -> str:
    return "".join(drop_repeated_paragraphs(chunks, FirstSeen()))


def test_the_second_of_equal_paragraphs_goes_with_the_blank_lines_after_it() -> None:
    text = "one\ntwo\n\nthree\n \n\none\ntwo\n\n\nfour\n"
    assert without_repeats(text) == "one\ntwo\n\nthree\n \n\nfour\n"


def test_paragraphs_are_compared_without_the_white_space_at_their_ends() -> None:
    assert without_repeats("\n\na\n\nb\n\n  a  \n\nb") == "\n\na\n\nb\n\n"
    assert without_repeats("a b\n\na  b") == "a b\n\na  b"


def test_one_object_counts_over_several_texts() -> None:
    seen = FirstSeen()
    kept = [list(drop_repeated_lines(lines, seen)) for lines in (["a", "bb", "a"], ["bb", "A"])]
    assert kept == [["a", "bb"], ["A"]]
    assert (seen.kept, seen.dropped, seen.dropped_characters) == (3, 2, 3)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.text("ab \n", max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_where_chunks_are_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[a:b] for a, b in itertools.pairwise(edges)]
    once = without_repeats(text)
    assert without_repeats(*chunks) == once
    assert without_repeats(once) == once


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(1, 8))
def test_a_text_without_repeats_is_untouched(count: int) -> None:
    text = "\n\n".join(f"paragraph {number}\nof two lines" for number in range(count))
    assert without_repeats(text) == text
