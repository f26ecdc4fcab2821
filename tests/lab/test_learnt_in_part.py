"""Models that learn for a moment: accuracies that belong together, and courses of two losses."""

import pytest

from elman.recipes.lab import feedback, overfitting
from elman.recipes.lab.reversal_task import NUM_HELD_OUT, trained_reverser


def test_a_name_is_right_freely_no_more_often_than_its_tokens_are_in_place() -> None:
    trained = trained_reverser(1, updates=3, units=8)
    assert len(trained.held_out.targets) == NUM_HELD_OUT
    found = feedback._accuracy(trained)
    assert 0.0 <= found.exact <= found.free <= 1.0
    assert 0.0 < found.forced < 1.0


def test_a_course_tells_its_rise_and_its_fall() -> None:
    course = overfitting._Course([1, 2, 3], [3.0, 2.0, 1.0], [2.5, 2.0, 3.0])
    assert course.rise == pytest.approx(1.5)
    assert course.fall == pytest.approx(0.5)
    assert overfitting._Course([1, 2], [3.0, 2.0], [2.5, 2.0]).rise == 1.0


@pytest.mark.slow
def test_a_list_learnt_by_heart_is_worse_elsewhere() -> None:
    course = overfitting._course(1)
    assert course.rise > 1.05
    assert course.fall < 0.9
