"""Temperature: powers against NumPy, and draws that are wrong do not fit."""

import numpy as np
import pytest

from elman.decoding import filters, sampling
from elman.recipes.lab import checking, temperature


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([temperature.TEMPERATURE])
    return {finding.claim.name: finding.verdict for finding in report.findings}


@pytest.mark.parametrize("tau", [0.3, 1.0, 2.5])
def test_what_is_drawn_from_is_a_power_of_the_probabilities(tau: float) -> None:
    probs = np.exp(temperature._log_probs(4))
    powers = probs ** (1.0 / tau)
    found = temperature._drawn_at(np.log(probs), tau)
    np.testing.assert_allclose(found, powers / powers.sum(), rtol=1e-12)
    np.testing.assert_allclose(
        temperature._sum_of_weights(np.log(probs), tau), powers.sum(), rtol=1e-12
    )


def test_entropy_is_that_of_a_count_by_hand() -> None:
    assert temperature._entropy(np.array([0.5, 0.25, 0.25])) == pytest.approx(1.5 * np.log(2.0))
    assert temperature._entropy(np.array([1.0, 0.0])) == 0.0


def test_a_temperature_that_multiplies_turns_every_claim_but_the_sums_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert set(verdicts().values()) == {"holds"}
    monkeypatch.setattr(filters, "scale_temperature", lambda logits, t: (logits - max(logits)) * t)
    found = verdicts()
    assert found["004-20"] == found["004-36"] == found["004-38"] == "differs"


def test_draws_that_forget_the_total_of_the_weights_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def invert(logits_V: np.ndarray, uniform: float) -> int:
        cumulative = np.cumsum(np.exp(logits_V - logits_V.max()))
        return min(int(np.searchsorted(cumulative, uniform, side="right")), len(logits_V) - 1)

    monkeypatch.setattr(sampling, "invert_cdf", invert)
    assert temperature._misfit(1, 0.5) > 20.515
