"""Every experiment there is, under its name: what the command offers, what the check runs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.recipes.lab.direct_attention import DIRECT_ATTENTION
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.factors import FACTORS
from elman.recipes.lab.facts_in_state import FACTS_IN_STATE
from elman.recipes.lab.first_token_memory import MEMORY_SEQUENCES, MEMORY_TASK
from elman.recipes.lab.fixed_memory import FIXED_MEMORY
from elman.recipes.lab.gate_values import GATE_VALUES
from elman.recipes.lab.gradient_reach import GRADIENT_REACH
from elman.recipes.lab.loop_by_hand import LOOP_BY_HAND
from elman.recipes.lab.word_order import WORD_ORDER

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            FACTORS,
            WORD_ORDER,
            LOOP_BY_HAND,
            GRADIENT_REACH,
            GATE_VALUES,
            MEMORY_SEQUENCES,
            MEMORY_TASK,
            FIXED_MEMORY,
            FACTS_IN_STATE,
            DIRECT_ATTENTION,
        )
    }
)
