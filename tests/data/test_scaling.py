import numpy as np
import pytest

from elman.data.scaling import SeriesScaling
from elman.errors import DataError, RunError

ROWS = ([1.0, 2.0, 4.0], [], [7.0, -3.0])


def test_mean_and_deviation_are_those_of_all_numbers_together() -> None:
    scaling = SeriesScaling.of(ROWS)
    values = np.concatenate(ROWS)
    assert scaling.mean == pytest.approx(values.mean(), rel=1e-14)
    assert scaling.deviation == pytest.approx(values.std(), rel=1e-14)
    assert scaling.num_values == 5
    scaled = np.concatenate([scaling.scale(row) for row in ROWS])
    assert scaled.mean() == pytest.approx(0.0, abs=1e-6)
    assert scaled.std() == pytest.approx(1.0, rel=1e-6)


def test_large_numbers_with_small_differences_lose_nothing() -> None:
    values = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    scaling = SeriesScaling.of([values])
    assert scaling.deviation == pytest.approx(np.sqrt(1.25), rel=1e-12)


def test_a_constant_is_scaled_to_zero() -> None:
    scaling = SeriesScaling.of([[5.0, 5.0]])
    assert (scaling.deviation, scaling.scale([5.0, 6.0]).tolist()) == (1.0, [0.0, 1.0])


def test_the_file_gives_the_same_bits_back() -> None:
    scaling = SeriesScaling.of([[0.1, 0.2, 1 / 3]])
    assert SeriesScaling.from_json(scaling.to_json()) == scaling


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"schema": 2, "mean": 0, "deviation": 1, "num_training_values": 1}',
        '{"schema": 1, "mean": 0, "deviation": 0, "num_training_values": 1}',
        '{"schema": 1, "mean": NaN, "deviation": 1, "num_training_values": 1}',
    ],
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(RunError, match=r"scaling\.json"):
        SeriesScaling.from_json(text)


def test_no_number_cannot_be_scaled_by() -> None:
    with pytest.raises(DataError, match="no number"):
        SeriesScaling.of([[], []])


@pytest.mark.parametrize("far", [1e300, -1e39, 3e19])
def test_a_number_that_a_model_cannot_reckon_with_is_refused(far: float) -> None:
    scaling = SeriesScaling(1.0, 2.0, 3)
    assert scaling.scale((1.0, 1e18)).tolist() == pytest.approx([0.0, 5e17])
    with pytest.raises(DataError, match="too far from those"):
        scaling.scale((1.0, far, 2.0))
