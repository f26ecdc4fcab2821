"""Every file of every kind of run, spoilt: an answer or one line, within bounds."""

import random
from pathlib import Path

import pytest
from hostile_runs import HostileRun, run_subjects
from short_form import outcomes_of


@pytest.mark.parametrize("subject", run_subjects(), ids=lambda subject: subject.name)
def test_a_run_with_a_spoilt_file_is_used_or_refused(subject: HostileRun, tmp_path: Path) -> None:
    counts = outcomes_of(subject, tmp_path, 12)
    assert counts["answered"]
    assert counts["refused"]


def test_equal_seeds_and_numbers_make_equal_attempts(tmp_path: Path) -> None:
    subject = HostileRun("ngram")
    subject.prepare(tmp_path)
    for number in range(12):
        attempts = []
        for _ in range(2):
            told = subject.attempt(random.Random(f"{number}")).changed
            files = sorted((tmp_path / "changed").iterdir())
            attempts.append((told, [path.read_bytes() for path in files if path.is_file()]))
        assert attempts[0] == attempts[1]
