"""What changed between two sets of weights, parameter by parameter."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class ParameterChange(NamedTuple):
    """Of one parameter: its norm before, the norm of the change, and its largest entry.

    `equal` says that every bit is the same; not a number counts as a change.
    """

    name: str
    num_values: int
    norm_before: float
    norm_of_change: float
    largest: float
    equal: bool

    @property
    def relative(self) -> float | None:
        """The change over the norm before; None where that is 0."""
        return self.norm_of_change / self.norm_before if self.norm_before else None


def parameter_changes(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> list[ParameterChange]:
    """Return the change of each parameter, in the order of `before`.

    Raises `KeyError` where the names are not the same, `ValueError` where shapes are not.
    """
    if set(before) != set(after):
        raise KeyError(", ".join(sorted(set(before) ^ set(after))))
    found = []
    for name, old in before.items():
        new = after[name]
        if old.shape != new.shape:
            raise ValueError(f"{name}: {list(old.shape)} and {list(new.shape)}")
        difference = new.double() - old.double()
        largest = difference.abs().max().item() if old.numel() else 0.0
        norms = torch.linalg.vector_norm(old.double()), torch.linalg.vector_norm(difference)
        found.append(
            ParameterChange(
                name,
                old.numel(),
                norms[0].item(),
                norms[1].item(),
                largest,
                old.dtype == new.dtype and torch.equal(old, new),
            )
        )
    return found
