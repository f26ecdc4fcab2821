"""What readers see: a direction or a reset that does not work turns the claim about it."""

import pytest

from elman.layers import stack
from elman.recipes.lab import contexts_of_a_token
from elman.recipes.lab.checking import run_experiments
from elman.training.truncation import carry


def verdicts() -> dict[str, str]:
    report = run_experiments([contexts_of_a_token.CONTEXTS_OF_A_TOKEN])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_a_backward_reader_that_reads_forward_turns_what_both_ways_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stack, "_DIRECTIONS", ("forward", "forward"))
    found = verdicts()
    assert [found[name] for name in ("001-43", "001-44")] == ["differs"] * 2


def test_a_reset_that_carries_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts_of_a_token, "reset", carry)
    found = verdicts()
    assert found["001-48"] == "differs"
    assert found["001-45"] == "holds"


def test_a_text_turned_round_begins_with_its_end() -> None:
    assert contexts_of_a_token._turned((4, 5, 6)) == [6, 5, 4]
