"""A small trained run, and evidence that is made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_conditions import SMALL, reference_texts

from elman.recipes.diagnosing.evidence import Evidence, evidence_of
from elman.recipes.diagnosing.trials import HEALTHY, Condition, found_in


@pytest.fixture(scope="session")
def stream_condition() -> Condition:
    """An LSTM over the built-in text."""
    return Condition("reference", reference_texts(20_000, 120_000), SMALL, 21)


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs lie."""
    return tmp_path_factory.mktemp("trials")


@pytest.fixture(scope="session")
def healthy_run(stream_condition: Condition, trials: Path) -> Path:
    """The run without a fault. Read it, do not change it."""
    found_in(stream_condition, HEALTHY, trials)
    return trials / stream_condition.name / HEALTHY


@pytest.fixture(scope="session")
def evidence(healthy_run: Path) -> Evidence:
    """What is known of it."""
    return evidence_of(healthy_run)


@pytest.fixture
def bare(evidence: Evidence) -> Evidence:
    """The same without metrics, text and passages, to be filled in by hand."""
    return replace(evidence, updates=(), validations=(), text=None, passages=None)
