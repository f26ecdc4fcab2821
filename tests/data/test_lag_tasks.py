"""Tasks with a long lag: the answer is what the task says, a batch a function of its place."""

import numpy as np
import pytest
import torch

from elman.data.adding import adding_batch
from elman.data.copying import (
    BLANK,
    MARK,
    NUM_COPIED,
    NUM_COPY_SYMBOLS,
    NUM_LETTERS,
    copying_batch,
)
from elman.data.drawn import BATCHES_PER_EPOCH, DrawnBatches
from elman.data.first_token import NUM_CLUES, NUM_SYMBOLS, first_token_batch


def chance(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("length", [1, 2, 10, 100])
def test_the_first_token_is_the_label_and_no_other_is_a_clue(length: int) -> None:
    ids_BT, lengths_B, labels_BC = first_token_batch(50, length, chance(1))
    assert ids_BT.shape == (50, length)
    assert lengths_B.tolist() == [length] * 50
    assert labels_BC.sum(dim=1).tolist() == [1.0] * 50
    for row, first in enumerate(ids_BT[:, 0].tolist()):
        assert labels_BC[row, first] == 1.0
    assert {0, 1} == set(ids_BT[:, 0].tolist())
    assert not (ids_BT[:, 1:] < NUM_CLUES).any()
    assert int(ids_BT.max()) < NUM_SYMBOLS


def test_what_is_copied_is_read_first_and_written_last() -> None:
    ids_BT, targets_BT, lengths_B, continues = copying_batch(20, 7, chance(2))
    assert ids_BT.shape == targets_BT.shape == (20, 27)
    assert lengths_B.tolist() == [27] * 20
    assert not continues
    assert torch.equal(ids_BT[:, :NUM_COPIED], targets_BT[:, -NUM_COPIED:])
    assert int(ids_BT[:, :NUM_COPIED].max()) < NUM_LETTERS
    assert (targets_BT[:, :-NUM_COPIED] == BLANK).all()
    marks = (ids_BT == MARK).nonzero()[:, 1].tolist()
    assert marks == [NUM_COPIED + 6] * 20  # the ten last steps are for writing
    assert (ids_BT[:, NUM_COPIED : NUM_COPIED + 6] == BLANK).all()
    assert (ids_BT[:, NUM_COPIED + 7 :] == BLANK).all()
    assert max(BLANK, MARK) < NUM_COPY_SYMBOLS


def test_one_number_of_each_half_is_marked_and_their_sum_is_the_answer() -> None:
    values_BTF, lengths_B, sums_B = adding_batch(200, 11, chance(3))
    assert lengths_B.tolist() == [11] * 200
    assert values_BTF.dtype == sums_B.dtype == torch.float32
    assert (values_BTF[:, :5, 1].sum(dim=1) == 1.0).all()
    assert (values_BTF[:, 5:, 1].sum(dim=1) == 1.0).all()
    for row, total in zip(values_BTF.tolist(), sums_B.tolist(), strict=True):
        assert total == pytest.approx(sum(number for number, mark in row if mark), abs=1e-6)


def test_always_answering_one_has_an_error_of_a_sixth() -> None:
    sums_B = adding_batch(20_000, 10, chance(4)).sums_B.double()
    assert ((sums_B - 1.0) ** 2).mean().item() == pytest.approx(1 / 6, abs=0.005)


def test_a_batch_is_a_function_of_seed_epoch_and_index() -> None:
    def source(seed: int) -> DrawnBatches[object]:
        return DrawnBatches(lambda draw: first_token_batch(8, 20, draw), seed=seed)  # type: ignore[arg-type,return-value]

    def ids(seed: int, epoch: int, index: int) -> torch.Tensor:
        found: torch.Tensor = source(seed).batch(epoch, index).inputs  # type: ignore[attr-defined]
        return found

    assert torch.equal(ids(1, 0, 5), ids(1, 0, 5))
    others = [ids(2, 0, 5), ids(1, 1, 5), ids(1, 0, 6)]
    assert not any(torch.equal(ids(1, 0, 5), other) for other in others)
    assert source(1).batches_per_epoch(3) == BATCHES_PER_EPOCH
    assert source(1).num_targets == source(1).num_sequences == 8 * BATCHES_PER_EPOCH
    with pytest.raises(IndexError):
        source(1).batch(0, BATCHES_PER_EPOCH)
