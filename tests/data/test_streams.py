"""Lanes of a stream: every target once, in the right place, whatever the sizes."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.data.batches import BatchSource, TokenBatch
from elman.data.streams import StreamBatches, fit_stream
from elman.data.token_array import TokenArray
from elman.errors import DataError, SettingError

sizes = st.tuples(st.integers(2, 120), st.integers(1, 9), st.integers(1, 40))


def epoch_of(source: BatchSource, epoch: int = 0) -> list[TokenBatch]:
    return [source.batch(epoch, index) for index in range(source.batches_per_epoch(epoch))]


def lanes_of(batches: list[TokenBatch]) -> list[list[tuple[int, int]]]:
    """The (input, target) pairs of each lane in the order in which they are read."""
    lanes: list[list[tuple[int, int]]] = [[] for _ in batches[0].lengths_B]
    for batch in batches:
        for lane, length in enumerate(batch.lengths_B.tolist()):
            inputs, targets = batch.ids_BT[lane, :length], batch.targets_BT[lane, :length]
            lanes[lane] += zip(inputs.tolist(), targets.tolist(), strict=True)
    return lanes


def test_one_to_twenty_four_in_four_lanes_reads_six_by_four() -> None:
    source = StreamBatches(np.arange(1, 25), batch_size=4, window=3)
    first, second = epoch_of(source)
    assert first.ids_BT.T.tolist() == [[1, 7, 13, 19], [2, 8, 14, 20], [3, 9, 15, 21]]
    assert first.targets_BT.T.tolist() == [[2, 8, 14, 20], [3, 9, 15, 21], [4, 10, 16, 22]]
    assert first.num_targets == 12
    assert not first.continues
    # The common rule keeps 20 of the 23 targets; here all are kept and the last lane is one short.
    assert second.ids_BT.T.tolist() == [[4, 10, 16, 22], [5, 11, 17, 23], [6, 12, 18, 0]]
    assert second.targets_BT.T.tolist() == [[5, 11, 17, 23], [6, 12, 18, 24], [7, 13, 19, 0]]
    assert second.lengths_B.tolist() == [3, 3, 3, 2]
    assert second.continues
    assert first.num_targets + second.num_targets == source.num_targets == 23


@settings(derandomize=True, max_examples=300, deadline=None)
@given(sizes, st.booleans())
def test_every_id_but_the_first_is_a_target_once_with_its_predecessor_as_input(
    sizes: tuple[int, int, int], marked: bool
) -> None:
    num_ids, batch_size, window = sizes
    batch_size = min(batch_size, num_ids - 1)
    ids = np.arange(1000, 1000 + num_ids)
    mark = 7 if marked else None
    source = StreamBatches(ids, batch_size=batch_size, window=window, boundary_id=mark)
    lanes = lanes_of(epoch_of(source))
    read = [7, *ids.tolist()] if marked else ids.tolist()
    assert [pair for lane in lanes for pair in lane] == list(itertools.pairwise(read))
    assert source.num_targets == len(read) - 1
    assert max(map(len, lanes)) - min(map(len, lanes)) <= 1
    assert len(lanes[0]) == source.lane_length == -(-source.num_targets // batch_size)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(sizes)
def test_padding_carries_id_zero_and_batches_own_contiguous_memory(
    sizes: tuple[int, int, int],
) -> None:
    num_ids, batch_size, window = sizes
    batch_size = min(batch_size, num_ids - 1)
    source = StreamBatches(np.arange(5, 5 + num_ids), batch_size=batch_size, window=window)
    for index, batch in enumerate(epoch_of(source)):
        assert batch.continues == (index > 0)
        for tensor in (batch.ids_BT, batch.targets_BT):
            assert tensor.is_contiguous()
            assert tensor.dtype == torch.int64
            padding_BT = torch.arange(tensor.shape[1]) >= batch.lengths_B[:, None]
            assert (tensor[padding_BT] == 0).all()
            assert (tensor[~padding_BT] > 0).all()


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 22])
@pytest.mark.parametrize("window", [1, 5, 100])
def test_twenty_three_tokens_are_twenty_two_targets_at_every_setting(
    batch_size: int, window: int
) -> None:
    ids = np.arange(23)
    plain = StreamBatches(ids, batch_size=batch_size, window=window)
    marked = StreamBatches(ids, batch_size=batch_size, window=window, boundary_id=99)
    assert sum(batch.num_targets for batch in epoch_of(plain)) == 22
    assert sum(batch.num_targets for batch in epoch_of(marked)) == 23


def test_a_batch_depends_on_its_number_alone() -> None:
    source = StreamBatches(np.arange(100), batch_size=3, window=7)
    forward = epoch_of(source)
    for index in reversed(range(len(forward))):
        for got, expected in zip(source.batch(4, index)[:3], forward[index][:3], strict=True):
            assert torch.equal(torch.as_tensor(got), torch.as_tensor(expected))
    for index in (-1, len(forward)):
        with pytest.raises(IndexError):
            source.batch(0, index)


def test_changing_a_batch_changes_neither_the_data_nor_its_targets() -> None:
    ids = np.arange(30, dtype=np.uint8)
    source = StreamBatches(TokenArray(ids), batch_size=2, window=5)
    batch = source.batch(0, 0)
    batch.ids_BT.fill_(9)
    assert batch.targets_BT[0].tolist() == [1, 2, 3, 4, 5]
    assert ids.tolist() == list(range(30))


def test_thirty_characters_in_fifty_lanes_of_fifty_train_with_a_notice() -> None:
    fit = fit_stream(30, batch_size=50, window=50)
    assert (fit.batch_size, fit.window) == (1, 29)
    assert fit.notice == (
        "the text has 29 tokens to predict, fewer than batch_size 50 × window 50: "
        "using batch_size 1 and window 29"
    )
    source = StreamBatches(np.arange(30), batch_size=fit.batch_size, window=fit.window)
    assert [batch.num_targets for batch in epoch_of(source)] == [29]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.integers(2, 3000), st.integers(1, 64), st.integers(1, 64))
def test_a_fitted_stream_fills_a_window_in_every_lane(
    num_ids: int, batch_size: int, window: int
) -> None:
    fit = fit_stream(num_ids, batch_size=batch_size, window=window)
    enough = num_ids - 1 >= batch_size * window
    assert (fit.notice == "") == enough
    assert fit.batch_size * fit.window <= num_ids - 1
    assert 1 <= fit.batch_size <= batch_size
    source = StreamBatches(np.zeros(num_ids, int), batch_size=fit.batch_size, window=fit.window)
    assert (source.batch(0, 0).lengths_B == fit.window).all()


def test_one_token_is_refused_and_a_start_mark_makes_it_enough() -> None:
    message = "a stream needs a token to predict; got 1 token; allowed: at least 2 tokens"
    with pytest.raises(DataError, match=message):
        fit_stream(1, batch_size=4, window=4)
    with pytest.raises(DataError, match=message):
        StreamBatches(np.zeros(1, int), batch_size=1, window=4)
    with pytest.raises(DataError, match="got 0 tokens; allowed: at least 1 token"):
        StreamBatches(np.zeros(0, int), batch_size=1, window=4, boundary_id=3)
    only = StreamBatches(np.array([5]), batch_size=1, window=4, boundary_id=3).batch(0, 0)
    assert (only.ids_BT.tolist(), only.targets_BT.tolist()) == ([[3]], [[5]])


def test_more_lanes_than_targets_are_refused_with_the_number_needed() -> None:
    with pytest.raises(DataError, match="got 30 tokens; allowed: at least 51 tokens"):
        StreamBatches(np.arange(30), batch_size=50, window=50)
    with pytest.raises(SettingError, match="window must be an int >= 1; got 0"):
        StreamBatches(np.arange(30), batch_size=5, window=0)
