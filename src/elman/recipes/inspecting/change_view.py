"""The view change: which parameters differ between two runs, and that reading changes none."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from torch import Tensor, nn

from elman.checkpoints.run_folder import RunFolder
from elman.checkpoints.weights import tied_names
from elman.config.reading_settings import TaskName
from elman.errors import RunError
from elman.inspection.changes import ParameterChange, parameter_changes
from elman.recipes.classifying import open_classifier
from elman.recipes.inspecting.subject import Subject
from elman.recipes.tagging import open_tagger
from elman.recipes.trained import open_trained, task_of
from elman.recipes.translating import open_translator

_MODULES: Mapping[TaskName, Callable[[Path], nn.Module]] = MappingProxyType(
    {
        "lm": lambda path: open_trained(path).model,
        "classify": lambda path: open_classifier(path).models[0],
        "tag": lambda path: open_tagger(path).model,
        "translate": lambda path: open_translator(path).models[0],
    }
)
"""The module of a run of each task, whose parameters stand in the order of the model."""


def changes_between(before: Path, after: Path) -> list[ParameterChange]:
    """Return what training or anything else made of each parameter, from one run to the other.

    They stand in the order of the model, as in `changes_by_reading`. Raises `RunError` for runs
    whose parameters are not of the same names and shapes.
    """
    old, new = (RunFolder.open(path).map_weights()[0] for path in (before, after))
    try:
        found = {change.name: change for change in parameter_changes(old, new)}
    except (KeyError, ValueError) as error:
        raise RunError(
            "runs that are compared must have the same parameters",
            got=f"{before} and {after}, which differ in {error.args[0]}",
            hint="compare a run with a copy that went on, or with another seed of it",
        ) from None
    order = _kept(_MODULES[task_of(after)](after))
    return [found[name] for name in order if name in found]


def changes_by_reading(subject: Subject) -> list[ParameterChange]:
    """Return what reading the text makes of each parameter: nothing, to the last bit.

    A parameter with two names, such as tied weights, is told once, by the name that a file keeps.
    """
    before = {name: value.clone() for name, value in _kept(subject.module).items()}
    subject.read()
    return parameter_changes(before, _kept(subject.module))


def _kept(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that a file of the model keeps, in the order of the model."""
    tied = tied_names(module)
    return {name: value for name, value in module.state_dict().items() if name not in tied}
