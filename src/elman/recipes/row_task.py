"""What the tasks of rows share: labelled texts, tagged sentences, pairs."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from elman.checkpoints.run_folder import RunFolder
from elman.config.settings import Settings
from elman.data.batches import Batch, BatchSource
from elman.data.shares import SharedBatches
from elman.errors import RunError
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.learnt import LearntModel
from elman.recipes.prepared_rows import PreparedRows
from elman.recipes.prepared_text import PartName
from elman.recipes.task import Task
from elman.training.loop import Trainer

VALIDATED_AT_ONCE = 128


PreparedT = TypeVar("PreparedT", bound=PreparedRows[Any, Any])
ModelT = TypeVar("ModelT", bound=LearntModel)
BatchT = TypeVar("BatchT", bound=Batch)
PartT = TypeVar("PartT")


class RowTask(Task[PreparedT, ModelT, BatchT]):
    """A task whose data are rows of files, which are read again where a run goes on."""

    @property
    @abstractmethod
    def called(self) -> tuple[str, str]:
        """What the data and their rows are called, in the plural."""

    @abstractmethod
    def held_out_loss(
        self,
        model: ModelT,
        prepared: PreparedT,
        source: BatchSource[BatchT],
        plan: KernelPlan,
    ) -> LossSum:
        """Return the loss of one epoch of `source`."""

    def require_own(self, folder: RunFolder) -> None:
        """Raise `RunError` where the vocabularies of the run do not belong to its settings."""

    def scratch_of(self, cache: Path, rank: int) -> Path:
        """Return a folder for each process: rows are read from the files again, and written."""
        return cache / f"process-{rank}" if rank else cache

    def reopen(self, folder: RunFolder, recorded: Mapping[str, object], scratch: Path) -> PreparedT:
        """Return the data as the run began with them, read from the files again."""
        self.require_own(folder)
        scratch.mkdir(exist_ok=True)
        prepared = self.prepare(folder.settings, scratch)
        same = dict(prepared.vocabularies()) == dict(folder.vocabularies)
        if not same or prepared.facts() != recorded:
            data, rows = self.called
            raise RunError(
                f"the {data} are not those that the run began with",
                got=f"other {rows} from the files that config.toml names",
                hint="put the files back as they were, or train anew",
            )
        return replace(prepared, notices=())

    def source(
        self, settings: Settings, prepared: PreparedT
    ) -> tuple[BatchSource[BatchT], tuple[str, ...]]:
        """Return batches of rows, by chance or by length."""
        training = settings.training
        batches = prepared.batches(
            "train",
            batch_size=training.batch_size,
            seed=training.seed,
            order="shuffled",
            length_pool=training.length_pool,
        )
        return batches, ()

    def validation(
        self, settings: Settings, prepared: PreparedT, trainer: Trainer[ModelT, BatchT]
    ) -> Callable[[], LossSum] | None:
        """Return the loss of the rows held out to choose by; None without any."""
        num_rows = prepared.num_learnable("valid")
        if not num_rows:
            return None
        source = prepared.batches(
            "valid",
            batch_size=VALIDATED_AT_ONCE,
            seed=settings.training.seed,
            order="shuffled",
            length_pool=num_rows,
        )
        processes = trainer.processes
        own = SharedBatches(source, processes.rank, processes.size)
        plan = trainer.plan
        return lambda: self.held_out_loss(trainer.model, prepared, own, plan).over(processes)


def held_out_parts(
    parts: Mapping[PartName, PartT],
    on_scored: Callable[[int], None],
    size_of: Callable[[PartT], int],
) -> Iterator[tuple[PartName, PartT, Callable[[int], None]]]:
    """Yield each part but training, and what to tell how much of it is scored.

    `on_scored` hears of the sum over the parts, in the unit of `size_of`.
    """
    done = 0
    for name, part in parts.items():
        if name != "train":
            yield name, part, partial(_tell, on_scored, done)
            done += size_of(part)


def _tell(on_scored: Callable[[int], None], before: int, count: int) -> None:
    on_scored(before + count)
