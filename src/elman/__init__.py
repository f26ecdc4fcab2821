"""Elman: recurrent sequence models on your own text, exact, fast, safe and open to the eye.

text → ids → batches → states → logits → loss | decoding.

`elman.open_trained(path)` opens a run, `elman.score_files` and `elman.Writer` use it; names are
imported on first use, so that importing the package is quick.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType

__version__ = "0.1.0"

_HOMES: Mapping[str, str] = MappingProxyType(
    {
        "ElmanError": "elman.errors",
        "ScoreRequest": "elman.recipes.scoring",
        "SamplingSettings": "elman.decoding.filters",
        "Settings": "elman.config.settings",
        "TrainRequest": "elman.recipes.language_model",
        "WriteRequest": "elman.recipes.generating",
        "Writer": "elman.recipes.generating",
        "open_trained": "elman.recipes.trained",
        "score_files": "elman.recipes.scoring",
        "start_run": "elman.recipes.language_model",
        "train_run": "elman.recipes.language_model",
    }
)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'elman' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
