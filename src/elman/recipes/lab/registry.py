"""Every experiment there is, under its name: what the command offers, what the check runs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.recipes.lab.batch_means import BATCH_MEANS
from elman.recipes.lab.carry_path import CARRY_PATH
from elman.recipes.lab.constant_state import CONSTANT_STATE
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.factors import FACTORS
from elman.recipes.lab.feedback import FEEDBACK
from elman.recipes.lab.gru_conventions import GRU_CONVENTIONS
from elman.recipes.lab.jacobians import JACOBIANS
from elman.recipes.lab.memory_cost import MEMORY_COST
from elman.recipes.lab.next_letter import NEXT_LETTER
from elman.recipes.lab.overfitting import OVERFITTING
from elman.recipes.lab.retrieval import RETRIEVAL
from elman.recipes.lab.three_masks import THREE_MASKS
from elman.recipes.lab.two_sequences import TWO_SEQUENCES

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            FACTORS,
            NEXT_LETTER,
            CONSTANT_STATE,
            JACOBIANS,
            CARRY_PATH,
            GRU_CONVENTIONS,
            TWO_SEQUENCES,
            RETRIEVAL,
            THREE_MASKS,
            BATCH_MEANS,
            MEMORY_COST,
            FEEDBACK,
            OVERFITTING,
        )
    }
)
