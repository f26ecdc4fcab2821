"""A vector for each token: learnt, or its one-hot code."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, one_hot

from elman.layers.dropout import drop_weights
from elman.shapes import require_shape

EmbeddingGradient = Literal["dense", "rows"]


class Embedding(nn.Module):
    """x_t = row ids_t of `weight` [V, E], as `torch.nn.Embedding`, for ids of any integer type."""

    def __init__(self, vocabulary_size: int, embedding_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocabulary_size, embedding_size))

    def forward(
        self,
        ids_BT: Tensor,
        p: float = 0.0,
        generator: torch.Generator | None = None,
        *,
        gradient: EmbeddingGradient = "dense",
    ) -> Tensor:
        """Return x_BTE; ids must lie in 0 … V − 1 (torch raises IndexError).

        With a generator, a share p of all tokens of the vocabulary is left out wherever it occurs
        in ids_BT, and the vectors of the others are divided by 1 − p (Y. Gal, Z. Ghahramani,
        arXiv:1512.05287, section 4.2; "embedding dropout" of S. Merity et al., arXiv:1708.02182).
        `gradient` "rows" makes the gradient of `weight` a sparse tensor of the rows that were met,
        in place of all V.
        """
        require_shape("ids_BT", ids_BT, (None, None))
        ids_BT = ids_BT if ids_BT.dtype == torch.int64 else ids_BT.long()
        x_BTE = embedding(ids_BT, self.weight, sparse=gradient == "rows")
        if generator is None or p == 0.0:
            return x_BTE
        ones_V1 = self.weight.new_ones(len(self.weight), 1)
        return x_BTE * embedding(ids_BT, drop_weights(ones_V1, p, generator))

    def initialise(self, generator: torch.Generator, *, std: float = 1.0) -> None:
        """Draw every number from a normal distribution of standard deviation `std`."""
        with torch.no_grad():
            self.weight.normal_(0.0, std, generator=generator)


def one_hot_inputs(ids_BT: Tensor, vocabulary_size: int, dtype: torch.dtype) -> Tensor:
    """Return x_BTV, the unit vector of each id: `weight_ih` then holds a column for each token.

    Ids must lie in 0 … V − 1 (torch raises RuntimeError).
    """
    require_shape("ids_BT", ids_BT, (None, None))
    return one_hot(ids_BT.long(), vocabulary_size).to(dtype)
