"""A subject that is read as a whole before it is answered: what its views need of any such task."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from elman.inspection.gradient_reach import Scalar
from elman.recipes.inspecting.subject import Said, Subject, SubjectStep
from elman.recipes.row_encoding import EncodedRow

VOCABULARY_AT_ONCE = 128


@dataclass(frozen=True)
class AnsweringSubject(Subject):
    """A text with an answer: x_1TE is what the first layer reads of it, in either direction."""

    x_1TE: Tensor

    def pieces(self) -> Iterator[Tensor]:
        """Yield the whole: a reader of the other direction begins at its end."""
        yield self.x_1TE

    def steps(self, top: int) -> Iterator[SubjectStep]:
        """Yield every step of the text."""
        for cells, said in zip(self.cells(), self.said(top), strict=True):
            yield SubjectStep(cells, said)

    @abstractmethod
    def said(self, top: int) -> Sequence[Said]:
        """Return what is said at every step, the `top` likeliest of it."""

    @abstractmethod
    def value(self, states_1TH: Tensor, scalar: Scalar, at: int | None) -> Tensor:
        """Return a number [1] that is made of the states, in the answer's favour or of its norm.

        loss: −ln p of the answer; logit: what stands for it before the softmax; state: the norm of
        what the readout sees. `at` is the one step, from 0, whose answer is meant; None: the whole.
        """

    @abstractmethod
    def answer_at(self, at: int | None) -> str:
        """Return the answer in words. Raises `SettingError` for a step that has none."""


def read_as(row: EncodedRow, *, numbers: bool) -> tuple[dict[str, int | float], ...]:
    """Return what the model reads at each step of a row, by the name that is told of it."""
    name = "scaled" if numbers else "token_id"
    return tuple({name: value} for value in row.tolist())
