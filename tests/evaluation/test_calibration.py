"""ECE, Brier score and nats against closed forms and scikit-learn."""

import json
import math

import numpy as np
import numpy.typing as npt
import pytest
from sklearn import metrics

from elman.errors import DataError, SettingError, ShapeError
from elman.evaluation.calibration import Binning, calibration

Probs = npt.NDArray[np.float64]


def random_rows(seed: int, rows: int = 300) -> tuple[Probs, list[str]]:
    print("seed", seed)
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, 3)) * 2
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return log_probs, [str(label) for label in generator.choice(list("abc"), size=rows)]


def test_figures_by_hand() -> None:
    log_probs = np.log([[0.75, 0.25], [0.75, 0.25], [0.4, 0.6], [0.05, 0.95]])
    found = calibration(log_probs, ["x", "y", "y", "y"], ["x", "y"], num_bins=2)
    assert [(each.num_rows, each.num_right) for each in found.bins] == [(0, 0), (4, 3)]
    assert found.bins[0].confidence is found.bins[0].accuracy is None
    assert found.ece == pytest.approx(abs(3 - (0.75 + 0.75 + 0.6 + 0.95)) / 4)
    brier = 2 * (0.25**2 + 0.75**2 + 0.4**2 + 0.05**2)
    assert found.brier_sum == pytest.approx(brier)
    assert found.nats_sum == pytest.approx(-math.log(0.75 * 0.25 * 0.6 * 0.95))
    assert found.to_json()["ece_binning"] == "equal_width, 2 bins"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_brier_and_nats_are_those_of_scikit_learn(seed: int) -> None:
    log_probs, gold = random_rows(seed)
    found = calibration(log_probs, gold, list("abc"))
    theirs = metrics.brier_score_loss(
        gold, np.exp(log_probs), labels=list("abc"), scale_by_half=False
    )
    assert found.brier == pytest.approx(theirs, rel=1e-12)
    assert found.nats_per_row == pytest.approx(metrics.log_loss(gold, np.exp(log_probs)), rel=1e-9)


@pytest.mark.parametrize("binning", ["equal_width", "equal_mass"])
def test_the_order_of_rows_changes_nothing(binning: Binning) -> None:
    log_probs, gold = random_rows(3)
    log_probs[:200] = log_probs[0]  # many rows of one confidence
    order = np.random.default_rng(4).permutation(len(gold))
    first = calibration(log_probs, gold, list("abc"), binning=binning)
    second = calibration(
        log_probs[order], [gold[row] for row in order], list("abc"), binning=binning
    )
    counts = [[(each.num_rows, each.num_right) for each in found.bins] for found in (first, second)]
    assert counts[0] == counts[1]
    assert first.ece == pytest.approx(second.ece, rel=1e-12)
    assert sum(rows for rows, _ in counts[0]) == len(gold)


@pytest.mark.parametrize("seed", [5, 6])
def test_ece_is_the_slow_reading_of_its_definition(seed: int) -> None:
    log_probs, gold = random_rows(seed)
    total = 0.0
    for number in range(10):
        rows = [
            (max(row), "abc"[int(np.argmax(row))] == label)
            for row, label in zip(np.exp(log_probs), gold, strict=True)
            if number / 10 < max(row) <= (number + 1) / 10
        ]
        total += abs(sum(right for _, right in rows) - sum(value for value, _ in rows))
    found = calibration(log_probs, gold, list("abc"), num_bins=10)
    assert found.ece == pytest.approx(total / len(gold), rel=1e-12)


def test_bins_of_equal_mass_have_equal_numbers_of_rows() -> None:
    log_probs, gold = random_rows(7)
    found = calibration(log_probs, gold, list("abc"), binning="equal_mass", num_bins=10)
    assert [each.num_rows for each in found.bins] == [30] * 10
    few = calibration(log_probs[:2], gold[:2], list("abc"), binning="equal_mass", num_bins=10)
    assert [each.num_rows for each in few.bins] == [1, 1]


def test_certain_rows_fall_in_the_last_bin_and_impossible_ones_are_counted() -> None:
    log_probs = np.array([[0.0, -np.inf], [0.0, -np.inf]])
    found = calibration(log_probs, ["x", "y"], ["x", "y"])
    assert found.bins[-1].num_rows == 2
    assert (found.ece, found.brier, found.nats_sum) == (0.5, 1.0, math.inf)
    report = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (report["nats_is_infinite"], report["nats_per_row"]) == (True, None)
    assert report["num_impossible_rows"] == 1


def test_a_gold_label_without_a_column_is_wrong_and_has_no_nats() -> None:
    log_probs = np.log([[0.5, 0.5], [0.9, 0.1]])
    found = calibration(log_probs, ["new", "x"], ["x", "y"], num_bins=1)
    assert (found.num_rows, found.num_known) == (2, 1)
    assert found.nats_per_row == pytest.approx(-math.log(0.9))
    assert found.brier_sum == pytest.approx(1 + 0.5 + 2 * 0.01)
    assert found.bins[0].num_right == 1


def test_no_rows_give_undefined_figures() -> None:
    found = calibration(np.empty((0, 2)), [], ["x", "y"])
    assert (found.ece, found.brier, found.nats_per_row, found.bins) == (None, None, None, ())


def test_what_is_no_log_probability_is_refused() -> None:
    for wrong in ([[0.5, 0.5]], [[np.nan, 0.0]], [[np.inf, 0.0]]):
        with pytest.raises(DataError, match=r"sum to 1 in each row; got a sum of .* in row 1"):
            calibration(np.array(wrong), ["x"], ["x", "y"])
    with pytest.raises(ShapeError, match=r"got \[1, 2\] for 2 rows and 2 labels"):
        calibration(np.log([[0.5, 0.5]]), ["x", "y"], ["x", "y"])
    with pytest.raises(SettingError, match="num_bins"):
        calibration(np.log([[0.5, 0.5]]), ["x"], ["x", "y"], num_bins=0)
