"""The derivative of one step by the state before it, and the terms that it is the sum of.

    state_t = combine(gates(x_t, state_{t−1}), state_{t−1})
    d state_t / d state_{t−1}  =  ∂ combine / ∂ state              the carry: every gate held
                               +  Σ_g ∂ combine / ∂ g · d g / d state_{t−1}     one term a gate

For an LSTM's memory the carry is diag(f), for a GRU's state diag(z) (or 1 − z): what is called the
direct path. The whole derivative is not that path alone, and a gate near 1 does not make it 1.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import jacrev

from elman.cells.cell import Cell, CellState


class StepDerivative(NamedTuple):
    """Matrices [P, P] over all parts of the state, one behind the other as `state_names` says.

    Entry (i, j) is the derivative of number i after the step by number j before it. `full_PP` is
    `carry_PP` and all of `by_gate` together.
    """

    full_PP: Tensor
    carry_PP: Tensor
    by_gate: Mapping[str, Tensor]


def step_derivative(cell: Cell, x_E: Tensor, state: CellState) -> StepDerivative:
    """Return the derivative of the step of one row, its state given as parts [1, H] or [H].

    x_E [E]. The full derivative is that of `Cell.step` itself, not the sum of the terms.
    """
    x_BE = x_E.reshape(1, -1)
    before_P = torch.cat([part.reshape(-1) for part in state])

    def parts(flat_P: Tensor) -> CellState:
        pieces = torch.split(flat_P, list(cell.state_sizes))
        return cell.pack_state([piece[None] for piece in pieces])

    def flat(state: CellState) -> Tensor:
        return torch.cat([part.reshape(-1) for part in state])

    with torch.no_grad():
        gates = cell.gates(x_BE, parts(before_P))
        full_PP = jacrev(lambda flat_P: flat(cell.step(x_BE, parts(flat_P))))(before_P)
        carry_PP = jacrev(lambda flat_P: flat(cell.combine(gates, parts(flat_P))))(before_P)
        of_gates = jacrev(lambda flat_P: cell.gates(x_BE, parts(flat_P)))(before_P)
        by_gates = jacrev(lambda each: flat(cell.combine(each, parts(before_P))))(gates)
    terms = {
        name: by_gates[name].reshape(len(before_P), -1) @ of_gates[name].reshape(-1, len(before_P))
        for name in cell.gate_names
    }
    return StepDerivative(full_PP, carry_PP, terms)


def carried_share(cell: Cell, gates: Mapping[str, Tensor], state: CellState) -> Tensor:
    """Return ∂ memory_t / ∂ memory_{t−1} with every gate held, unit by unit, [B, H].

    The memory is the last part of the state: c of an LSTM, h of all others. An Elman cell carries
    nothing past its one product: 0.
    """
    with torch.enable_grad():
        held = [part.clone().requires_grad_(True) for part in state]
        memory_BH = cell.combine(gates, cell.pack_state(held))[-1]
        if not memory_BH.requires_grad:
            return torch.zeros_like(state[-1])
        (share_BH,) = torch.autograd.grad(memory_BH.sum(), held[-1], allow_unused=True)
    return torch.zeros_like(state[-1]) if share_BH is None else share_BH
