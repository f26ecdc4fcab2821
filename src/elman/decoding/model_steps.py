"""A recurrent language model as the step functions of a search."""

from torch import Tensor

from elman.decoding.search import StepFunctions
from elman.kernels.dispatch import KernelPlan
from elman.layers.context import select_rows
from elman.layers.stack import StackState
from elman.models.language import LanguageModel


def language_steps(model: LanguageModel, plan: KernelPlan) -> StepFunctions[StackState]:
    """Return the functions of `model`: dropout is off, the state is the stack's.

    Start from `model.zero_state(B)`, or from the state after a prompt, of which the last id has
    not been read.
    """

    def step(state: StackState, last_ids_N: Tensor) -> tuple[Tensor, StackState]:
        output = model(last_ids_N.unsqueeze(1), state, plan=plan)
        logits_NV = output.readout.logits(output.states_BTH[:, 0])
        return logits_NV.log_softmax(dim=1), output.state

    def reorder(state: StackState, rows_N: Tensor) -> StackState:
        return select_rows(state, rows_N)

    return StepFunctions(step, reorder)
