"""A classifier's figures, against sums written out by hand."""

import math

import numpy as np
import pytest

from elman.evaluation.label_report import BaselineLabels, given_labels, label_report
from elman.text.label_set import LabelSet

ONE = LabelSet(("a", "b", "c"), (3, 2, 1))
SEVERAL = LabelSet(("a", "b"), (3, 2), "several")


def test_one_label_a_row_is_the_likeliest_and_costs_minus_its_log() -> None:
    probs_BC = np.array([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
    gold = [("a",), ("c",), ("b",), ("strange",)]
    usual = {"usual": BaselineLabels([("a",)] * 4, is_order_blind=True)}
    report = label_report(np.log(probs_BC), gold, ONE, baselines=usual)
    figures = report.to_json()
    assert (figures["num_right"], figures["num_rows"], figures["accuracy"]) == (1, 4, 0.25)
    assert report.num_known == 3
    want = -(math.log(0.7) + math.log(0.25) + math.log(0.3))
    assert report.nats_sum == pytest.approx(want, rel=1e-12)
    assert figures["nats_per_row"] == pytest.approx(want / 3, rel=1e-12)
    assert figures["unknown_labels"] == {"strange": 1}
    assert figures["calibration"]["nats_sum"] == pytest.approx(want, rel=1e-12)
    beside = figures["baselines"]["usual"]
    assert (beside["accuracy"], beside["is_order_blind"]) == (0.25, True)
    assert "confusion" not in beside


def test_several_labels_are_given_above_one_half_and_cost_every_yes_and_no() -> None:
    probs_BC = np.array([[0.9, 0.42], [0.2, 0.1], [0.5, 0.62]])
    gold = [("a", "b"), (), ("b",)]
    assert given_labels(np.log(probs_BC), SEVERAL) == [("a",), (), ("b",)]
    report = label_report(np.log(probs_BC), gold, SEVERAL, baselines={})
    yes_no = [0.9 * 0.42, 0.8 * 0.9, 0.5 * 0.62]
    assert report.nats_sum == pytest.approx(-sum(map(math.log, yes_no)), rel=1e-12)
    figures = report.to_json()
    assert figures["subset_accuracy"] == pytest.approx(2 / 3)
    # Six answers; only the no to b in the first row is wrong, of confidence 0.58.
    gaps = abs(2 - 1.8), abs(1 - 0.8), abs(1 - 0.5), abs(0 - 0.58), abs(1 - 0.62)
    assert figures["calibration"]["num_rows"] == 6
    assert figures["calibration"]["ece"] == pytest.approx(sum(gaps) / 6, rel=1e-12)


def test_a_row_with_a_label_that_training_had_not_has_no_nats() -> None:
    report = label_report(np.log([[0.5, 0.5]]), [("a", "x")], SEVERAL, baselines={})
    assert (report.num_known, report.nats_per_row) == (0, None)
