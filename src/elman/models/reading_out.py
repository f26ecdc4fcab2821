"""settings → the readout of a language model: one matrix or classes, its own or the embedding's."""

from torch import nn

from elman.config.model_settings import ModelSettings
from elman.layers.class_split import ClassSplitReadout
from elman.layers.readout import Readout, SoftmaxReadout
from elman.layers.tied_classes import TiedClassSplitReadout


def new_readout(
    settings: ModelSettings,
    written: int,
    vocabulary_size: int,
    embedding: nn.Parameter | None,
) -> SoftmaxReadout:
    """Return the readout of states of width `written`, all zeros; `embedding` [V, E] may be tied.

    With `softmax` "adaptive", `cutoffs` must be chosen by now.
    """
    tied = embedding if settings.tie_weights else None
    if settings.softmax == "full":
        return Readout(written, vocabulary_size, tied=tied)
    if tied is not None:
        return TiedClassSplitReadout(written, tied, cutoffs=settings.cutoffs)
    return ClassSplitReadout(
        written, vocabulary_size, cutoffs=settings.cutoffs, divisor=settings.tail_divisor
    )
