"""The memory task: the first token is the answer, and all that follow are noise.

    0 7 2 9 … → 0        1 5 5 3 … → 1

How far the answer has to be carried is the length, and nothing else about the task changes.
"""

import numpy as np
import torch

from elman.data.examples import LabelBatch

NUM_CLUES, NUM_SYMBOLS = 2, 10
"""Ids 0 and 1 are clues; the noise is of the others, so that a gate can tell it by itself."""


def first_token_batch(num_rows: int, length: int, draw: np.random.Generator) -> LabelBatch:
    """Return rows of `length` ids of which the first is 0 or 1, and it is the label of its row."""
    ids_BT = draw.integers(NUM_CLUES, NUM_SYMBOLS, (num_rows, length))
    ids_BT[:, 0] = draw.integers(0, NUM_CLUES, num_rows)
    ids = torch.from_numpy(ids_BT)
    labels_BC = torch.nn.functional.one_hot(ids[:, 0], NUM_CLUES).float()
    return LabelBatch(ids, torch.full((num_rows,), length), labels_BC)
