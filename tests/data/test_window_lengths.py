"""Windows of lengths by chance: every target once, as the seed says, and no two epochs alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.data.streams import LEAST_WINDOW, StreamBatches, window_ends


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    st.integers(1, 500),
    st.integers(1, 80),
    st.floats(0.1, 40.0),
    st.integers(0, 2**40),
    st.integers(0, 9),
)
def test_windows_fill_the_lane_and_are_none_too_short(
    lane_length: int, window: int, deviation: float, seed: int, epoch: int
) -> None:
    ends = window_ends(lane_length, window=window, deviation=deviation, seed=seed, epoch=epoch)
    lengths = np.diff(ends, prepend=0)
    assert ends[-1] == lane_length
    assert lengths.min() >= 1
    assert (lengths[:-1] >= min(LEAST_WINDOW, window)).all()


def test_lengths_are_around_the_window_and_one_in_twenty_around_half_of_it() -> None:
    ends = window_ends(700_000, window=70, deviation=5.0, seed=3, epoch=0)
    lengths = np.diff(ends, prepend=0)
    short = lengths < 52
    assert short.mean() == pytest.approx(0.05, abs=0.01)
    assert lengths[~short].mean() == pytest.approx(69.5, abs=0.5)
    assert lengths[~short].std() == pytest.approx(5.0, abs=0.3)


def test_every_target_comes_once_and_epochs_differ() -> None:
    ids = np.arange(1000, dtype=np.int32)
    batches = StreamBatches(ids, batch_size=3, window=20, deviation=4.0, seed=7)
    seen = []
    for epoch in (0, 1):
        told: list[int] = []
        for index in range(batches.batches_per_epoch(epoch)):
            batch = batches.batch(epoch, index)
            assert batch.continues == (index > 0)
            for row, length in zip(batch.targets_BT, batch.lengths_B.tolist(), strict=True):
                told += row[:length].tolist()
        assert sorted(told) == list(range(1, 1000))
        seen.append([batches.batch(epoch, 0).ids_BT.shape[1], batches.batch(epoch, 1).ids_BT.shape])
    assert seen[0] != seen[1]
    again = StreamBatches(ids, batch_size=3, window=20, deviation=4.0, seed=7)
    assert np.array_equal(again.batch(1, 2).ids_BT, batches.batch(1, 2).ids_BT)
