"""All that is fuzzed, in the order in which it takes turns."""

from hostile_foreign import foreign_subjects
from hostile_inputs import input_subjects
from hostile_native import native_subjects
from hostile_runs import run_subjects
from outcomes import Subject


def all_subjects() -> list[Subject]:
    """Return one of each subject, not yet prepared."""
    return [*run_subjects(), *input_subjects(), *foreign_subjects(), *native_subjects()]
