"""What is looked into: the layers of a run, a person's own text, and what is said of it."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from elman.checkpoints.run_folder import RunFolder
from elman.config.reading_settings import TaskName
from elman.config.settings import Settings
from elman.errors import SettingError
from elman.inspection.recording import CellStep, record
from elman.layers.stack import RecurrentStack, StackState
from elman.recipes.corpus import open_corpus


class Said(Protocol):
    """What a model says at one step of a text; every task has its own."""

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        ...

    def columns(self) -> dict[str, object]:
        """Return a cell for each column of a table, the same columns at every step."""
        ...

    @property
    def mark(self) -> float | None:
        """The height of the bar that stands above the step in a picture; None: no bar."""
        ...


class SubjectStep(NamedTuple):
    """One step of a text: what each cell did, at its place in the stack, and what is said."""

    cells: tuple[CellStep, ...]
    said: Said


@dataclass(frozen=True)
class Subject(ABC):
    """A run and one text as it reads it: `shown` are the tokens for a person, a step each.

    `notices` are lines that a person should see; `unknown` are the places, in `shown`, of tokens
    that the run does not know. `task` is that of the run, mark_title says what stands above the
    steps of a picture, and mark_shift how many steps further right.
    """

    path: Path
    settings: Settings
    shown: tuple[str, ...]
    notices: tuple[str, ...]
    unknown: tuple[int, ...]

    task: ClassVar[TaskName]
    mark_title: ClassVar[str]
    mark_shift: ClassVar[int] = 0

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """The whole model."""

    @property
    @abstractmethod
    def stack(self) -> RecurrentStack:
        """The layers that are looked into."""

    @abstractmethod
    def read(self) -> None:
        """Read the text as the run does when it is put to use, by its fast kernels."""

    @abstractmethod
    def pieces(self) -> Iterator[Tensor]:
        """Yield x_1TE, what the first layer reads: the whole, or piece after piece in one way."""

    @abstractmethod
    def vocabulary_pieces(self) -> Iterator[Tensor]:
        """Yield x_B1E of all tokens there are, each a text of its own; nothing where none are."""

    @abstractmethod
    def steps(self, top: int) -> Iterator[SubjectStep]:
        """Yield every step of the text with what is said there, the `top` likeliest of it."""

    def texts(self) -> Iterator[Iterable[Tensor]]:
        """Yield what is read from a beginning of its own, each as pieces x_BTE: the one text."""
        yield self.pieces()

    def unknown_json(self) -> list[dict[str, object]]:
        """Return the tokens that the run does not know, with their places."""
        return [{"position": place, "token": self.shown[place]} for place in self.unknown]

    def answer_json(self) -> Mapping[str, object]:
        """Return what is said of the text as a whole; nothing where nothing is."""
        return {}

    def cells(self) -> Iterator[tuple[CellStep, ...]]:
        """Yield what each cell did at every step, and nothing of what is said."""
        state: StackState | None = None
        for x_1TE in self.pieces():
            with torch.no_grad():
                recording = record(self.stack, x_1TE, state)
            state = recording.state
            yield from zip(*recording.steps, strict=True)

    def layer(self, number: int | None) -> int:
        """Return the layer numbered from 1 as a place; None: the last one.

        Raises `SettingError` for one that the model does not have.
        """
        layers = self.stack.num_layers
        if number is None:
            return layers - 1
        if not 1 <= number <= layers:
            raise SettingError(
                "--layer must be one of the model's", got=str(number), allowed=f"1 to {layers}"
            )
        return number - 1

    def places(self, layer: int) -> tuple[int, ...]:
        """Return where the cells of a layer stand in the stack, one for each direction."""
        ways = self.stack.num_directions
        return tuple(range(layer * ways, (layer + 1) * ways))

    def direction(self, place: int) -> str:
        """Return which way the cell at a place reads, "" where all read forward."""
        if self.stack.num_directions == 1:
            return ""
        return "backward" if place % 2 else "forward"


def text_of_file(name: str, path: Path, encoding: str | None = None) -> str:
    """Return the whole text of a file or of standard input.

    `encoding` None: as the run at `path` says. Raises `DataError` for what cannot be read.
    """
    encoding = encoding or RunFolder.open(path).settings.text.encoding
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        corpus = open_corpus((name,), encoding=encoding, repeats="keep", scratch=Path(scratch))
        return "".join(corpus.chunks())
