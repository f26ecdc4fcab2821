"""What a person sees of a training run that depends on its task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic

from elman.apps.cli.output import say
from elman.errors import first_few
from elman.recipes.learning import Run
from elman.recipes.task import BatchT, ModelT, PreparedT, Task
from elman.training.events import ValidationEvent

TITLES = MappingProxyType({"valid": "held out, for choosing", "test": "held out, never used"})

MOST_NAMES = 4
"""Names of files told; of more than these the number is told."""


class TrainingView(ABC, Generic[PreparedT, ModelT, BatchT]):
    """One kind of model as a person sees it learn: what was read, which figure is watched, scores.

    `unit` is what training counts, in the plural: tokens, texts. `scored_unit` is what `num_scored`
    counts.
    """

    unit: str = "tokens"
    scored_unit: str = "tokens"

    @property
    @abstractmethod
    def task(self) -> Task[PreparedT, ModelT, BatchT]:
        """The task that is trained."""

    @abstractmethod
    def tell_data(self, run: Run[PreparedT, ModelT, BatchT]) -> None:
        """Tell what was read."""

    @abstractmethod
    def num_scored(self, prepared: PreparedT) -> int:
        """Return how many answers are scored at the end, as `Task.scores` counts them."""

    @abstractmethod
    def training_figure(self, nats: float, run: Run[PreparedT, ModelT, BatchT]) -> str:
        """Return the smoothed training loss, nats an answer, as a short figure to watch."""

    @abstractmethod
    def validation_figure(self, event: ValidationEvent, run: Run[PreparedT, ModelT, BatchT]) -> str:
        """Return the held-out figure to watch, with its unit."""

    @abstractmethod
    def tell_scores(self, scores: Mapping[str, Mapping[str, object]]) -> None:
        """Show the exact figures of what was held out, `scores` by the names of the parts."""

    @abstractmethod
    def next_step(self, path: str) -> str:
        """Return what to type next with the run at `path`, without the program's name."""


def tell_names(names: list[str]) -> None:
    """Tell the names of files, where there are several."""
    if len(names) > 1:
        say(f"files: {first_few(names, MOST_NAMES)}")
