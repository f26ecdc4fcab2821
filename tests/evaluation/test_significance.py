"""The bootstrap against closed forms, a loop in plain Python and what it is known to cover."""

import json
import math

import numpy as np
import pytest

from elman.errors import DataError, SettingError, ShapeError
from elman.evaluation.ratios import wilson_interval
from elman.evaluation.significance import (
    bootstrap_interval,
    f1_of_sums,
    paired_bootstrap,
    ratio_of_sums,
)
from elman.evaluation.translation import bleu_of_sums, bleu_rows


def accuracy_rows(right: np.ndarray) -> np.ndarray:
    return np.stack([right, np.ones(len(right))], axis=1)


def test_equal_systems_do_not_differ() -> None:
    rows = accuracy_rows(np.arange(50) % 3 == 0)
    found = paired_bootstrap(rows, rows, ratio_of_sums, seed=0, num_resamples=500)
    assert (found.difference, found.interval.low, found.interval.high) == (0.0, 0.0, 0.0)
    assert (found.p_value, found.is_significant) == (1.0, False)


def test_a_system_that_is_always_better_differs() -> None:
    first = accuracy_rows(np.zeros(40))
    second = accuracy_rows(np.ones(40))
    found = paired_bootstrap(first, second, ratio_of_sums, seed=1, num_resamples=999)
    assert (found.first, found.second, found.difference) == (0.0, 1.0, 1.0)
    assert found.p_value == pytest.approx(2 / 1000)
    assert found.is_significant
    turned = paired_bootstrap(second, first, ratio_of_sums, seed=1, num_resamples=999)
    assert (turned.difference, turned.p_value) == (-1.0, found.p_value)


def test_the_interval_is_as_wide_as_the_normal_one_of_paired_differences() -> None:
    seed = 2
    print("seed", seed)
    generator = np.random.default_rng(seed)
    first, second = generator.random(2000) < 0.80, generator.random(2000) < 0.83
    found = paired_bootstrap(accuracy_rows(first), accuracy_rows(second), ratio_of_sums, seed=3)
    differences = second.astype(float) - first.astype(float)
    half = 1.959964 * differences.std() / math.sqrt(2000)
    # 10,000 resamples place a quantile within some 2 % of the width.
    assert found.interval.low == pytest.approx(differences.mean() - half, abs=0.06 * half)
    assert found.interval.high == pytest.approx(differences.mean() + half, abs=0.06 * half)
    assert found.interval.method == "bootstrap over rows, percentile"


def test_pairing_makes_the_interval_narrower_where_systems_err_together() -> None:
    generator = np.random.default_rng(4)
    right = generator.random(500) < 0.7
    better = right | (generator.random(500) < 0.05)
    paired = paired_bootstrap(accuracy_rows(right), accuracy_rows(better), ratio_of_sums, seed=5)
    apart = paired_bootstrap(
        accuracy_rows(right), accuracy_rows(generator.permutation(better)), ratio_of_sums, seed=5
    )
    assert paired.difference == pytest.approx(apart.difference)
    width = [found.interval.high - found.interval.low for found in (paired, apart)]
    assert width[0] < 0.5 * width[1]
    assert paired.p_value < apart.p_value


def test_resamples_are_the_readable_loop() -> None:
    counts = np.random.default_rng(6).integers(0, 9, size=(7, 3)).astype(float)
    interval = bootstrap_interval(counts, f1_of_sums, seed=7, num_resamples=400)
    generator = np.random.default_rng(7)
    figures = []
    for _ in range(400):
        right, gold, predicted = counts[generator.integers(0, 7, size=7)].sum(axis=0)
        figures.append(2 * right / (gold + predicted))
    low, high = np.quantile(figures, [0.025, 0.975])
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))


def test_cutting_the_work_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = accuracy_rows(np.arange(30) % 4 == 0)
    other = accuracy_rows(np.arange(30) % 3 == 0)
    whole = paired_bootstrap(rows, other, ratio_of_sums, seed=8, num_resamples=300)
    monkeypatch.setattr("elman.evaluation.significance._DRAWS_AT_ONCE", 100)
    assert paired_bootstrap(rows, other, ratio_of_sums, seed=8, num_resamples=300) == whole
    another = paired_bootstrap(rows, other, ratio_of_sums, seed=9, num_resamples=300)
    assert another.interval != whole.interval


def test_one_system_of_independent_rows_has_nearly_wilsons_interval() -> None:
    right = np.arange(1000) < 730
    wilson = wilson_interval(730, 1000)
    assert wilson is not None
    found = bootstrap_interval(accuracy_rows(right), ratio_of_sums, seed=10)
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=0.003)


def test_tokens_of_sentences_have_a_wider_interval_than_independent_ones() -> None:
    # Each sentence of 20 tokens is right or wrong as a whole.
    rows = np.array([[20.0 * (number % 5 > 0), 20.0] for number in range(100)])
    found = bootstrap_interval(rows, ratio_of_sums, seed=11)
    wilson = wilson_interval(1600, 2000)
    assert wilson is not None
    assert found.high - found.low > 3 * (wilson.high - wilson.low)


def test_bleu_can_be_compared() -> None:
    references = [["the cat sat on the mat ."], ["there is a big dog here ."]] * 10
    first = ["the cat sat on a mat .", "there is a big dog ."] * 10
    second = ["the cat sat on the mat .", "there is a big dog here ."] * 10
    found = paired_bootstrap(
        bleu_rows(first, references), bleu_rows(second, references), bleu_of_sums, seed=12
    )
    assert found.second == pytest.approx(100.0)
    assert found.is_significant
    assert json.dumps(found.to_json(), allow_nan=False)


def test_undefined_resamples_are_left_out_and_counted() -> None:
    rows = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    found = paired_bootstrap(rows, rows, ratio_of_sums, seed=13, num_resamples=1000)
    # A resample without the first row: (2/3)³ = 0.296 of them.
    assert found.num_undefined == pytest.approx(296, abs=50)
    assert found.to_json()["num_undefined"] == found.num_undefined


def test_what_cannot_be_compared_is_refused() -> None:
    rows = accuracy_rows(np.ones(3))
    with pytest.raises(ShapeError, match=r"got \[3, 2\] and \[2, 2\]"):
        paired_bootstrap(rows, rows[:2], ratio_of_sums, seed=0)
    with pytest.raises(ShapeError, match="row, count"):
        bootstrap_interval(rows[:, 0], ratio_of_sums, seed=0)
    with pytest.raises(DataError, match=r"undefined on these rows.*got 0 rows"):
        paired_bootstrap(rows[:0], rows[:0], ratio_of_sums, seed=0)
    with pytest.raises(DataError, match="undefined on these rows"):
        bootstrap_interval(np.zeros((4, 2)), ratio_of_sums, seed=0)
    with pytest.raises(DataError, match="must be finite"):
        bootstrap_interval([[math.inf, 1.0]], ratio_of_sums, seed=0)
    with pytest.raises(SettingError, match="num_resamples"):
        paired_bootstrap(rows, rows, ratio_of_sums, seed=0, num_resamples=0)
    with pytest.raises(SettingError, match="between 0 and 1"):
        paired_bootstrap(rows, rows, ratio_of_sums, seed=0, level=1.0)
