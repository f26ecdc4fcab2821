"""All settings of a run, each with its default, its range and its meaning.

`docs/settings.md` is made from these classes by `elman.config.reference`.
"""

from dataclasses import dataclass, field

from elman.config.data_settings import DataSettings
from elman.config.model_settings import ModelSettings
from elman.config.text_settings import TextSettings
from elman.config.training_settings import TrainingSettings


@dataclass(frozen=True)
class Settings:
    """All settings of a language-model run, as `config.toml` holds them."""

    text: TextSettings = field(default_factory=TextSettings)
    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
