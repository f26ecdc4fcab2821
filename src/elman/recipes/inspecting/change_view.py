"""The view change: which parameters differ between two runs, and that reading changes none."""

from pathlib import Path

from elman.checkpoints.run_folder import RunFolder
from elman.errors import RunError
from elman.inspection.changes import ParameterChange, parameter_changes
from elman.recipes.inspecting.subject import Subject


def changes_between(before: Path, after: Path) -> list[ParameterChange]:
    """Return what training or anything else made of each parameter, from one run to the other.

    Raises `RunError` for runs whose parameters are not of the same names and shapes.
    """
    old, new = (RunFolder.open(path).map_weights()[0] for path in (before, after))
    try:
        return parameter_changes(old, new)
    except (KeyError, ValueError) as error:
        raise RunError(
            "runs that are compared must have the same parameters",
            got=f"{before} and {after}, which differ in {error.args[0]}",
            hint="compare a run with a copy that went on, or with another seed of it",
        ) from None


def changes_by_reading(subject: Subject) -> list[ParameterChange]:
    """Return what reading the text makes of each parameter: nothing, to the last bit."""
    before = {name: value.clone() for name, value in subject.module.state_dict().items()}
    subject.read()
    return parameter_changes(before, subject.module.state_dict())
