"""Parts that never overlap, never lose a position, and are never silently empty."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.data.splits import (
    SplitMode,
    line_starts,
    split_labelled,
    split_lines,
    split_stream,
)
from elman.errors import SettingError

shares = st.floats(0, 0.49)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.integers(0, 500), shares, shares, st.lists(st.integers(1, 500), max_size=60))
def test_the_parts_of_a_stream_join_to_the_whole(
    length: int, valid: float, test: float, starts: list[int]
) -> None:
    starts_N = np.array(sorted({start for start in starts if start <= length}), dtype=np.int64)
    split = split_stream(length, valid_fraction=valid, test_fraction=test, line_starts_N=starts_N)
    whole = list(range(length))
    assert whole[split.train] + whole[split.valid] + whole[split.test] == whole
    for part, fraction in ((split.valid, valid), (split.test, test)):
        size = part.stop - part.start
        assert size >= 2 or size == 0
        assert size > 0 or fraction == 0 or split.notices
        if size:
            assert abs(size - max(2, length * fraction)) <= 1 + 0.1 * length
    if split.valid.stop - split.valid.start or split.test.stop - split.test.start:
        assert split.train.stop >= 2


def test_a_cut_that_goes_to_a_line_start_leaves_enough_to_learn_from() -> None:
    split = split_stream(
        226, valid_fraction=0.46875, test_fraction=0.484375, line_starts_N=np.array([107])
    )
    assert (split.train, split.valid) == (slice(0, 11), slice(11, 117))


def test_a_cut_goes_to_the_line_start_near_it_and_only_there() -> None:
    text = "x" * 895 + "\n" + "y" * 104
    near = split_stream(1000, valid_fraction=0.1, test_fraction=0, line_starts_N=line_starts(text))
    assert near.valid == slice(896, 1000)
    far = split_stream(
        1000, valid_fraction=0.1, test_fraction=0, line_starts_N=np.array([700, 950])
    )
    assert far.valid == slice(900, 1000)


def test_a_line_starts_after_a_newline_and_after_no_other_sign() -> None:
    text = "a\nb\u2028c\x85d\x0be\r\n\U0001f600\n"
    assert line_starts(text).tolist() == [
        place + 1 for place, character in enumerate(text) if character == "\n"
    ]
    assert line_starts("").tolist() == []


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(0, 300), shares, shares, st.sampled_from(["tail", "shuffled"]))
def test_every_line_is_in_one_part(
    num_lines: int, valid: float, test: float, mode: SplitMode
) -> None:
    split = split_lines(num_lines, valid_fraction=valid, test_fraction=test, seed=3, mode=mode)
    parts = [split.train_N.tolist(), split.valid_N.tolist(), split.test_N.tolist()]
    assert all(part == sorted(part) for part in parts)
    assert sorted(chain.from_iterable(parts)) == list(range(num_lines))
    if mode == "tail":
        assert list(chain.from_iterable(parts)) == list(range(num_lines))
    assert bool(parts[1]) == (valid > 0 and num_lines >= 2)


def test_shuffled_lines_are_split_by_the_seed_alone() -> None:
    def valid_of(seed: int) -> list[int]:
        split = split_lines(100, valid_fraction=0.1, test_fraction=0.1, seed=seed, mode="shuffled")
        return [int(number) for number in split.valid_N]

    assert valid_of(1) == valid_of(1) != valid_of(2)
    assert valid_of(1) != list(range(80, 90))


def test_parts_that_a_short_text_cannot_give_are_left_empty_with_a_notice() -> None:
    tiny = split_stream(5, valid_fraction=0.05, test_fraction=0.05)
    assert (tiny.train, tiny.valid, tiny.test) == (slice(0, 3), slice(3, 5), slice(5, 5))
    assert tiny.notices == ("no test part is split off: 5 tokens are too few",)
    none = split_stream(30, valid_fraction=0, test_fraction=0)
    assert (none.train, none.notices) == (slice(0, 30), ())
    lines = split_lines(1, valid_fraction=0.05, test_fraction=0, seed=1, mode="shuffled")
    assert lines.train_N.tolist() == [0]
    assert lines.notices == ("no validation part is split off: 1 lines are too few",)


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (1.0, 0.0), (-0.1, 0.0), (0.0, float("nan"))])
def test_fractions_that_leave_nothing_are_refused(fractions: tuple[float, float]) -> None:
    with pytest.raises(SettingError, match="fraction"):
        split_stream(100, valid_fraction=fractions[0], test_fraction=fractions[1])


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), shares, shares)
def test_labelled_rows_are_each_in_one_part_and_every_label_is_spread_evenly(
    labels: list[int], valid: float, test: float
) -> None:
    labels_N = np.array(labels, dtype=np.int64)
    split = split_labelled(labels_N, valid_fraction=valid, test_fraction=test, seed=3)
    parts = (split.train_N, split.valid_N, split.test_N)
    assert sorted(chain(*(part.tolist() for part in parts))) == list(range(len(labels)))
    assert all((np.diff(part) > 0).all() for part in parts)
    for part in (split.valid_N, split.test_N):
        for label in set(labels):
            count = int((labels_N == label).sum())
            got = int((labels_N[part] == label).sum())
            assert abs(got - count * len(part) / len(labels)) < 1.0 + 1e-9


def test_rare_labels_are_learnt_from_before_they_are_held_out() -> None:
    labels_N = np.array([0] * 90 + [1] * 3 + [2] * 2 + [3] * 5, dtype=np.int64)
    for seed in range(20):
        split = split_labelled(labels_N, valid_fraction=0.1, test_fraction=0.1, seed=seed)
        assert set(labels_N[split.train_N].tolist()) == {0, 1, 2, 3}
        assert (len(split.valid_N), len(split.test_N)) == (10, 10)


def test_the_seed_says_which_labelled_rows_are_held_out() -> None:
    labels_N = np.arange(100) % 3
    fractions = {"valid_fraction": 0.1, "test_fraction": 0.2}
    first, again, other = (split_labelled(labels_N, **fractions, seed=s) for s in (1, 1, 2))
    assert first.test_N.tolist() == again.test_N.tolist() != other.test_N.tolist()
