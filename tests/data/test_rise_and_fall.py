"""The built-in series: order alone tells the labels apart."""

from collections import Counter
from itertools import pairwise

from elman.data.rise_and_fall import (
    FALL_THEN_RISE,
    LONGEST,
    RISE_THEN_FALL,
    SHORTEST,
    rise_and_fall,
)


def turns(values: tuple[float, ...]) -> list[int]:
    """Signs of the steps, runs of one sign once; steps of 0 left out."""
    signs = [
        1 if later > earlier else -1 for earlier, later in pairwise(values) if later != earlier
    ]
    return [sign for place, sign in enumerate(signs) if not place or sign != signs[place - 1]]


def test_both_series_of_a_pair_have_the_same_readings_so_that_averages_cannot_tell_them() -> None:
    rows = list(rise_and_fall(200))
    assert [row.line for row in rows] == list(range(1, 401))
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert (first.label, second.label) == (RISE_THEN_FALL, FALL_THEN_RISE)
        assert Counter(first.values) == Counter(second.values)
        assert SHORTEST <= len(first.values) <= LONGEST


def test_one_rises_and_then_falls_and_the_other_falls_and_then_rises() -> None:
    for row in rise_and_fall(200):
        assert turns(row.values) == ([1, -1] if row.label == RISE_THEN_FALL else [-1, 1])


def test_the_seed_says_which_series_come() -> None:
    assert list(rise_and_fall(3)) == list(rise_and_fall(3, seed=1))
    assert list(rise_and_fall(3)) != list(rise_and_fall(3, seed=2))
