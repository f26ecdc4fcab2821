"""Norms of powers and slopes of tanh, against NumPy and closed forms."""

import numpy as np
import pytest
import torch

from elman.cells.elman import ElmanCell, ElmanState
from elman.recipes.lab import checking, norm_of_products


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([norm_of_products.NORM_OF_PRODUCTS])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_norms_are_those_of_the_powers_of_the_matrix() -> None:
    seed = 5
    print(f"seed {seed}")
    matrix = np.random.default_rng(seed).normal(0.0, 0.5, (4, 4))
    found = norm_of_products._norms(torch.from_numpy(matrix), 12)
    told = [np.linalg.norm(np.linalg.matrix_power(matrix, t), 2) for t in range(1, 13)]
    np.testing.assert_allclose(found, told, rtol=1e-12)


def test_slopes_are_one_less_the_square_of_tanh_times_the_weight() -> None:
    points = torch.linspace(-3.0, 3.0, 7, dtype=torch.float64)
    told = 2.0 * (1.0 - np.tanh(2.0 * points.numpy()) ** 2)
    for slopes in (
        norm_of_products._slopes(points, weight=2.0),
        norm_of_products._recurrent_slopes(points, 2.0),
    ):
        np.testing.assert_allclose(slopes, told, rtol=1e-9)


def test_a_cell_that_adds_its_old_state_turns_both_claims_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = ElmanCell.combine

    def combine(self, gates, state):  # type: ignore[no-untyped-def]
        return ElmanState(whole(self, gates, state)[0] + 0.1 * state[0])

    assert all(verdict.startswith("holds") for verdict in verdicts().values())
    monkeypatch.setattr(ElmanCell, "combine", combine)
    assert set(verdicts().values()) == {"differs"}
