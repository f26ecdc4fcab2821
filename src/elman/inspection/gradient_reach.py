"""How a scalar at the end of a text depends on each input and each state before it.

‖d y / d x_{T−k}‖ and ‖d y / d h_{T−k}‖ over k, y one of

logit   of the token that really comes next
loss    its −ln p, in nats
state   the norm of what the readout sees

`stack_gradients` asks the same of any number that is made of the states of a stack, in one
direction or two.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from elman.inspection.recording import record
from elman.layers.stack import RecurrentStack, StackState
from elman.models.recurrent import RecurrentLanguageModel

Scalar = Literal["logit", "loss", "state"]


class GradientReach(NamedTuple):
    """Norms of gradients of one scalar a row [B], by k = 0 … T − 1 steps before the last one.

    inputs_BK are by the vector that the first layer reads at step T − k, states_LBK by the state
    that each layer begins this step with, all its parts together.
    """

    scalar_B: Tensor
    inputs_BK: Tensor
    states_LBK: Tensor


class StackGradients(NamedTuple):
    """Norms of gradients of one scalar a row [B], in the order of the text.

    inputs_BT are by the vector that the first layer reads at step t, states_PBT by the state that
    the cell at each place = layer · directions + direction begins this step with, all its parts
    together: for a cell that reads backward, that after step t + 1.
    """

    scalar_B: Tensor
    inputs_BT: Tensor
    states_PBT: Tensor


def gradient_reach(
    model: RecurrentLanguageModel,
    ids_BT: Tensor,
    next_B: Tensor,
    scalar: Scalar = "loss",
    state: StackState | None = None,
) -> GradientReach:
    """Return how the scalar after ids_BT depends on what came before; rows are independent.

    next_B [B] are the tokens that come next. The model's parameters keep their gradients as they
    are.
    """
    with torch.no_grad():
        x_BTE = model.inputs(ids_BT)

    def value_of(states_BTH: Tensor) -> Tensor:
        return _value(model, states_BTH[:, -1], next_B, scalar)

    found = stack_gradients(model.stack, x_BTE, value_of, state)
    return GradientReach(found.scalar_B, found.inputs_BT.flip(1), found.states_PBT.flip(2))


def stack_gradients(
    stack: RecurrentStack,
    x_BTE: Tensor,
    value_of: Callable[[Tensor], Tensor],
    state: StackState | None = None,
) -> StackGradients:
    """Return how value_of(states_BTH) [B] depends on x_BTE [B, T, E] and on every state before.

    Rows are independent: each value is of its own row alone. What the parameters have as gradients
    stays as it is.
    """
    with torch.enable_grad():
        x_BTE = x_BTE.clone().requires_grad_(True)
        first = stack.zero_state(len(x_BTE)) if state is None else state
        own = [[part.clone().requires_grad_(True) for part in each] for each in first]
        begun = tuple(stack.cell(place).pack_state(each) for place, each in enumerate(own))
        recording = record(stack, x_BTE, begun)
        value_B = value_of(recording.states_BTH)
        parts = [part for steps in recording.steps for step in steps for part in step.before]
        grads = torch.autograd.grad(value_B.sum(), [x_BTE, *parts], allow_unused=True)
    by_place, rest = [], iter(grads[1:])
    for steps in recording.steps:
        by_step = [_joint_norm([next(rest) for _ in step.before], len(x_BTE)) for step in steps]
        by_place.append(torch.stack(by_step, dim=1))
    with torch.no_grad():
        found_B = value_B + 0.0
    return StackGradients(found_B, grads[0].norm(dim=2), torch.stack(by_place))


def _value(
    model: RecurrentLanguageModel, last_BH: Tensor, next_B: Tensor, scalar: Scalar
) -> Tensor:
    if scalar == "state":
        norm_B: Tensor = torch.linalg.vector_norm(last_BH, dim=1)
        return norm_B
    logits_BV = model.readout.logits(last_BH.unsqueeze(1))[:, 0]
    if scalar == "loss":
        logits_BV = -logits_BV.log_softmax(dim=1)
    return logits_BV.gather(1, next_B.unsqueeze(1))[:, 0]


def _joint_norm(parts: list[Tensor | None], batch_size: int) -> Tensor:
    """Return the norm over all parts of a state, 0 for those that nothing depends on."""
    found = [part.square().sum(dim=1) for part in parts if part is not None]
    return torch.stack(found).sum(dim=0).sqrt() if found else torch.zeros(batch_size)
