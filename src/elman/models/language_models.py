"""settings → the language model that they describe: the one place of the choice."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from elman.config.model_settings import ModelSettings
from elman.models.language import LanguageModel
from elman.models.recurrent import RecurrentLanguageModel
from elman.models.transformer import TransformerLanguageModel
from elman.models.window import WindowLanguageModel

Builder = Callable[[ModelSettings, int, torch.Generator], LanguageModel]

NOT_RECURRENT: Mapping[str, Builder] = MappingProxyType(
    {"window": WindowLanguageModel, "transformer": TransformerLanguageModel}
)
"""Models that are learnt and have no recurrence, by `model.kind`; all others are cells."""


def new_language_model(
    settings: ModelSettings, vocabulary_size: int, generator: torch.Generator
) -> LanguageModel:
    """Return a new language model that is learnt, its parameters drawn from `generator`."""
    build = NOT_RECURRENT.get(settings.kind, RecurrentLanguageModel)
    return build(settings, vocabulary_size, generator)
