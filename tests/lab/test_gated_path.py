"""The path through the memory: powers of its gate, and a changed equation is found."""

import math

import numpy as np
import pytest

from elman.cells.elman import ElmanCell
from elman.cells.lstm import LSTMCell, LSTMState
from elman.recipes.lab import checking, gated_path


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([gated_path.GATED_PATH])
    return {finding.claim.name: finding.verdict for finding in report.findings}


@pytest.mark.parametrize("bias", [0.0, 1.0, 5.0])
def test_what_is_left_of_the_memory_is_a_power_of_the_gate(bias: float) -> None:
    gate = 1.0 / (1.0 + math.exp(-bias))
    found = gated_path._path(LSTMCell(1, 1, forget_bias=bias), 0.0)
    np.testing.assert_allclose(found, [gate**t for t in range(1, 51)], rtol=1e-12)


def test_what_is_left_of_a_plain_state_is_a_power_of_its_weight() -> None:
    found = gated_path._path(ElmanCell(1, 1, bias="none"), 0.9)
    np.testing.assert_allclose(found, [0.9**t for t in range(1, 51)], rtol=1e-12)


def test_a_memory_that_is_forgotten_by_another_gate_turns_its_claim_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def combine(self, gates, state):  # type: ignore[no-untyped-def]
        c_BH = gates["input"] * state[1] + gates["forget"] * gates["candidate"]
        return LSTMState(gates["output"] * c_BH.tanh(), c_BH)

    assert set(verdicts().values()) == {"holds"}
    monkeypatch.setattr(LSTMCell, "combine", combine)
    assert verdicts() == {"004-16": "differs", "004-17": "holds"}


def test_a_gate_too_few_turns_the_share_of_parameters_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LSTMCell, "num_rows", property(lambda self: 3 * self.hidden_size))
    assert gated_path._share(3, 5) == "1"
