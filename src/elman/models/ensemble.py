"""What several models that have the same ids say together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def mean_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """Return ln of the mean of the probabilities: of one model what it says, unchanged."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(list(log_probs)).logsumexp(dim=0) - math.log(len(log_probs))
