import json
import math

import pytest

from elman.config.training_settings import TrainingSettings
from elman.training.selection import Mark, Selection, validation_interval


def mark(update: int, nats: float, training: float | None = 1.0, *, tokens: int = 10) -> Mark:
    return Mark(update, nats * tokens, tokens, training)


def test_means_are_compared_whatever_the_number_of_tokens() -> None:
    selection = Selection()
    assert selection.add(mark(1, 2.0, tokens=10))
    assert selection.add(mark(2, 1.5, tokens=1000))
    assert not selection.add(mark(3, 1.5, tokens=7))
    assert selection.best == mark(2, 1.5, tokens=1000)
    assert selection.num_without_better == 1


def test_nan_and_infinity_are_never_the_best() -> None:
    selection = Selection()
    assert not selection.add(mark(1, math.nan))
    assert not selection.add(mark(2, math.inf))
    assert selection.add(mark(3, 9.0))
    assert not selection.add(mark(4, math.nan))
    assert selection.best == mark(3, 9.0)


@pytest.mark.parametrize("nats", [0.1 + 0.2, math.inf, -math.inf])
def test_a_selection_survives_strict_json_exactly(nats: float) -> None:
    selection = Selection()
    selection.add(mark(1, 1 / 3, 0.1))
    selection.add(mark(2, nats, None))
    selection.checked_update = 2
    facts = json.loads(json.dumps(selection.to_json(), allow_nan=False))
    assert Selection.from_json(facts) == selection


def test_overfitting_is_one_sentence_with_its_numbers() -> None:
    selection = Selection()
    selection.add(mark(100, 1.5, 1.4))
    selection.add(mark(1200, 1.75, 0.8))
    assert selection.overfitting() == (
        "The model overfits: from update 100 to 1,200 the training loss fell from 1.4000 to "
        "0.8000 nats per prediction while the validation loss rose from 1.5000 to 1.7500."
    )


@pytest.mark.parametrize(
    ("validation", "training"),
    [(1.51, 0.8), (1.75, 1.4), (1.75, 1.9), (1.2, 0.8), (1.75, None)],
    ids=["hardly worse", "training stands", "both rise", "better", "training unknown"],
)
def test_no_overfitting_without_both_signs(validation: float, training: float | None) -> None:
    selection = Selection()
    selection.add(mark(100, 1.5, 1.4))
    selection.add(mark(200, validation, training))
    assert selection.overfitting() is None


def test_validation_comes_once_an_epoch_but_ten_times_a_run_or_as_set() -> None:
    automatic = TrainingSettings()
    assert validation_interval(automatic, 1000, 30) == 30
    assert validation_interval(automatic, 1000, 500) == 100
    assert validation_interval(automatic, 5, 500) == 1
    assert validation_interval(TrainingSettings(evaluate_every=7), 1000, 30) == 7
