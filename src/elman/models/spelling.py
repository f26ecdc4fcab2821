"""What a word looks like: a recurrent reader of its characters, in both directions."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.pooling import final_states
from elman.models.encoding import SequenceEncoder


class SpellingEncoder(nn.Module):
    """(spellings, lengths) → vectors_WE: where each reader of a word's characters ended.

        v_w = [forward state at the last character, backward state at the first one]

    One layer of `model.character_units` units of the model's kind in each direction over vectors of
    `model.character_size`; E is twice the units. Source: W. Ling et al., Finding Function in Form,
    EMNLP 2015, and G. Lample et al., arXiv:1603.01360, section 4.1; here without a projection.
    """

    def __init__(self, settings: ModelSettings, num_characters: int) -> None:
        super().__init__()
        self.reader = SequenceEncoder(_of_spellings(settings), num_characters)
        self.output_size = self.reader.output_size

    def forward(self, spellings_WK: Tensor, lengths_W: Tensor, *, plan: KernelPlan) -> Tensor:
        """Return a vector for each word: [W, E]; steps t ≥ lengths_W are padding."""
        states_WKE, _ = self.reader(spellings_WK, lengths_W, plan=plan)
        return final_states(states_WKE, lengths_W, num_directions=2)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the vectors of characters, then the cells."""
        self.reader.initialise(generator)


def _of_spellings(settings: ModelSettings) -> ModelSettings:
    """Return the settings of the reader: the cell is that of the model, noise is not.

    What noise there is acts on the vectors of words, beside their embeddings.
    """
    return replace(
        settings,
        embedding_size=settings.character_size,
        hidden_size=settings.character_units,
        embedding_std=0.0,
        num_layers=1,
        bidirectional=True,
        dropout=0.0,
        embedding_dropout=0.0,
        forget_biases=(),
        projection_size=0,
        residual=False,
        layer_norm="cell" if settings.layer_norm in ("cell", "both") else "none",
        recurrent_dropout=0.0,
        zoneout=0.0,
        zoneout_cell=0.0,
        weight_dropout=0.0,
        token_dropout=0.0,
    )
