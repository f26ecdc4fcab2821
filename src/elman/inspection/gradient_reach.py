"""How a scalar at the end of a text depends on each input and each state before it.

‖d y / d x_{T−k}‖ and ‖d y / d h_{T−k}‖ over k, y one of

logit   of the token that really comes next
loss    its −ln p, in nats
state   the norm of what the readout sees
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from elman.inspection.recording import record
from elman.layers.stack import StackState
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
    with torch.enable_grad():
        with torch.no_grad():
            read_BTE = model.inputs(ids_BT)
        x_BTE = read_BTE.clone().requires_grad_(True)
        first = model.zero_state(len(ids_BT)) if state is None else state
        own = [[part.clone().requires_grad_(True) for part in each] for each in first]
        begun = tuple(model.stack.cell(place).pack_state(each) for place, each in enumerate(own))
        recording = record(model.stack, x_BTE, begun)
        value_B = _value(model, recording.states_BTH[:, -1], next_B, scalar)
        parts = [part for steps in recording.steps for step in steps for part in step.before]
        grads = torch.autograd.grad(value_B.sum(), [x_BTE, *parts], allow_unused=True)
    inputs_BK = grads[0].norm(dim=2).flip(1)
    by_layer, rest = [], iter(grads[1:])
    for steps in recording.steps:
        by_step = [_joint_norm([next(rest) for _ in step.before], len(ids_BT)) for step in steps]
        by_layer.append(torch.stack(by_step[::-1], dim=1))
    with torch.no_grad():
        found_B = value_B + 0.0
    return GradientReach(found_B, inputs_BK, torch.stack(by_layer))


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
