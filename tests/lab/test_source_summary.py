"""From encoder to decoder: a bridge that hands nothing on, and parts of the long experiments."""

import pytest
import torch

from elman.layers.context import StateBridge
from elman.layers.stack import RecurrentStack, StackState
from elman.recipes.lab import own_prefixes, source_summary
from elman.recipes.lab.checking import run_experiments


def test_a_bridge_that_hands_zeros_on_turns_both_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: StateBridge, state: StackState, decoder: RecurrentStack) -> StackState:
        return decoder.zero_state(len(state[0][0]))

    monkeypatch.setattr(StateBridge, "forward", nothing)
    report = run_experiments([source_summary.SOURCE_SUMMARY])
    assert {finding.verdict for finding in report.findings} == {"differs"}


def test_copies_ask_for_what_was_read() -> None:
    batch = source_summary._Copies(1).batch(0, 3)
    again = source_summary._Copies(1).batch(0, 3)
    assert torch.equal(batch.source_BS, batch.target_BT)
    assert torch.equal(batch.source_BS, again.source_BS)
    assert 1 <= int(batch.source_BS.min()) <= int(batch.source_BS.max()) <= 8


def test_stretches_begin_with_the_start_mark() -> None:
    assert own_prefixes._spans((1, 2, 3, 4, 5)) == [(0, 1, 2, 3, 4), (1, 2, 3, 4, 5)]
    assert own_prefixes._spans((1, 2, 3)) == []
