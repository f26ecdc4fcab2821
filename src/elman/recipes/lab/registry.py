"""Every experiment there is, under its name: what the command offers, what the check runs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.recipes.lab.clue_parameters import CLUE_PARAMETERS
from elman.recipes.lab.clue_sweeps import CLUE_SWEEPS
from elman.recipes.lab.clue_window import CLUE_WINDOW
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.factors import FACTORS
from elman.recipes.lab.long_clue import LONG_CLUE
from elman.recipes.lab.short_clue import SHORT_CLUE

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            CLUE_PARAMETERS,
            CLUE_SWEEPS,
            CLUE_WINDOW,
            FACTORS,
            LONG_CLUE,
            SHORT_CLUE,
        )
    }
)
