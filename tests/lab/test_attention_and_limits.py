"""Attention and the limits of a state: as NumPy has them, and red where weights or steps differ."""

import numpy as np
import pytest
import torch
from torch import Tensor

from elman.cells.cell import Cell, CellState
from elman.layers import recurrence
from elman.layers.attention import Attended, MultiHeadAttention, SourceMemory
from elman.recipes.lab import direct_attention, facts_in_state
from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.direct_attention import DIRECT_ATTENTION
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.facts_in_state import FACTS_IN_STATE
from elman.recipes.lab.fixed_memory import FIXED_MEMORY


def differing(experiment: Experiment) -> list[str]:
    findings = run_experiments([experiment]).findings
    return [one.claim.name for one in findings if one.verdict == "differs"]


def test_the_vectors_after_attention_are_those_of_numpy() -> None:
    text, seed = ("river", "bank"), 2
    attention = direct_attention._attention(seed)
    weights = {name: one.detach().numpy() for name, one in attention.named_parameters()}
    table = direct_attention.Embedding(len(direct_attention._WORDS), 16).double()
    table.initialise(direct_attention.generator(seed, "sampling"))
    x = table.weight.detach().numpy()[[direct_attention._WORDS.index(word) for word in text]]
    q, k, v = (
        x @ weights[f"weight_{name}"].T + weights[f"bias_{name}"]
        for name in ("query", "key", "value")
    )
    e = np.exp(q @ k.T / 4.0)
    context = e / e.sum(axis=1, keepdims=True) @ v @ weights["weight_output"].T
    context += weights["bias_output"]
    np.testing.assert_allclose(direct_attention._mixed(text, seed).numpy(), context, atol=1e-12)


def test_weights_that_do_not_sum_to_one_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = MultiHeadAttention._read

    def halved(
        self: MultiHeadAttention, query_BTH: Tensor, memory: SourceMemory, coverage_BS: None
    ) -> Attended:
        context_BTC, weights_BTS, _ = true(self, query_BTH, memory, coverage_BS)
        return Attended(context_BTC, 0.5 * weights_BTS, None)

    monkeypatch.setattr(MultiHeadAttention, "_read", halved)
    assert differing(DIRECT_ATTENTION) == ["002-38"]


def test_attention_that_knows_of_places_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = MultiHeadAttention._prepared

    def faded(self: MultiHeadAttention, keys_BSK: Tensor, padding_BS: Tensor) -> SourceMemory:
        memory = true(self, keys_BSK, padding_BS)
        fading_S1 = 0.9 ** torch.arange(keys_BSK.shape[1], dtype=keys_BSK.dtype).unsqueeze(1)
        return memory._replace(values_BSK=memory.values_BSK * fading_S1)

    monkeypatch.setattr(MultiHeadAttention, "_prepared", faded)
    assert "002-38" in differing(DIRECT_ATTENTION)


def test_steps_that_do_not_wait_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_from_the_first(
        cell: Cell, x_BTE: Tensor, state: CellState, noise: None
    ) -> tuple[Tensor, CellState]:
        outputs = [cell.step(x_BE, state) for x_BE in x_BTE.unbind(1)]
        return torch.stack([output[0] for output in outputs], dim=1), outputs[-1]

    monkeypatch.setattr(recurrence, "_loop", all_from_the_first)
    assert differing(FIXED_MEMORY) == ["002-36"]


def test_a_short_list_of_facts_is_told_whole_and_a_long_one_is_not() -> None:
    short, long = (facts_in_state._of_state(facts, 11) for facts in (4, 96))
    assert short.share == 1.0
    assert short.capacity == pytest.approx(4.0, abs=0.05)
    assert long.share < 0.9
    assert long.capacity <= 32.0


def test_attention_that_averages_all_facts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_in_state, "_SHARPNESS", 0.0)
    assert differing(FACTS_IN_STATE) == ["002-46"]
