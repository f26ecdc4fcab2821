"""Times are taken in turns, and a ratio is what the clock says it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tiny_bench import HandClock

from elman.recipes.benchmark.rows import Effort
from elman.recipes.benchmark.timing import Contender, StopAskedError, Stopwatch

THRICE = Effort(sample_seconds=0.0, row_seconds=0.0, least_repeats=3, most_repeats=3)


def test_samples_of_all_sides_take_turns() -> None:
    clock = HandClock()
    sides = {"a": clock.taking("a", 1.0), "b": clock.taking("b", 1.0)}
    Stopwatch(THRICE, clock).interleaved(sides)
    assert "".join(clock.order) == "ab" + "ab" + "ababab"  # first calls, pilot, samples


def test_a_ratio_is_of_medians_and_the_least_times_stand_beside_it() -> None:
    clock = HandClock()
    ours = clock.taking("ours", 9.0, 9.0, 1.0, 2.0, 6.0)
    theirs = {"a": clock.taking("a", 9.0, 9.0, 3.0, 8.0, 10.0)}
    found = Stopwatch(THRICE, clock).compare(ours, theirs)
    assert found.ours.median_seconds == 2.0
    assert found.theirs.median_seconds == 8.0
    assert found.ratio == 4.0
    assert found.least_ratio == 3.0


def test_elman_is_measured_against_the_best_setting_of_torch() -> None:
    clock = HandClock()
    theirs = {"slow": clock.taking("s", 2.4), "quick": clock.taking("q", 2.0)}
    found = Stopwatch(THRICE, clock).compare(clock.taking("ours", 1.0), theirs)
    assert found.setting == "quick"
    assert found.ratio == pytest.approx(2.0)
    assert found.tried == {"slow": pytest.approx(2.4), "quick": pytest.approx(2.0)}


def test_a_clearly_slower_setting_is_dropped_after_the_pilot_and_still_told() -> None:
    clock = HandClock()
    theirs = {"slow": clock.taking("s", 3.0), "quick": clock.taking("q", 2.0)}
    found = Stopwatch(THRICE, clock).compare(clock.taking("ours", 1.9), theirs)
    assert clock.order.count("s") == 2
    assert clock.order.count("q") == 5
    assert found.tried["slow"] == 3.0


def test_a_hopeless_setting_is_called_once() -> None:
    clock = HandClock()
    theirs = {"hopeless": clock.taking("h", 90.0), "quick": clock.taking("q", 2.0)}
    Stopwatch(THRICE, clock).compare(clock.taking("ours", 1.0), theirs)
    assert clock.order.count("h") == 1


def test_of_long_calls_the_best_settings_of_the_pilot_alone_are_measured() -> None:
    clock = HandClock()
    theirs = {
        name: clock.taking(name, seconds) for name, seconds in (("a", 2.2), ("b", 2.0), ("c", 2.1))
    }
    found = Stopwatch(THRICE, clock).compare(clock.taking("ours", 1.0), theirs)
    assert [clock.order.count(name) for name in "abc"] == [2, 5, 5]
    assert found.tried["a"] == pytest.approx(2.2)


def test_of_short_calls_all_settings_near_the_best_are_measured() -> None:
    clock = HandClock()
    theirs = {name: clock.taking(name, 1e-3) for name in "abc"}
    Stopwatch(THRICE, clock).compare(clock.taking("ours", 1e-3), theirs)
    assert [clock.order.count(name) for name in "abc"] == [5, 5, 5]


def test_where_all_settings_of_torch_are_hopeless_the_best_is_still_measured() -> None:
    clock = HandClock()
    theirs = {"a": clock.taking("a", 90.0), "b": clock.taking("b", 100.0)}
    found = Stopwatch(THRICE, clock).compare(clock.taking("ours", 1.0), theirs)
    assert found.ratio == pytest.approx(90.0)
    assert found.theirs.num_repeats == 3


def test_short_calls_are_repeated_until_a_sample_lasts() -> None:
    clock = HandClock()
    effort = Effort(sample_seconds=1.0, row_seconds=10.0, least_repeats=2, most_repeats=5)
    sides = {"short": clock.taking("s", 0.25), "long": clock.taking("l", 4.0)}
    found = Stopwatch(effort, clock).interleaved(sides)
    assert found["short"].calls_per_sample == 4
    assert found["long"].calls_per_sample == 1
    assert found["short"].median_seconds == 0.25
    assert found["long"].num_repeats == 2  # a round takes 5 s


def test_times_are_those_of_a_piece_where_a_call_does_several() -> None:
    clock = HandClock()
    ours = replace(clock.taking("ours", 10.0), pieces=20)
    theirs = {"torch": replace(clock.taking("torch", 10.0), pieces=5)}
    found = Stopwatch(THRICE, clock).compare(ours, theirs)
    assert found.ours.median_seconds == 0.5
    assert found.ratio == 4.0


def test_what_stands_around_a_call_is_entered_and_not_timed() -> None:
    clock = HandClock()
    inside = False

    @contextmanager
    def around() -> Iterator[None]:
        nonlocal inside
        clock.now += 100.0
        inside = True
        yield
        inside = False
        clock.now += 100.0

    def call() -> None:
        assert inside
        clock.now += 1.0

    found = Stopwatch(THRICE, clock).interleaved({"a": Contender(call, around)})
    assert found["a"].median_seconds == 1.0


def test_ways_beside_are_measured_in_the_same_turns() -> None:
    clock = HandClock()
    found = Stopwatch(THRICE, clock).compare(
        clock.taking("ours", 1.0),
        {"torch": clock.taking("t", 2.0)},
        beside={"padded": clock.taking("p", 5.0)},
    )
    assert found.beside["padded"].median_seconds == 5.0
    assert found.setting == "torch"


def test_a_stop_is_obeyed_between_two_samples() -> None:
    clock = HandClock()
    watch = Stopwatch(THRICE, clock, should_stop=lambda: len(clock.order) >= 3)
    with pytest.raises(StopAskedError):
        watch.interleaved({"a": clock.taking("a", 1.0)})
    assert len(clock.order) == 3
