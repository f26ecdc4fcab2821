"""What a run of any task says of a file: one line written for each line read, in order."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

from elman.atomic_files import STANDARD_OUTPUT, writing_atomically
from elman.checkpoints.run_folder import RunFolder
from elman.errors import RunError, SettingError
from elman.recipes.label_writing import write_labels
from elman.recipes.prediction_request import PredictRequest
from elman.recipes.tag_writing import write_tags
from elman.recipes.translation_writing import write_translations

AnswerWriter = Callable[[Path, PredictRequest, TextIO, Path], tuple[str, ...]]
"""(run, request, where to write, a scratch folder) → lines to show a person."""

_WRITERS: Mapping[str, AnswerWriter] = MappingProxyType(
    {"classify": write_labels, "tag": write_tags, "translate": write_translations}
)
"""A task that answers lines is one entry here."""


def predict_file(run: Path, request: PredictRequest) -> tuple[str, ...]:
    """Write what the run says of each line of the file; return lines to show a person.

    Raises `RunError` for a run that cannot be used or whose task has no answers to write,
    `DataError` and `SettingError` for what cannot be read.
    """
    if request.batch_size < 1:
        raise SettingError("--batch-size must be an int >= 1", got=str(request.batch_size))
    task = RunFolder.open(run).settings.model.task
    writer = _WRITERS.get(task)
    if writer is None:
        raise RunError(
            f"the run {run} has no answers to write",
            got=f"model.task = {task}",
            hint="a language model writes with elman generate, and is measured by elman score",
        )
    for_sequences = bool(request.search or request.attention)
    if task != "translate" and for_sequences:
        raise SettingError(
            "the options of searches and --attention are for runs that write sequences",
            got=f"a run of elman train {task}",
        )
    if task == "tag" and request.ensemble:
        raise SettingError(
            "--ensemble is for classifiers and runs that write sequences",
            got=f"a run of elman train {task}",
        )
    with (
        tempfile.TemporaryDirectory(prefix="elman-") as scratch,
        writing_atomically(request.out or STANDARD_OUTPUT) as file,
    ):
        return writer(run, request, file, Path(scratch))
