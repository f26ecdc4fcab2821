"""The long form of fuzzing: it goes round, tells faults with what makes them again, and ends."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import long_form
import pytest
from outcomes import Attempt

from elman.errors import DataError


class Planted:
    """A subject whose attempt with a number that can be divided by `every` does `harm`."""

    def __init__(self, name: str, harm: Callable[[], object], every: int = 3) -> None:
        self.name, self._harm, self._every, self._number = name, harm, every, 0

    def prepare(self, scratch: Path) -> None:
        assert scratch.is_dir()

    def attempt(self, draw: random.Random) -> Attempt:
        harmful = draw.random() < 1 / self._every
        return Attempt("planted", self._harm if harmful else lambda: None)


def refuse() -> None:
    raise DataError("no")


def fail() -> None:
    raise KeyError("gone")


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(
    monkeypatch: pytest.MonkeyPatch, subjects: list[Planted], *options: str, seconds: str = "1"
) -> int:
    monkeypatch.setattr(long_form, "all_subjects", lambda: subjects)
    monkeypatch.setattr(long_form, "MOST_IN_TURN", 20)
    monkeypatch.setattr("sys.argv", ["long_form.py", "--seconds", seconds, *options])
    return long_form.main()


def test_answers_and_refusals_are_counted_and_are_no_faults(monkeypatch, capfd) -> None:
    assert run(monkeypatch, [Planted("one", refuse), Planted("two", refuse)]) == 0
    table = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert table[0] == ["seed", "1"]
    for name, inputs, answered, refused, faults in table[2:4]:
        assert name in ("one", "two")
        assert int(answered.replace(",", "")) > 0
        assert int(refused.replace(",", "")) > 0
        assert faults == "0"
        assert inputs


def test_a_fault_is_told_with_what_makes_it_again(monkeypatch, capfd) -> None:
    subjects = [Planted("bad", fail)]
    assert run(monkeypatch, subjects, "--seed", "5") == 1
    first = next(line for line in capfd.readouterr().out.splitlines() if "FAULT" in line)
    number = first.rpartition(" ")[2]
    assert first == f'FAULT --only "bad" --seed 5 --number {number}'
    assert run(monkeypatch, subjects, "--seed", "5", "--only", "bad", "--number", number) == 1
    assert f"bad {number}: fault: planted: KeyError: 'gone'" in capfd.readouterr().out


def test_an_attempt_that_kills_its_process_is_a_fault_and_the_next_one_follows(
    monkeypatch, capfd
) -> None:
    assert run(monkeypatch, [Planted("deadly", killed, every=4)]) == 1
    told = capfd.readouterr().out
    assert "the process ended with -9" in told
    assert "answered" in told


def test_a_name_that_no_subject_has_is_told_with_all_names(monkeypatch, capfd) -> None:
    assert run(monkeypatch, [Planted("one", refuse)], "--only", "other") == 2
    assert "one" in capfd.readouterr().out
