"""Every experiment there is, under its name: what the command offers, what the check runs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.recipes.lab.contexts_of_a_token import CONTEXTS_OF_A_TOKEN
from elman.recipes.lab.count_context import COUNT_CONTEXT, COUNT_ORDERS
from elman.recipes.lab.derivative_paths import DERIVATIVE_PATHS
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.factors import FACTORS
from elman.recipes.lab.gated_steps import GATED_STEPS
from elman.recipes.lab.own_prefixes import OWN_PREFIXES
from elman.recipes.lab.plain_steps import PLAIN_STEPS
from elman.recipes.lab.sequence_layouts import SEQUENCE_LAYOUTS
from elman.recipes.lab.serial_cost import SERIAL_COST
from elman.recipes.lab.source_summary import SOURCE_SUMMARY, SUMMARY_BOTTLENECK
from elman.recipes.lab.window_borders import WINDOW_BORDERS

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            FACTORS,
            SEQUENCE_LAYOUTS,
            PLAIN_STEPS,
            GATED_STEPS,
            DERIVATIVE_PATHS,
            WINDOW_BORDERS,
            SERIAL_COST,
            CONTEXTS_OF_A_TOKEN,
            COUNT_CONTEXT,
            COUNT_ORDERS,
            SOURCE_SUMMARY,
            SUMMARY_BOTTLENECK,
            OWN_PREFIXES,
        )
    }
)
