"""What differs among the kinds of model that are trained: everything else is `recipes.learning`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from elman.checkpoints.run_folder import RunFolder
from elman.config.data_settings import DataSettings
from elman.config.settings import Settings
from elman.data.batches import Batch, BatchSource
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.learnt import LearntModel
from elman.recipes.named_files import with_lasting_names
from elman.training.loop import Trainer
from elman.training.objective import Objective


class Prepared(Protocol):
    """Data read, split and encoded, with the vocabularies that were learnt from it."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Lines that a person should see."""
        ...

    @property
    def num_targets(self) -> int:
        """Answers in the training part: tokens, labels or tags."""
        ...

    def vocabularies(self) -> Mapping[str, str]:
        """Return the JSON of each vocabulary by the name of its file in a run folder."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """Return the counts that the manifest records."""
        ...

    def facts(self) -> Mapping[str, object]:
        """Return what the manifest records of the data, for `Task.reopen`."""
        ...


class Score(Protocol):
    """The figures of one part of the data."""

    def to_json(self) -> Mapping[str, object]:
        """Return what JSON can hold."""
        ...


PreparedT = TypeVar("PreparedT", bound=Prepared)
ModelT = TypeVar("ModelT", bound=LearntModel)
BatchT = TypeVar("BatchT", bound=Batch)


class Task(ABC, Generic[PreparedT, ModelT, BatchT]):
    """One kind of model: how its data are read, what is learnt, and how it is scored."""

    @property
    @abstractmethod
    def base(self) -> Settings:
        """The defaults of this task, on which suggestions, files and overrides are laid."""

    def lasting_names(self, data: DataSettings) -> DataSettings:
        """Return `data` with names of files that mean the same from any folder."""
        return with_lasting_names(data)

    def preset(self, name: str, early: Settings) -> tuple[str, ...]:
        """Return the overrides that `name` stands for, where `early` is what a person has set.

        Raises `SettingError` for a name that the task does not have.
        """
        raise SettingError("this task has no presets", got=name)

    def first_suggestions(self, early: Settings, scratch: Path) -> tuple[str, ...]:
        """Return overrides from a short look at the data, for what preparing depends on."""
        return ()

    @abstractmethod
    def prepare(self, settings: Settings, scratch: Path) -> PreparedT:
        """Read, split and encode; large arrays go into the folder `scratch`."""

    def scratch_of(self, cache: Path, rank: int) -> Path:
        """Return where process `rank` of several keeps its arrays: `cache`, which all may read."""
        return cache

    @abstractmethod
    def reopen(self, folder: RunFolder, recorded: Mapping[str, object], scratch: Path) -> PreparedT:
        """Return what `prepare` made for the run, its arrays in the folder `scratch`.

        `recorded` is the manifest's section data.

        Raises `RunError` where the data are no longer what they were.
        """

    @abstractmethod
    def suggestions(
        self, early: Settings, prepared: PreparedT, *, budget_seconds: float | None
    ) -> tuple[str, ...]:
        """Return overrides that fit the data, for what a person left open."""

    @abstractmethod
    def size_notices(self, prepared: PreparedT) -> tuple[str, ...]:
        """Return lines to show where there is too little to learn from."""

    def chosen(self, settings: Settings, prepared: PreparedT) -> Settings:
        """Return `settings` with what the data decide where a person left it open.

        Unlike `suggestions`, it sees the settings of a file and all overrides.
        """
        return settings

    @abstractmethod
    def model(self, settings: Settings, prepared: PreparedT) -> ModelT:
        """Return a new model of these settings, drawn from `training.seed`."""

    @abstractmethod
    def objective(
        self, model: ModelT, settings: Settings, prepared: PreparedT
    ) -> Objective[ModelT, BatchT]:
        """Return what training makes small."""

    @abstractmethod
    def source(
        self, settings: Settings, prepared: PreparedT
    ) -> tuple[BatchSource[BatchT], tuple[str, ...]]:
        """Return the batches to learn from, and notices of sizes that had to be reduced."""

    @abstractmethod
    def validation(
        self, settings: Settings, prepared: PreparedT, trainer: Trainer[ModelT, BatchT]
    ) -> Callable[[], LossSum] | None:
        """Return a function that measures the held-out loss to choose by; None without any."""

    @abstractmethod
    def scores(
        self,
        model: ModelT,
        settings: Settings,
        prepared: PreparedT,
        plan: KernelPlan,
        on_scored: Callable[[int], None],
    ) -> Mapping[str, Score]:
        """Return the exact scores of the parts that were not learnt from, by name."""
