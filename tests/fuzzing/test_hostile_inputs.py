"""Data, settings, counts and models of other programs, spoilt: an answer or one line."""

from pathlib import Path

import pytest
from hostile_foreign import HostileModel, foreign_subjects
from hostile_inputs import input_subjects
from outcomes import Subject
from short_form import outcomes_of


@pytest.mark.parametrize("subject", input_subjects(), ids=lambda subject: subject.name)
def test_a_spoilt_file_is_read_or_refused(subject: Subject, tmp_path: Path) -> None:
    assert outcomes_of(subject, tmp_path, 6).total() == 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("subject", foreign_subjects(every=True), ids=lambda subject: subject.name)
def test_a_spoilt_model_is_imported_or_refused(subject: HostileModel, tmp_path: Path) -> None:
    if subject.missing:
        pytest.skip(f"the package {subject.missing} is not installed")
    assert outcomes_of(subject, tmp_path, 6)["refused"]
