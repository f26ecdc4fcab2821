"""The gradient of weights that every step shares, parted into what each step contributes.

    dL/dW = Σ_t ∂L/∂W_t,   W_t the copy of W that step t uses

Each step of every cell gets tensors of its own with the same numbers; what they receive is the
contribution of that step, and the sum of all is the gradient.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from elman.inspection.recording import record_step
from elman.layers.stack import RecurrentStack, StackState


class WeightUses(NamedTuple):
    """norms[name] [T]: of each step's contribution; total[name]: their sum, which is the gradient.

    Names are those of the stack's parameters, such as `cells.0.weight_hh`.
    """

    norms: Mapping[str, Tensor]
    total: Mapping[str, Tensor]


def weight_uses(
    stack: RecurrentStack,
    x_BTE: Tensor,
    loss_of: Callable[[Tensor], Tensor],
    state: StackState | None = None,
) -> WeightUses:
    """Return what each step adds to the gradient of `loss_of(states_BTH)`, a scalar.

    x_BTE [B, T, E], all rows of T steps, read in one direction. Memory is T times the weights.
    """
    first = stack.zero_state(len(x_BTE)) if state is None else state
    copies: list[tuple[str, int, Tensor]] = []
    with torch.enable_grad():
        read_BTE = x_BTE
        for layer in range(stack.num_layers):
            cell, before, outputs = stack.cell(layer), first[layer], []
            for step, x_BE in enumerate(read_BTE.unbind(1)):
                with torch.no_grad():
                    own = {name: value.clone() for name, value in cell.named_parameters()}
                for name, copy in own.items():
                    copies.append((f"cells.{layer}.{name}", step, copy.requires_grad_(True)))
                before = record_step(cell.with_weights(own), x_BE, before).after
                outputs.append(before[0])
            read_BTE = stack.joined(layer, read_BTE, torch.stack(outputs, dim=1), None)
        wanted = [copy for _, _, copy in copies]
        grads = torch.autograd.grad(loss_of(read_BTE), wanted, allow_unused=True)
    norms: dict[str, Tensor] = {}
    total: dict[str, Tensor] = {}
    for (name, step, copy), grad in zip(copies, grads, strict=True):
        found = torch.zeros_like(copy) if grad is None else grad
        norms.setdefault(name, found.new_zeros(x_BTE.shape[1]))[step] = found.norm()
        total[name] = total[name] + found if name in total else found
    return WeightUses(norms, total)
