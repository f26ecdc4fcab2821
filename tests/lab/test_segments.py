"""Segments: credit is a block triangle, context is not, and a missing cut is found."""

import pytest
import torch

from elman.recipes.lab import checking, segments
from elman.training.truncation import carry, detach


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([segments.SEGMENTS])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_credit_is_a_triangle_in_every_segment_and_nothing_beside_it() -> None:
    size, count = segments._SEGMENT, segments._SEGMENTS
    found = segments._credit(detach) > 0.0
    block = torch.tril(torch.ones(size, size, dtype=torch.bool))
    assert torch.equal(found, torch.block_diag(*[block] * count).bool())


def test_without_the_cut_credit_is_one_triangle_and_the_first_segment_is_the_same() -> None:
    cut, whole = segments._credit(detach), segments._credit(carry)
    assert torch.equal(whole > 0.0, torch.tril(torch.ones_like(whole)).bool())
    size = segments._SEGMENT
    torch.testing.assert_close(cut[:size], whole[:size])
    last = cut[-1] > 0.0
    torch.testing.assert_close(cut[-1][last], whole[-1][last])


def test_a_state_that_is_not_cut_turns_credit_and_the_second_pass_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert set(verdicts().values()) == {"holds"}
    monkeypatch.setattr("elman.training.truncation._map", lambda function, state: state)
    found = verdicts()
    assert found["004-15"] == found["004-33"] == "differs"


def test_a_step_that_forgets_the_clipping_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from elman.training import loop

    whole = loop.apply_gradients
    monkeypatch.setattr(loop, "apply_gradients", lambda optimiser, factor: whole(optimiser, 1.0))
    length, cosine = segments._clipped_step(0.01)
    assert length > 2.0
    assert cosine == pytest.approx(1.0)
