"""Rows with labels, texts and series alike, in batches."""

from collections import Counter

import numpy as np
import pytest
import torch

from elman.data.examples import IdRows, LabelBatches, SeriesRows
from elman.data.order import EpochOrder
from elman.data.series_array import SeriesArray, write_series_array
from elman.data.token_array import join_lines
from elman.errors import DataError

TEXTS = [[3, 4, 5], [4], [], [5, 5, 5, 5], [3], [4, 3], [5], [3, 3, 3], [4, 5], [5, 4, 3]]
LABELS = [[0], [1], [0, 2], [2], [], [1], [0], [2], [1], [0]]


def batches(batch_size: int, order: str = "shuffled") -> LabelBatches:
    rows = IdRows(join_lines(TEXTS, 6), 0)
    epochs = EpochOrder(rows.lengths_N, batch_size=batch_size, seed=1, order=order)
    return LabelBatches(rows, join_lines(LABELS, 3), 3, epochs)


@pytest.mark.parametrize("batch_size", [3, 4, 64])
def test_every_epoch_has_every_row_once_whatever_the_batch_size(batch_size: int) -> None:  # B03
    source = batches(batch_size)
    for epoch in range(3):
        sizes, rows = [], Counter()
        for index in range(source.batches_per_epoch(epoch)):
            batch = source.batch(epoch, index)
            sizes.append(batch.num_targets)
            for ids, length in zip(batch.inputs.tolist(), batch.lengths_B.tolist(), strict=True):
                rows[tuple(ids[:length])] += 1
        assert sum(sizes) == 10
        assert sorted(sizes, reverse=True)[:-1] == [batch_size] * (len(sizes) - 1)
        assert rows == Counter(map(tuple, TEXTS))


def test_labels_stay_with_their_rows_and_padding_stands_behind() -> None:
    source = batches(4, "stored")
    first = source.batch(0, 0)
    assert first.inputs.tolist() == [[3, 4, 5, 0], [4, 0, 0, 0], [0, 0, 0, 0], [5, 5, 5, 5]]
    assert first.lengths_B.tolist() == [3, 1, 0, 4]
    assert first.labels_BC.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert not first.continues
    assert source.batch(0, 1).labels_BC[0].tolist() == [0, 0, 0]


def test_series_are_stored_and_batched_as_they_are(tmp_path) -> None:
    rows = [np.array([1.5, -2.0]), np.array([]), np.array([0.25, 0.5, 3.0])]
    stored = write_series_array(tmp_path / "values", (row.astype(np.float32) for row in rows))
    assert [stored.series(number).tolist() for number in range(3)] == [row.tolist() for row in rows]
    inputs, lengths_B = SeriesRows(stored).padded(np.array([2, 1, 0]))
    assert inputs.dtype == torch.float32
    assert inputs.squeeze(2).tolist() == [[0.25, 0.5, 3.0], [0, 0, 0], [1.5, -2.0, 0]]
    assert lengths_B.tolist() == [3, 0, 2]
    again = SeriesArray(np.array([1.5, -2.0, 0.25, 0.5, 3.0], np.float32), np.array([2, 0, 3]))
    assert again.digest() == stored.digest()
    other = SeriesArray(np.array([1.5, -2.0, 0.25, 0.5, 3.0], np.float32), np.array([2, 1, 2]))
    assert other.digest() != stored.digest()
    with pytest.raises(DataError, match="add up"):
        SeriesArray(np.zeros(3, np.float32), np.array([2]))


def test_no_series_at_all_has_an_array_too(tmp_path) -> None:
    assert len(write_series_array(tmp_path / "values", []).values_N) == 0
