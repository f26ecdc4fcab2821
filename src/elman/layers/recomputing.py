"""Run blocks of steps again in the backward pass instead of keeping what they computed."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from elman.cells.cell import CellState
from elman.layers.noise import StackNoise

States = tuple[CellState, ...]
BlockRun = Callable[[Tensor, States | None, Tensor | None, StackNoise], tuple[Tensor, States]]
"""(x_BTE, state, lengths_B, noise) → (states_BTH, state): nothing random, nothing hidden."""


def run_in_blocks(
    run: BlockRun,
    x_BTE: Tensor,
    state: States | None,
    lengths_B: Tensor | None,
    noise: StackNoise,
    block_steps: int,
) -> tuple[Tensor, States]:
    """Return `run` over all of x_BTE, in blocks of `block_steps` whose insides are not kept.

    Kept until the backward pass are x_BTE, the result, and for each border the state and the noise
    (booleans); at any moment of that pass there is also the inside of one block. Every block is
    computed twice, so that a training step costs about one more forward pass: with T steps and
    blocks of K, memory falls from O(T) to O(T / K + K) states of all layers beside the two arrays
    above. The graph is that of one run after another with the state carried, only what it keeps is
    computed anew. On the readable loop values therefore have the same bits as without blocks, and
    gradients too, but for the order in which three or more addends of a state at a border are
    summed (GRU, MGU, zoneout); kernels that sum a weight's gradient over a whole sequence at once,
    and rows of several lengths, differ by rounding.
    Source: T. Chen et al., arXiv:1604.06174; A. Gruslys et al., arXiv:1606.03401.
    """
    pieces: list[Tensor] = []
    start = 0
    # split, not slices: the gradient of each slice would be an array as long as the whole.
    for x_block_BTE in torch.split(x_BTE, block_steps, dim=1):
        stop = start + x_block_BTE.shape[1]
        left_B = None if lengths_B is None else (lengths_B - start).clamp(0, stop - start)
        piece_BTH, state = checkpoint(
            _run_apart,
            run,
            x_block_BTE,
            state,
            left_B,
            noise.of_steps(start, stop),
            use_reentrant=False,
            preserve_rng_state=False,
        )
        pieces.append(piece_BTH)
        start = stop
    assert state is not None  # x_BTE has more steps than a block
    return torch.cat(pieces, dim=1), state


def _run_apart(
    run: BlockRun, x_BTE: Tensor, state: States | None, lengths_B: Tensor | None, noise: StackNoise
) -> tuple[Tensor, States]:
    """Return what `run` does, with a state of its own: a view would keep its whole block."""
    states_BTH, after = run(x_BTE, state, lengths_B, noise)
    return states_BTH, tuple(_copied(cell_state) for cell_state in after)


def _copied(state: CellState) -> CellState:
    parts = [
        part.clone() if part.untyped_storage().nbytes() > part.nbytes else part for part in state
    ]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
