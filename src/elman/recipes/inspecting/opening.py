"""A run of any task with recurrent layers and a text → what is looked into."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from elman.config.reading_settings import TaskName
from elman.config.text_settings import UnknownPolicy
from elman.errors import RunError
from elman.recipes.inspecting.classifier_subject import classifier_subject
from elman.recipes.inspecting.language_subject import language_subject
from elman.recipes.inspecting.subject import Subject
from elman.recipes.inspecting.tagger_subject import tagger_subject
from elman.recipes.trained import task_of


class _Opener(Protocol):
    def __call__(
        self, path: Path, text: str, *, unknown: UnknownPolicy | None = None
    ) -> Subject: ...


_OPENERS: Mapping[TaskName, _Opener] = MappingProxyType(
    {"lm": language_subject, "classify": classifier_subject, "tag": tagger_subject}
)
"""A task whose states can be looked into is one entry here."""


def open_subject(path: Path, text: str, *, unknown: UnknownPolicy | None = None) -> Subject:
    """Return the text as the run at `path` reads it.

    Raises `RunError` for a run that cannot be looked into, `DataError` for a text that it does not
    read, `SettingError` for a policy that has no meaning for it.
    """
    task = task_of(path)
    opener = _OPENERS.get(task)
    if opener is None:
        raise RunError(
            f"the run {path} cannot be looked into this way",
            got=f"model.task = {task}",
            allowed=", ".join(_OPENERS),
        )
    return opener(path, text, unknown=unknown)
