"""Every experiment there is, under its name: what the command offers, what the check runs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.factors import FACTORS

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {experiment.name: experiment for experiment in (FACTORS,)}
)
