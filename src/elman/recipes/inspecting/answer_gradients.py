"""The view gradients of what is answered as a whole: how the answer depends on each step read."""

from collections.abc import Mapping
from dataclasses import dataclass

from elman.inspection.gradient_reach import Scalar, stack_gradients
from elman.recipes.inspecting.answering import AnsweringSubject


@dataclass(frozen=True)
class AnswerGradients:
    """Norms of the gradient of one number by the input of each step, and by states of a layer.

    `answer` says in words what the number is of. `states` are by the state that each step begins
    with, under the direction of the cell, "" where there is but one: the state before a step that
    is read backward is that after the next step of the text.
    """

    scalar: Scalar
    answer: str
    value: float
    inputs_T: tuple[float, ...]
    states: Mapping[str, tuple[float, ...]]

    @property
    def largest(self) -> int:
        """The step, from 0, by whose input the gradient is the largest."""
        return max(range(len(self.inputs_T)), key=lambda step: self.inputs_T[step])

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; of one direction the norms by states are a list."""
        states = {way: list(norms) for way, norms in self.states.items()}
        return {
            "scalar": self.scalar,
            "answer": self.answer,
            "value": self.value,
            "input_norms": list(self.inputs_T),
            "state_norms": states.get("", states),
        }


def answer_gradients(
    subject: AnsweringSubject, layer: int, scalar: Scalar = "loss", at: int | None = None
) -> AnswerGradients:
    """Return how the answer, or that at one step, depends on each step and on states of a layer.

    Raises `SettingError` where there is no answer at that step.
    """
    answer = subject.answer_at(at)
    found = stack_gradients(
        subject.stack, subject.x_1TE, lambda states_1TH: subject.value(states_1TH, scalar, at)
    )
    states = {
        subject.direction(place): tuple(found.states_PBT[place, 0].tolist())
        for place in subject.places(layer)
    }
    value = found.scalar_B.item()
    return AnswerGradients(scalar, answer, value, tuple(found.inputs_BT[0].tolist()), states)
