"""Tied weights and the order of rows: against counts, and copies are found."""

import pytest
from torch import nn

from elman import losses
from elman.layers.readout import Readout
from elman.models import reading_out
from elman.recipes.lab import checking, row_order, tying


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([tying.TYING, row_order.ROW_ORDER])
    return {finding.claim.name: finding.verdict for finding in report.findings}


@pytest.mark.parametrize(("width", "units"), [(8, 8), (8, 12)])
def test_what_tying_saves_is_the_matrix_less_its_projection(width: int, units: int) -> None:
    tied, untied = (tying._model(50, width, units, is_tied) for is_tied in (True, False))
    projection = 0 if width == units else width * units
    assert untied.parameter_count() - tied.parameter_count() == 50 * units - projection


def test_a_readout_that_copies_the_embedding_turns_its_claims_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def copied(hidden_size: int, size: int, *, tied: nn.Parameter | None = None) -> Readout:
        copy = None if tied is None else nn.Parameter(tied.clone())
        return Readout(hidden_size, size, tied=copy)

    assert set(verdicts().values()) == {"holds"}
    monkeypatch.setattr(reading_out, "Readout", copied)
    found = verdicts()
    assert found["004-25"] == found["004-27"] == "differs"


def test_a_loss_that_is_a_little_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = losses._sweep

    def sweep(*others):  # type: ignore[no-untyped-def]
        nats, uniform = whole(*others)
        return nats * (1.0 + 1e-9), uniform

    monkeypatch.setattr(losses, "_sweep", sweep)
    assert verdicts()["004-24"] == "differs"
