"""Padded lines: right marks, every line once an epoch, an order that is a pure function."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.data.lines import LineBatches
from elman.data.order import RowOrder
from elman.data.token_array import LineArray, join_lines
from elman.errors import DataError

PAD, MARK = 0, 1
lines_lists = st.lists(st.lists(st.integers(2, 9), max_size=12), min_size=1, max_size=60)


def source_of(
    lines: LineArray,
    batch_size: int,
    seed: int = 5,
    order: RowOrder = "shuffled",
    length_pool: int = 1,
) -> LineBatches:
    return LineBatches(
        lines,
        batch_size=batch_size,
        boundary_id=MARK,
        pad_id=PAD,
        seed=seed,
        order=order,
        length_pool=length_pool,
    )


def numbers_of(source: LineBatches, epoch: int) -> list[list[int]]:
    count = source.batches_per_epoch(epoch)
    return [source.line_numbers(epoch, index).tolist() for index in range(count)]


def test_ada_is_read_from_its_start_mark_and_predicted_to_its_stop_mark() -> None:
    source = source_of(join_lines([[2, 5, 2], [7]], 10), 2, order="stored")
    batch = source.batch(0, 0)
    assert batch.ids_BT.tolist() == [[MARK, 2, 5, 2], [MARK, 7, PAD, PAD]]
    assert batch.targets_BT.tolist() == [[2, 5, 2, MARK], [7, MARK, PAD, PAD]]
    assert batch.lengths_B.tolist() == [4, 2]
    assert not batch.continues
    assert batch.num_targets == source.num_targets == 6


@settings(derandomize=True, max_examples=200, deadline=None)
@given(lines_lists, st.integers(1, 9), st.sampled_from(["shuffled", "stored"]), st.integers(1, 5))
def test_every_line_comes_once_an_epoch_whole_and_alone_in_its_row(
    lines: list[list[int]], batch_size: int, order: RowOrder, length_pool: int
) -> None:
    source = source_of(join_lines(lines, 10), batch_size, order=order, length_pool=length_pool)
    for epoch in (0, 3):
        seen = []
        for index in range(source.batches_per_epoch(epoch)):
            batch = source.batch(epoch, index)
            numbers = source.line_numbers(epoch, index)
            seen += numbers.tolist()
            assert batch.ids_BT.shape[1] == int(batch.lengths_B.max())
            for row, number in enumerate(numbers):
                line, width = lines[number], batch.ids_BT.shape[1]
                rest = [PAD] * (width - len(line) - 1)
                assert batch.ids_BT[row].tolist() == [MARK, *line, *rest]
                assert batch.targets_BT[row].tolist() == [*line, MARK, *rest]
                assert int(batch.lengths_B[row]) == len(line) + 1
        assert sorted(seen) == list(range(len(lines)))
        if order == "stored":
            assert seen == list(range(len(lines)))


def test_an_epoch_taken_up_in_its_middle_goes_on_with_the_same_lines() -> None:
    lines = join_lines([[2 + i % 8] * (1 + i % 4) for i in range(20)], 10)
    whole = source_of(lines, 2)
    epochs = [numbers_of(whole, epoch) for epoch in range(4)]
    resumed = source_of(lines, 2)
    assert [resumed.line_numbers(2, index).tolist() for index in range(3, 10)] == epochs[2][3:]
    assert numbers_of(resumed, 3) == epochs[3]
    assert numbers_of(whole, 1) == epochs[1]  # back to an epoch that was left
    assert epochs[3] != epochs[1]
    assert all(sorted(chain.from_iterable(epoch)) == list(range(20)) for epoch in epochs)


def test_seed_and_epoch_each_give_their_own_order_and_the_order_is_fixed() -> None:
    lines = join_lines([[2]] * 300, 10)
    orders = {
        tuple(chain.from_iterable(numbers_of(source_of(lines, 4, seed), epoch)))
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(orders) == 16
    assert numbers_of(source_of(lines, 4), 0) == numbers_of(source_of(lines, 4), 0)


def test_ten_lines_in_batches_of_four_are_four_four_and_two() -> None:
    lines = join_lines([[2]] * 10, 10)
    rows = [len(batch) for batch in numbers_of(source_of(lines, 4), 0)]
    assert sorted(rows) == [2, 4, 4]
    for batch_size in (1, 3, 4, 64):
        source = source_of(lines, batch_size)
        count = sum(
            source.batch(0, index).num_targets for index in range(source.batches_per_epoch(0))
        )
        assert count == source.num_targets == 20


def test_three_lines_make_a_batch_of_three_whatever_batch_size_is_asked_for() -> None:
    source = source_of(join_lines([[2], [3], [4]], 10), 64, order="stored")
    assert source.batches_per_epoch(0) == 1
    assert source.batch(0, 0).ids_BT.shape == (3, 2)


def test_a_pool_of_one_batch_leaves_the_lengths_in_a_batch_to_chance() -> None:
    seed = 17
    draw = np.random.default_rng(seed)
    lines = join_lines([[2] * n for n in draw.integers(1, 60, 3000)], 10)
    source = source_of(lines, 16)
    means = [lines.lengths_N[numbers].mean() for numbers in numbers_of(source, 0)]
    chance = lines.lengths_N.std() / 4  # of a mean of 16
    assert np.std(means) == pytest.approx(chance, rel=0.25), f"seed {seed}"


def test_a_large_pool_pads_little_and_batches_are_not_in_the_order_of_length() -> None:
    seed = 17
    draw = np.random.default_rng(seed)
    lines = join_lines([[2] * n for n in draw.integers(1, 60, 3000)], 10)
    source = source_of(lines, 16, length_pool=50)
    batches = [source.batch(0, index) for index in range(source.batches_per_epoch(0))]
    cells = sum(batch.ids_BT.numel() for batch in batches)
    assert source.num_targets / cells > 0.97, f"seed {seed}"
    widths = torch.tensor([float(batch.ids_BT.shape[1]) for batch in batches])
    places = torch.arange(len(batches), dtype=torch.float32)
    correlation = torch.corrcoef(torch.stack([widths, places]))[0, 1]
    assert abs(correlation) < 0.25, f"seed {seed}"


def test_a_selection_of_lines_is_batched_like_lines_of_its_own() -> None:
    lines = join_lines([[2], [3, 3], [4, 4, 4], [5]], 10)
    chosen = lines.select(np.array([3, 1]))
    batch = source_of(chosen, 8, order="stored").batch(0, 0)
    assert batch.ids_BT.tolist() == [[MARK, 5, PAD], [MARK, 3, 3]]


def test_no_lines_are_refused_and_a_batch_outside_the_epoch_is_a_fault() -> None:
    with pytest.raises(DataError, match="no line to learn from"):
        source_of(join_lines([], 10), 4)
    source = source_of(join_lines([[2]], 10), 4)
    for index in (-1, 1):
        with pytest.raises(IndexError):
            source.batch(0, index)
