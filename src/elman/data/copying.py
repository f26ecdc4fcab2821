"""The copying task: ten symbols, many blanks, a mark, and then the ten symbols once more.

    read   3 1 … 7 · · · · · ! · · · ·
    write  · · · · · · · · · · 3 1 … 7

A model that forgets writes blanks and then guesses: 10 ln 8 / (T + 20) nats a token. Source: S.
Hochreiter, J. Schmidhuber, Neural Computation 9 (1997), in the form of M. Arjovsky, A. Shah, Y.
Bengio, arXiv:1511.06464, section 4.1.
"""

import numpy as np
import torch

from elman.data.batches import TokenBatch

NUM_COPIED, NUM_LETTERS = 10, 8
BLANK, MARK = 8, 9
NUM_COPY_SYMBOLS = 10
"""Ids 0 … 7 are copied; then the blank and the mark."""


def copying_batch(num_rows: int, num_blanks: int, draw: np.random.Generator) -> TokenBatch:
    """Return rows of T + 20 ids with T = `num_blanks`, at least 1, and what to write at each."""
    letters_BC = draw.integers(0, NUM_LETTERS, (num_rows, NUM_COPIED))
    num_steps = num_blanks + 2 * NUM_COPIED
    ids_BT = np.full((num_rows, num_steps), BLANK)
    targets_BT = ids_BT.copy()
    ids_BT[:, :NUM_COPIED] = letters_BC
    ids_BT[:, NUM_COPIED + num_blanks - 1] = MARK
    targets_BT[:, -NUM_COPIED:] = letters_BC
    lengths_B = torch.full((num_rows,), num_steps)
    return TokenBatch(torch.from_numpy(ids_BT), torch.from_numpy(targets_BT), lengths_B, False)
