"""The adding task: many numbers, two of them marked, whose sum is the answer.

    0.3 0.8 0.1 0.6 0.9 0.2        the numbers are even in [0, 1); one mark stands in the
     0   1   0   0   1   0  → 1.7  first half, the other in the second

Always answering 1 has a mean squared error of 1/6, the variance of the sum. Source: S. Hochreiter,
J. Schmidhuber, Neural Computation 9 (1997), experiment 4, in the form of M. Arjovsky, A. Shah, Y.
Bengio, arXiv:1511.06464, section 4.2.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class SumBatch(NamedTuple):
    """values_BTF [B, T, 2]: a number and whether it is marked; lengths_B; sums_B the answers."""

    values_BTF: Tensor
    lengths_B: Tensor
    sums_B: Tensor

    @property
    def num_targets(self) -> int:
        """Rows."""
        return len(self.lengths_B)

    @property
    def continues(self) -> bool:
        """No row goes on from another."""
        return False

    @property
    def num_rows(self) -> int:
        """B."""
        return len(self.lengths_B)

    def rows(self, which: slice) -> "SumBatch":
        """Return these rows alone, as wide as they are here."""
        return SumBatch(*(tensor[which] for tensor in self))


def adding_batch(num_rows: int, length: int, draw: np.random.Generator) -> SumBatch:
    """Return rows of `length` numbers, at least 2, with their marks and the sums of the marked."""
    values_BTF = np.zeros((num_rows, length, 2), dtype=np.float32)
    values_BTF[:, :, 0] = draw.random((num_rows, length))
    half, rows_B = length // 2, np.arange(num_rows)
    values_BTF[rows_B, draw.integers(0, half, num_rows), 1] = 1.0
    values_BTF[rows_B, draw.integers(half, length, num_rows), 1] = 1.0
    sums_B = (values_BTF[:, :, 0] * values_BTF[:, :, 1]).sum(axis=1)
    lengths_B = torch.full((num_rows,), length)
    return SumBatch(torch.from_numpy(values_BTF), lengths_B, torch.from_numpy(sums_B))
