"""What every model that is trained can tell of itself."""

from abc import ABC, abstractmethod

from torch import nn


class LearntModel(nn.Module, ABC):
    """A model made of parameters that training changes."""

    def parameter_count(self) -> int:
        """Return how many numbers are learnt; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """Return what the settings mean here, such as cell, sizes and dropout, in words."""
