"""One label a text: counts and ratios against scikit-learn, closed forms and the 0/0 rule."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn import metrics

from elman.errors import DataError, SettingError, ShapeError
from elman.evaluation.label_tables import class_table, confused_table, confusion_table
from elman.evaluation.labels import OTHERS, LabelScores, label_scores, majority_label
from elman.evaluation.ratios import ClassCounts, average_classes, wilson_interval

labelled_rows = st.lists(
    st.tuples(st.sampled_from("abcdé"), st.sampled_from("abcx")), min_size=1, max_size=40
)


def by_hand() -> LabelScores:
    return label_scores(["a", "a", "a", "b", "c"], ["a", "a", "b", "b", "a"])


def test_counts_and_ratios_are_those_worked_out_by_hand() -> None:
    scores = by_hand()
    assert (scores.num_rows, scores.num_right, scores.accuracy) == (5, 3, 0.6)
    assert scores.confusion().tolist() == [[2, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert scores.classes[0] == ClassCounts("a", num_gold=3, num_predicted=3, num_right=2)
    assert scores.classes[0].f1 == pytest.approx(2 / 3)
    assert (scores.classes[1].precision, scores.classes[1].recall) == (0.5, 1.0)
    assert scores.micro_f1 == pytest.approx(0.6)
    assert scores.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert scores.confused() == (("a", "b", 1), ("c", "a", 1))


def test_a_label_never_predicted_has_undefined_precision_and_an_f1_of_zero() -> None:
    scores = by_hand()
    assert scores.classes[2].precision is None
    assert (scores.classes[2].recall, scores.classes[2].f1) == (0.0, 0.0)
    assert scores.averages.num_undefined_precision == 1
    assert scores.averages.num_undefined_f1 == 0


def test_a_label_that_nowhere_occurs_is_left_out_of_the_mean_and_counted() -> None:
    scores = label_scores(["a", "b"], ["a", "a"], labels=["a", "b", "never"])
    assert scores.classes[2].f1 is None
    assert scores.macro_f1 == pytest.approx((2 / 3 + 0) / 2)
    report = json.loads(json.dumps(scores.to_json(), allow_nan=False))
    assert report["num_undefined_f1"] == report["num_undefined_recall"] == 1
    assert report["num_undefined_precision"] == 2
    assert report["classes"][2]["f1"] is None


@given(labelled_rows)
def test_every_figure_is_that_of_scikit_learn(rows: list[tuple[str, str]]) -> None:
    gold, predicted = [one for one, _ in rows], [other for _, other in rows]
    labels = list("abcdéx")
    scores = label_scores(gold, predicted, labels=labels)
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(gold, predicted))
    assert np.array_equal(
        scores.confusion(), metrics.confusion_matrix(gold, predicted, labels=labels)
    )
    theirs = metrics.precision_recall_fscore_support(
        gold, predicted, labels=labels, zero_division=np.nan
    )
    for number, counts in enumerate(scores.classes):
        ours = [counts.precision, counts.recall, counts.f1, counts.num_gold]
        expected = [None if math.isnan(column[number]) else column[number] for column in theirs]
        assert ours == pytest.approx(expected)
    for average, ours_f1 in (("macro", scores.macro_f1), ("micro", scores.micro_f1)):
        assert ours_f1 == pytest.approx(
            metrics.f1_score(gold, predicted, labels=labels, average=average, zero_division=np.nan)
        )
    # scikit-learn takes recall over gold labels alone for this one, as we do.
    classes = [label for label in labels if label in gold]
    recall = metrics.recall_score(gold, predicted, labels=classes, average="macro")
    assert scores.averages.macro_recall == pytest.approx(recall)


def test_no_rows_give_undefined_figures_and_no_fault() -> None:
    scores = label_scores([], [], labels=["a"])
    assert (scores.accuracy, scores.macro_f1, scores.accuracy_interval) == (None, None, None)
    assert json.dumps(scores.to_json(), allow_nan=False)
    assert confused_table(scores) == "no label was taken for another"


def test_a_gold_label_that_the_system_cannot_predict_is_wrong_and_listed() -> None:
    scores = label_scores(["new", "a", "new"], ["a", "a", "b"], labels=["b", "a"])
    assert scores.labels == ("b", "a", "new")
    assert scores.unknown_labels == (("new", 2),)
    assert (scores.num_rows, scores.num_right) == (3, 1)


def test_mistakes_of_the_caller_are_told() -> None:
    with pytest.raises(ShapeError, match="one row for each other; got 1 and 2 rows"):
        label_scores(["a"], ["a", "b"])
    with pytest.raises(DataError, match=r"not among the labels.*got 'z'"):
        label_scores(["a"], ["z"], labels=["a"])
    with pytest.raises(DataError, match="given twice; got 'a'"):
        label_scores(["a"], ["a"], labels=["a", "b", "a"])


@pytest.mark.parametrize(("right", "rows"), [(0, 5), (5, 5), (1, 3), (81, 263), (4511, 4500 + 11)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_wilson_interval_is_that_of_scipy(right: int, rows: int, level: float) -> None:
    ours = wilson_interval(right, rows, level=level)
    theirs = binomtest(right, rows).proportion_ci(confidence_level=level, method="wilson")
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0.0 <= ours.low <= right / rows <= ours.high <= 1.0
    assert ours.method == "Wilson score"


def test_wilson_interval_of_all_right_has_a_width() -> None:
    # n = 10 without a mistake: 1 / (1 + z²/10) with z = 1.959964
    interval = wilson_interval(10, 10)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(0.722467, abs=5e-7), 1.0)
    assert wilson_interval(0, 0) is None
    with pytest.raises(SettingError, match="between 0 and 1; got 95"):
        wilson_interval(1, 2, level=95)


def test_the_majority_label_is_the_most_frequent_and_of_several_the_first() -> None:
    assert majority_label(["b", "a", "b"]) == "b"
    assert majority_label(["b", "c", "a", "c", "b"]) == "b"
    with pytest.raises(DataError, match="no label to count"):
        majority_label([])


def test_narrowing_keeps_the_most_confused_labels_and_every_row() -> None:
    gold = ["a"] * 10 + ["b"] * 10 + ["c"] * 5 + ["d"] * 5
    predicted = ["a"] * 6 + ["b"] * 4 + ["b"] * 8 + ["a", "c"] + ["c"] * 5 + ["d"] * 5
    scores = label_scores(gold, predicted)
    narrow = scores.narrowed(3)
    assert narrow.labels == ("a", "b", OTHERS)
    assert narrow.confusion().tolist() == [[6, 4, 0], [1, 8, 1], [0, 0, 10]]
    assert narrow.num_rows == scores.num_rows
    assert scores.narrowed(4) is scores


def test_averages_of_no_classes_are_undefined() -> None:
    assert average_classes([]).macro_f1 is None
    assert average_classes([]).total.f1 is None


def test_tables_show_undefined_ratios_and_line_up_wide_characters() -> None:
    scores = label_scores(["名", "b\n", "b\n"], ["b\n", "b\n", "b\n"])
    assert class_table(scores.classes).split("\n") == [
        "label  precision  recall      F1  support  predicted",
        r"b\n       0.6667  1.0000  0.8000        2          3",
        "名             –  0.0000  0.0000        1          0",
    ]
    assert confusion_table(scores).split("\n") == [
        "   gold \\ predicted  1  2",
        "1  b\\n               2  ·",
        "2  名                1  ·",
    ]


def test_a_table_too_wide_for_the_terminal_becomes_a_list_of_confusions() -> None:
    labels = [f"label {number:03}" for number in range(150)]
    scores = label_scores([*labels, labels[0]], [*labels[1:], labels[0], labels[1]])
    table = confusion_table(scores, width=100).split("\n")
    assert table[0].startswith("150 labels are too many for a table of 100 columns")
    assert table[1].split() == ["gold", "predicted", "rows", "of", "gold"]
    assert table[2].split() == ["label", "000", "label", "001", "2", "100.0", "%"]
    assert table[-1] == "and 130 more kinds of confusion"
    long = label_scores(["x" * 90], ["x" * 90])
    assert "x" * 29 + "…" in class_table(long.classes)
