"""states, readout → loss: the loss of tokens as a sum and a count, in nats."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from elman.layers.readout import Readout
from elman.shapes import require_shape


@dataclass(frozen=True)
class LossSum:
    """A loss as what can be added: total nats (a float64 scalar) and how many tokens they cover."""

    nats: Tensor
    count: int

    def __add__(self, other: "LossSum") -> "LossSum":
        """Return the loss over both sets of tokens."""
        return LossSum(self.nats + other.nats, self.count + other.count)

    @classmethod
    def zero(cls) -> "LossSum":
        """Return the loss of no tokens, the start of every sum."""
        return cls(torch.zeros((), dtype=torch.float64), 0)

    def mean(self) -> Tensor:
        """Return nats per token, the one place where a mean is taken; 0 when there are no tokens."""
        return self.nats / max(self.count, 1)


def token_nats(
    states_BTH: Tensor, readout: Readout, targets_BT: Tensor, lengths_B: Tensor | None = None
) -> Tensor:
    """Return nats_BT, −log p(target) of each token, exactly 0 at padding."""
    batch_size, num_steps = targets_BT.shape
    valid_BT = _valid(states_BTH, targets_BT, lengths_B)
    nats_BT = states_BTH.new_zeros(batch_size, num_steps)
    logits_NV = readout.logits(states_BTH[valid_BT])
    nats_BT[valid_BT] = cross_entropy(logits_NV, targets_BT[valid_BT], reduction="none")
    return nats_BT


def token_loss(
    states_BTH: Tensor, readout: Readout, targets_BT: Tensor, lengths_B: Tensor | None = None
) -> LossSum:
    """Return the sum of nats over valid tokens and their count."""
    valid_BT = _valid(states_BTH, targets_BT, lengths_B)
    nats_BT = token_nats(states_BTH, readout, targets_BT, lengths_B)
    return LossSum(nats_BT.double().sum(), int(valid_BT.sum()))


def _valid(states_BTH: Tensor, targets_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
    batch_size, num_steps = targets_BT.shape
    require_shape("states_BTH", states_BTH, (batch_size, num_steps, None))
    if lengths_B is None:
        return torch.ones_like(targets_BT, dtype=torch.bool)
    return torch.arange(num_steps, device=targets_BT.device) < lengths_B.unsqueeze(1)
