"""The optional packages that measure and draw, imported where they are used and no earlier."""

import importlib
from typing import Any, Literal

from elman.errors import MissingPackageError

MetricModule = Literal[
    "seqeval.metrics.sequence_labeling",
    "seqeval.scheme",
    "sacrebleu.metrics",
    "jiwer",
    "matplotlib",
    "matplotlib.colors",
    "matplotlib.figure",
    "matplotlib.font_manager",
]
"""The modules of the extra `metrics` that are used."""


def metric_module(name: MetricModule, purpose: str) -> Any:
    """Return the module; raises `MissingPackageError` with the command that installs it.

    `purpose` ends the sentence "the package … is needed to …".
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(
            f"the package {name.partition('.')[0]} is needed to {purpose}",
            hint="install it with: pip install 'elman[metrics]'",
        ) from None
