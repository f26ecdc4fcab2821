"""Every experiment there is, under its name: what the command offers, what the check runs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.recipes.lab.clue_parameters import CLUE_PARAMETERS
from elman.recipes.lab.clue_sweeps import CLUE_SWEEPS
from elman.recipes.lab.clue_window import CLUE_WINDOW
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.factors import FACTORS
from elman.recipes.lab.fixed_window import FIXED_WINDOW
from elman.recipes.lab.gated_path import GATED_PATH
from elman.recipes.lab.generation_cost import GENERATION_COST
from elman.recipes.lab.lanes import LANES
from elman.recipes.lab.long_clue import LONG_CLUE
from elman.recipes.lab.norm_of_products import NORM_OF_PRODUCTS
from elman.recipes.lab.row_order import ROW_ORDER
from elman.recipes.lab.safe_loading import SAFE_LOADING
from elman.recipes.lab.segments import SEGMENTS
from elman.recipes.lab.short_clue import SHORT_CLUE
from elman.recipes.lab.small_comparisons import SMALL_COMPARISONS
from elman.recipes.lab.temperature import TEMPERATURE
from elman.recipes.lab.tying import TYING
from elman.recipes.lab.unrolling import UNROLLING

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
            FIXED_WINDOW,
            UNROLLING,
            NORM_OF_PRODUCTS,
            GATED_PATH,
            SEGMENTS,
            LANES,
            ROW_ORDER,
            TYING,
            TEMPERATURE,
            GENERATION_COST,
            SAFE_LOADING,
            SMALL_COMPARISONS,
        )
    }
)
