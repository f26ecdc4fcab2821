"""(ids, state) → (states, readout, state): what every language model is, whatever it is made of."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import EmbeddingGradient
from elman.layers.readout import TokenReadout
from elman.layers.stack import StackState
from elman.models.learnt import LearntModel


class ModelOutput(NamedTuple):
    """What a model hands on: states, the readout that makes logits of them, the state after.

    raw_BTH are the states before dropout, where the model has such.
    """

    states_BTH: Tensor
    readout: TokenReadout
    state: StackState
    raw_BTH: Tensor | None = None


class LanguageModel(LearntModel):
    """A distribution over the next token at every step, from the tokens before it.

    A state is a tuple of `NamedTuple`s of tensors whose first axis is B; zeros everywhere are the
    state before any token, which is what None stands for. How a text is cut into calls changes
    nothing: what a model may look back at is in its state.
    """

    vocabulary_size: int
    readout: TokenReadout

    @abstractmethod
    def forward(
        self,
        ids_BT: Tensor,
        state: StackState | None = None,
        lengths_B: Tensor | None = None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
        embedding_gradient: EmbeddingGradient = "dense",
    ) -> ModelOutput:
        """Read ids_BT after `state`; steps t ≥ lengths_B are padding and change nothing.

        Noise acts if and only if a generator is passed. `recompute` and `embedding_gradient` act
        where a model has what they are about.
        """

    @abstractmethod
    def zero_state(self, batch_size: int) -> StackState:
        """Return the state before any token."""

    @property
    def has_own_embedding(self) -> bool:
        """Whether there is an embedding whose gradient nothing else adds to."""
        return False

    @property
    def has_vectors(self) -> bool:
        """Whether its states_BTH are vectors, which can be compared; those of counts are not."""
        return True

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        tensors = (*self.parameters(), *self.buffers())
        return tensors[0].device

    def state_of(self, parts: Mapping[str, Tensor]) -> StackState:
        """Return the state of one row whose parts are named as `state_parts` names them.

        Raises `KeyError` with the name of a part that is missing, `ValueError` with what is wrong
        of one that does not fit.
        """
        found = []
        for place, zeros in enumerate(self.zero_state(1)):
            fields = []
            for name, zero in state_parts(place, zeros):
                part = parts[name]
                if not fits_state(part, zero):
                    raise ValueError(
                        f"{name} of sizes {list(part.shape)} where this model has "
                        f"{list(zero.shape)}"
                    )
                fields.append(part.to(dtype=zero.dtype, device=zero.device, copy=True))
            found.append(type(zeros)(*fields))
        return tuple(found)


def fits_state(part: Tensor, zeros: Tensor) -> bool:
    """Return whether a part of a state has the axes of that before any token; one of 0 may grow."""
    return part.ndim == zeros.ndim and all(
        size == zero or not zero for size, zero in zip(part.shape, zeros.shape, strict=True)
    )


def state_parts(place: int, part: tuple[Tensor, ...]) -> list[tuple[str, Tensor]]:
    """Return the tensors of one part of a state with their names: `cell.0.h`, `cell.0.c`."""
    fields: tuple[str, ...] = getattr(type(part), "_fields", ())
    return [
        (f"cell.{place}.{field.partition('_')[0]}", tensor)
        for field, tensor in zip(fields, part, strict=True)
    ]
