"""Averages beside exact fractions of bits; a divisor that is off by one is noticed."""

import math
from fractions import Fraction

import pytest
from planted_faults import verdicts

from elman.losses import LossSum
from elman.recipes.lab import batch_means
from elman.recipes.lab.batch_means import BATCH_MEANS


@pytest.mark.parametrize("lines", [["aaa", "b", "ab"], ["b", "b"], ["a", "aaaaaa", "bb", "ab"]])
def test_every_loss_is_a_whole_number_of_bits(lines: list[str]) -> None:
    losses = batch_means._losses(lines, 2)
    for place, loss in enumerate(losses):
        rows = lines[2 * place : 2 * place + 2]
        bits = sum(row.count("a") + 3 * row.count("b") + 2 for row in rows)
        count = sum(len(row) + 1 for row in rows)
        want = float(Fraction(bits, count)) * math.log(2.0)
        assert loss.mean().item() == pytest.approx(want, abs=1e-12)


def test_a_divisor_off_by_one_turns_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LossSum, "mean", lambda self: self.nats / (self.count + 1))
    assert set(verdicts(BATCH_MEANS).values()) == {"differs"}
