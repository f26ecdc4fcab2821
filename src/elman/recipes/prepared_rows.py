"""Rows of files, read, split and encoded: what labelled texts, tagged sentences and pairs share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from elman.data.batches import Batch, BatchSource
from elman.data.order import EpochOrder, RowOrder
from elman.recipes.prepared_text import PartName


class RowPart(Protocol):
    """One part of the data."""

    @property
    def row_lengths(self) -> npt.NDArray[np.int64]:
        """Steps of each row that has a loss, to pad little by."""
        ...

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of this part."""
        ...


PartT = TypeVar("PartT", bound=RowPart)
BatchT = TypeVar("BatchT", bound=Batch)


class PreparedRows(ABC, Generic[PartT, BatchT]):
    """A dataclass of the parts of the data, with the vocabularies learnt from "train"."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    parts: Mapping[PartName, PartT]
    notices: tuple[str, ...]

    @property
    @abstractmethod
    def num_targets(self) -> int:
        """Answers in the training part: labels, tags or target tokens."""

    @abstractmethod
    def vocabularies(self) -> dict[str, str]:
        """Return the JSON of each vocabulary by the name of its file in a run folder."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Return the counts that the manifest records."""

    @abstractmethod
    def batches_in(self, part: PartT, order: EpochOrder) -> BatchSource[BatchT]:
        """Return the batches of a part, its rows in this order."""

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of the data, to compare with when a run goes on."""
        return {"parts": {name: part.facts() for name, part in self.parts.items()}}

    def num_learnable(self, name: PartName) -> int:
        """Return how many rows of a part have a loss; 0 where there is no such part."""
        return len(self.parts[name].row_lengths) if name in self.parts else 0

    def batches(
        self, name: PartName, *, batch_size: int, seed: int, order: RowOrder, length_pool: int = 1
    ) -> BatchSource[BatchT]:
        """Return the batches of the rows of a part that have a loss, as `EpochOrder` has them."""
        part = self.parts[name]
        epochs = EpochOrder(
            part.row_lengths, batch_size=batch_size, seed=seed, order=order, length_pool=length_pool
        )
        return self.batches_in(part, epochs)
