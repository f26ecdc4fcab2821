"""Several labels a text against scikit-learn's multilabel figures and values by hand."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from elman.errors import DataError, ShapeError
from elman.evaluation.label_sets import label_set_scores

LABELS = "abcd"
set_rows = st.lists(
    st.tuples(st.sets(st.sampled_from(LABELS)), st.sets(st.sampled_from(LABELS))),
    min_size=1,
    max_size=25,
)


def test_sets_of_labels_by_hand() -> None:
    scores = label_set_scores([["a", "b"], ["c"], [], ["a"]], [["b", "a"], ["c", "a"], [], []])
    assert (scores.num_rows, scores.num_exact, scores.subset_accuracy) == (4, 2, 0.5)
    assert scores.num_wrong_decisions == 2
    assert scores.hamming_loss == pytest.approx(2 / 12)
    assert scores.averages.total.f1 == pytest.approx(2 * 3 / (4 + 4))
    assert scores.averages.macro_f1 == pytest.approx((2 * 1 / 4 + 1 + 1) / 3)
    assert scores.subset_accuracy_interval is not None


@given(set_rows)
def test_every_figure_is_that_of_scikit_learn(rows: list[tuple[set[str], set[str]]]) -> None:
    gold, predicted = [one for one, _ in rows], [other for _, other in rows]
    scores = label_set_scores(gold, predicted, labels=LABELS)
    theirs = [np.array([[c in row for c in LABELS] for row in side]) for side in (gold, predicted)]
    assert scores.subset_accuracy == pytest.approx(metrics.accuracy_score(*theirs))
    assert scores.hamming_loss == pytest.approx(metrics.hamming_loss(*theirs))
    for average, ours in (
        ("micro", scores.averages.total.f1),
        ("macro", scores.averages.macro_f1),
    ):
        expected = metrics.f1_score(*theirs, average=average, zero_division=np.nan)
        assert ours == pytest.approx(None if math.isnan(expected) else expected)
    assert json.dumps(scores.to_json(), allow_nan=False)


def test_unknown_gold_labels_count_as_missed_and_are_listed() -> None:
    scores = label_set_scores([["new", "a"]], [["a"]], labels=["a"])
    assert scores.unknown_labels == (("new", 1),)
    assert scores.averages.total.recall == 0.5
    assert scores.to_json()["unknown_labels"] == {"new": 1}


def test_mistakes_of_the_caller_are_told() -> None:
    with pytest.raises(DataError, match="row 2 must be a collection; got 'pos'"):
        label_set_scores([["pos"], "pos"], [["pos"], ["pos"]])
    with pytest.raises(DataError, match="not among the labels"):
        label_set_scores([["a"]], [["z"]], labels=["a"])
    with pytest.raises(DataError, match="given twice; got 'a'"):
        label_set_scores([["a"]], [["a"]], labels=["a", "a"])
    with pytest.raises(ShapeError, match="0 and 1 rows"):
        label_set_scores([], [["a"]])
