"""Borders of windows and clipping: faults in truncation and clipping turn the claim."""

from collections.abc import Iterable

import pytest
from torch import nn

from elman.recipes.lab import window_borders
from elman.recipes.lab.checking import run_experiments
from elman.training import truncation
from elman.training.clipping import GradientNorm


def verdict_of_borders() -> str:
    (finding,) = run_experiments([window_borders.WINDOW_BORDERS]).findings
    return finding.verdict


def test_a_detached_state_that_keeps_its_gradient_turns_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert verdict_of_borders() == "holds"
    monkeypatch.setattr(truncation, "_map", lambda function, state: state)
    assert verdict_of_borders() == "differs"


def test_clipping_number_by_number_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def each(parameters: Iterable[nn.Parameter], max_norm: float) -> GradientNorm:
        for parameter in parameters:
            if max_norm and parameter.grad is not None:
                parameter.grad.clamp_(-max_norm, max_norm)
        return GradientNorm(1.0, True, 1.0)

    monkeypatch.setattr(window_borders, "measure_gradients", each)
    assert verdict_of_borders() == "differs"


def test_credit_falls_by_half_with_every_step_back() -> None:
    assert window_borders._credits(6, 0.0) == [2.0**-k for k in (5, 4, 3, 2, 1, 0)]
