"""Two questions beside NumPy; a scale and a softmax over the wrong axis are noticed."""

import numpy as np
import pytest
import torch
from planted_faults import verdicts

from elman.layers import attention
from elman.layers.attention import Attended, SourceMemory
from elman.recipes.lab import retrieval
from elman.recipes.lab.retrieval import RETRIEVAL


@pytest.mark.parametrize("query", [(2.0, 0.0), (0.0, 2.0), (-1.0, 0.5)])
def test_what_is_asked_is_what_numpy_finds(query: tuple[float, float]) -> None:
    states = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    scores = states @ np.array(query)
    weights = np.exp(scores) / np.exp(scores).sum()
    found = retrieval._asked(query)
    np.testing.assert_allclose(found[0], scores - scores.min(), atol=1e-12)
    np.testing.assert_allclose(found[1], weights, atol=1e-12)
    np.testing.assert_allclose(found[2], weights @ states, atol=1e-12)


def _faulty(*, factor: float, axis: int) -> object:
    def retrieved(scores_BTS: torch.Tensor, memory: SourceMemory) -> Attended:
        padding_B1S = memory.padding_BS.unsqueeze(1)
        weights_BTS = (scores_BTS * factor).masked_fill(padding_B1S, -torch.inf).softmax(dim=axis)
        return Attended(weights_BTS @ memory.values_BSK, weights_BTS, None)

    return retrieved


def test_scores_that_are_divided_turn_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_retrieved", _faulty(factor=0.5**0.5, axis=2))
    found = verdicts(RETRIEVAL)
    assert found["000-21"] == found["000-22"] == found["000-25"] == "differs"
    assert found["000-20"] == "holds"


def test_a_softmax_over_targets_turns_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_retrieved", _faulty(factor=1.0, axis=1))
    found = verdicts(RETRIEVAL)
    assert found["000-20"] == found["000-24"] == "differs"
