"""Sizes of a recurrent language model by name, each with the noise that its size needs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.config.checks import acts_in
from elman.config.settings import Settings
from elman.config.toml_file import key_of_override
from elman.recipes.presets import named_preset

_WORDS = (
    "model.softmax=auto",
    "model.tie_weights=true",
    "training.optimizer=adamw",
)
"""AdamW: most of the weights are vectors of words, which Muon leaves to it. At a rate of 0.012 an
epoch of WikiText-2 ends 17 % lower in perplexity than at 0.003, and the medium size reaches 107 on
its validation part in 41 minutes of two threads (`benchmarks/RESULTS.md`)."""
_RATE = ("training.learning_rate=0.012", "training.warmup_updates=200")
_CHARACTERS = ("model.dropout_kind=locked",)

WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "small": (
            *_WORDS,
            "model.dropout_kind=locked",
            "model.embedding_size=256",
            "model.hidden_size=256",
            "model.num_layers=1",
            "model.dropout=0.3",
            "model.embedding_dropout=0.1",
            *_RATE,
            "training.batch_size=32",
            "training.window=35",
        ),
        "medium": (
            *_WORDS,
            "model.embedding_size=256",
            "model.hidden_size=320",
            "model.num_layers=2",
            "model.dropout=0.25",
            "model.embedding_dropout=0.1",
            "model.dropout_kind=ordinary",
            *_RATE,
            "training.batch_size=32",
            "training.window=70",
        ),
        "large": (
            *_WORDS,
            "model.dropout_kind=locked",
            "model.embedding_size=400",
            "model.hidden_size=1152",
            "model.num_layers=3",
            "model.dropout=0.4",
            "model.embedding_dropout=0.4",
            "model.token_dropout=0.1",
            "model.weight_dropout=0.5",
            "training.activation_penalty=2.0",
            "training.change_penalty=1.0",
            "training.window_deviation=5.0",
            "training.learning_rate=0.004",
            "training.batch_size=64",
            "training.window=70",
            "training.average_trigger=5",
        ),
    }
)
CHARACTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "small": (
            *_CHARACTERS,
            "model.embedding_size=64",
            "model.hidden_size=256",
            "model.num_layers=1",
            "model.dropout=0.1",
            "training.batch_size=32",
            "training.window=64",
        ),
        "medium": (
            *_CHARACTERS,
            "model.embedding_size=64",
            "model.hidden_size=512",
            "model.num_layers=2",
            "model.dropout=0.3",
            "training.batch_size=32",
            "training.window=100",
        ),
        "large": (
            *_CHARACTERS,
            "model.embedding_size=128",
            "model.hidden_size=1024",
            "model.num_layers=3",
            "model.dropout=0.4",
            "model.weight_dropout=0.3",
            "training.activation_penalty=2.0",
            "training.change_penalty=1.0",
            "training.window_deviation=5.0",
            "training.batch_size=64",
            "training.window=100",
            "training.average_trigger=5",
        ),
    }
)


def language_preset(name: str, early: Settings) -> tuple[str, ...]:
    """Return the overrides of "small", "medium" or "large" at the level of tokens in `early`.

    Those that say nothing beside what `early` has, to its kind of model or to lines, are left out.
    Raises `SettingError` for another name.
    """
    presets = WORDS if early.text.level in ("word", "bpe") else CHARACTERS
    found = named_preset(presets, name)
    return tuple(one for one in found if acts_in(key_of_override(one), early))
