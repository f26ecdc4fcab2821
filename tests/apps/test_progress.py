import io
import re

import pytest
from rich.console import Console

from elman.apps.cli.classify_view import spread_text
from elman.apps.cli.language_view import held_out_figure
from elman.apps.cli.progress import (
    Pace,
    ProgressLine,
    Speed,
    TrainingProgress,
    fitted_figures,
    fitting_and_scoring,
)
from elman.recipes.held_out import counted


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_run_that_keeps_its_time_is_left_alone() -> None:
    clock = Clock()
    pace = Pace(100, started=1000.0, deadline=1120.0, clock=clock)
    for update in range(1, 101):
        clock.now += 1.2
        assert pace.lateness(update) is None


def test_a_run_far_behind_its_budget_is_told_once_with_the_time_it_will_take() -> None:
    clock = Clock()
    pace = Pace(100, started=1000.0, deadline=1120.0, clock=clock)
    told = []
    for update in range(1, 31):
        clock.now += 4.0
        told.append(pace.lateness(update))
    (sentence,) = filter(None, told)
    assert "takes 6 min 40 s, not the 2 min 00 s asked for" in sentence


def test_a_slow_first_moment_is_not_yet_a_run_behind() -> None:
    clock = Clock()
    pace = Pace(100, started=1000.0, deadline=1120.0, clock=clock)
    clock.now += 9.0
    assert pace.lateness(1) is None
    clock.now += 9.0
    assert pace.lateness(2) is None  # 9 s since the first: too soon to judge


def test_speed_is_that_of_the_last_seconds() -> None:
    clock = Clock()
    speed = Speed(clock)
    assert speed.at(0) == 0.0
    for second in range(1, 11):
        clock.now += 1.0
        speed.at(100 * second)
    clock.now += 5.0
    assert speed.at(1000 + 5 * 40) == pytest.approx(40.0)


def test_the_speed_of_answers_that_come_in_bursts_is_told_from_the_second_burst_on() -> None:
    clock = Clock()
    speed = Speed(clock)
    told = []
    for burst in range(4):
        clock.now += 8.0
        for answer in range(64):
            told.append((burst, speed.told(64 * burst + answer + 1, "rows")))
            clock.now += 1e-4
    assert {text for burst, text in told if burst == 0} == {""}
    assert {text for burst, text in told if burst} == {"8 rows/s"}


@pytest.mark.parametrize("total", [280, 123456])
def test_count_and_time_left_stay_on_a_terminal_of_80_columns(total: int) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, highlight=False)
    progress = TrainingProgress(console, total, num_scored=0)
    with progress.shown():
        progress.validated(14, "3.1234 nats/token, perplexity 22.721", best=True)
        progress.updated(14, 9_000_000, "3.456")
        progress._training._bar.refresh()  # type: ignore[union-attr]
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue()).replace("\r", "\n")
    line = [line for line in drawn.split("\n") if line.strip()][-1].rstrip()
    assert len(line) <= 80
    assert f" 14/{total}" in line
    assert "train 3.456  valid 3.1234 nats/token" in line
    assert re.search(r"-:--:--$|\d:\d\d$|--:--$", line), line


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (42, "9 tokens/s  valid 3.1 nats, perplexity 22"),
        (40, "9 tokens/s  valid 3.1 nats"),
        (25, "9 tokens/s"),
        (9, ""),
    ],
)
def test_figures_are_cut_between_two_of_them(room: int, shown: str) -> None:
    assert fitted_figures("9 tokens/s  valid 3.1 nats, perplexity 22", room) == shown


@pytest.mark.parametrize(
    ("least", "most", "shown"),
    [
        (12, 12, "each of 12 numbers"),
        (1, 1, "each of 1 number"),
        (1, 12, "of 1 to 12 numbers, 6.5 on the average"),
    ],
)
def test_lengths_are_told_in_the_number_that_they_have(least: int, most: int, shown: str) -> None:
    assert spread_text(least, most, (least + most) / 2, "number") == shown


def test_beside_a_terminal_a_line_comes_at_once_only_where_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ProgressLine(Console(file=io.StringIO()), "training", 10, "update")
    with line.shown():
        line.at(1, "too soon")
        line.at(2, "held out", at_once=True)
    assert capsys.readouterr().err == "update 2/10  held out\n"


def test_fitting_is_told_in_words_and_scoring_follows_in_the_same_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elman.apps.cli.progress.SECONDS_BETWEEN_LINES", 0.0)
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=80, highlight=False)
    for console in (terminal, Console(file=io.StringIO())):
        with fitting_and_scoring(console) as (fitted, scored):
            fitted("fitting the rate, try 2 of 5", 0)
            fitted("fitting the rate, try 2 of 5", 1512)
            scored(4096)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "fitting the rate, try 2 of 5"
    assert told[1].startswith("fitting the rate, try 2 of 5, 1,512 tokens")
    assert told[2] == "scored 4,096"
    assert len(told) == 3
    assert "scoring 4,096 tokens" in shown.getvalue()


def test_fitting_is_silent_in_a_log_while_it_takes_no_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with fitting_and_scoring(Console(file=io.StringIO())) as (fitted, _):
        fitted("fitting the rate, try 1 of 5", 9)
    assert capsys.readouterr().err == ""


def test_ids_are_counted_once_they_have_been_used() -> None:
    import numpy as np

    told: list[int] = []
    lines = iter(counted([np.arange(3), np.arange(0), np.arange(5)], told.append, marks=1))
    next(lines)
    assert told == []
    assert [len(ids) for ids in lines] == [0, 5]
    assert told == [4, 5, 11]


@pytest.mark.parametrize(
    ("level", "nats", "shown"),
    [
        ("char", 138.62943611, "2.000 bits/char"),
        ("word", 20 * 5.0, "148.4 perplexity"),
        ("bpe", 20 * 25.0, "e^25.0 perplexity"),
    ],
)
def test_the_figure_to_watch_is_that_of_the_level(level: str, nats: float, shown: str) -> None:
    import numpy as np

    from elman.data.token_array import TokenArray
    from elman.recipes.prepared_text import Part
    from elman.training.events import ValidationEvent

    event = ValidationEvent(
        update=1,
        epoch=0,
        loss_nats=nats,
        num_tokens=20,
        best=True,
        num_without_better=0,
        training_nats=None,
        elapsed_seconds=0.0,
    )
    part = Part(TokenArray(np.zeros(20, dtype="uint8")), characters=100, utf8_bytes=100, unknown=0)
    assert held_out_figure(event, part, level) == shown  # type: ignore[arg-type]
