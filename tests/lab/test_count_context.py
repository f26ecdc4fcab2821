"""Counts against counting by hand, and a model that looks further back than it says."""

from typing import Any

import pytest

from elman.models.ngram.counting import GramCounts, count_grams
from elman.recipes.lab import count_context
from elman.recipes.lab.checking import run_experiments


def test_the_trigram_has_the_shares_that_the_sentences_have() -> None:
    numbers = count_context._numbers()
    model = count_context._counted("none", numbers, order=3)
    found = count_context._probabilities(model, "the cat slept", numbers)
    # After "cat slept" stand: and, and, sat.
    assert found[numbers["and"]].item() == pytest.approx(2 / 3)
    assert found[numbers["sat"]].item() == pytest.approx(1 / 3)


def test_a_trigram_that_counts_four_words_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(where: Any, *, order: int, vocabulary_size: int) -> tuple[GramCounts, ...]:
        return count_grams(where, order=order + 1, vocabulary_size=vocabulary_size)

    monkeypatch.setattr(count_context, "count_grams", longer)
    report = run_experiments([count_context.COUNT_CONTEXT])
    assert {finding.verdict for finding in report.findings} == {"differs"}
