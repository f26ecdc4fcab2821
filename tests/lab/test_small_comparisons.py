"""The comparisons over seeds: intervals against SciPy, and one short training of each kind."""

import math
from collections.abc import Sequence

import pytest

from elman.config.model_settings import ModelSettings
from elman.recipes.lab import checking, small_comparisons


def test_a_short_training_is_better_than_chance_and_the_same_again() -> None:
    text = small_comparisons._text("word", 4_000)
    assert len(text.held_out_N) == 3_000
    settings = ModelSettings(embedding_size=12, hidden_size=12, tie_weights=True)
    first, again = (small_comparisons._best_nats(text, settings, 1, 30) for _ in range(2))
    assert first == again
    assert first < math.log(text.vocabulary_size)


def test_a_gain_that_seeds_do_not_show_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def gains(num_words: int, seeds: Sequence[int]) -> list[float]:
        return [0.1 * (-1) ** seed for seed in seeds]

    monkeypatch.setattr(small_comparisons, "_gains", gains)
    monkeypatch.setattr(small_comparisons, "_ratios", lambda seeds: [1.2 for _ in seeds])
    report = checking.run_experiments([small_comparisons.SMALL_COMPARISONS])
    assert {finding.verdict for finding in report.findings} == {"differs"}
