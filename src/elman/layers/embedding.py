"""A vector for each token."""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from elman.shapes import require_shape


class Embedding(nn.Module):
    """x_t = row ids_t of `weight` [V, E], as `torch.nn.Embedding`, for ids of any integer type."""

    def __init__(self, vocabulary_size: int, embedding_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocabulary_size, embedding_size))

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Return x_BTE; ids must lie in 0 … V − 1 (torch raises IndexError)."""
        require_shape("ids_BT", ids_BT, (None, None))
        return embedding(ids_BT if ids_BT.dtype == torch.int64 else ids_BT.long(), self.weight)

    def initialise(self, generator: torch.Generator, *, std: float = 1.0) -> None:
        """Draw every number from a normal distribution of standard deviation `std`."""
        with torch.no_grad():
            self.weight.normal_(0.0, std, generator=generator)
