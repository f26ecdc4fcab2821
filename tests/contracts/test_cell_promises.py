"""Every promise, every registered cell, all paths; a new cell in the registry joins by itself."""

import pytest
from promises import PROMISES, why_promise_not_applicable
from subjects import Subject, all_subjects, why_not_applicable


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("subject", all_subjects(), ids=lambda s: f"{s.key}-{s.path}")
def test_cell_keeps_its_promise(subject: Subject, promise: str) -> None:
    reason = why_not_applicable(subject.key, subject.path) or why_promise_not_applicable(
        promise, subject.key, subject.path
    )
    if reason:
        pytest.skip(f"not applicable, because {reason}")
    PROMISES[promise](subject)
