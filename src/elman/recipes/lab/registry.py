"""Every experiment there is, under its name: what the command offers, what the check runs."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.recipes.lab.batch_means import BATCH_MEANS
from elman.recipes.lab.carry_path import CARRY_PATH
from elman.recipes.lab.clue_parameters import CLUE_PARAMETERS
from elman.recipes.lab.clue_sweeps import CLUE_SWEEPS
from elman.recipes.lab.clue_window import CLUE_WINDOW
from elman.recipes.lab.constant_state import CONSTANT_STATE
from elman.recipes.lab.contexts_of_a_token import CONTEXTS_OF_A_TOKEN
from elman.recipes.lab.count_context import COUNT_CONTEXT, COUNT_ORDERS
from elman.recipes.lab.derivative_paths import DERIVATIVE_PATHS
from elman.recipes.lab.direct_attention import DIRECT_ATTENTION
from elman.recipes.lab.experiment import Experiment
from elman.recipes.lab.factors import FACTORS
from elman.recipes.lab.facts_in_state import FACTS_IN_STATE
from elman.recipes.lab.feedback import FEEDBACK
from elman.recipes.lab.first_token_memory import MEMORY_SEQUENCES, MEMORY_TASK
from elman.recipes.lab.fixed_memory import FIXED_MEMORY
from elman.recipes.lab.fixed_window import FIXED_WINDOW
from elman.recipes.lab.gate_values import GATE_VALUES
from elman.recipes.lab.gated_path import GATED_PATH
from elman.recipes.lab.gated_steps import GATED_STEPS
from elman.recipes.lab.generation_cost import GENERATION_COST
from elman.recipes.lab.gradient_reach import GRADIENT_REACH
from elman.recipes.lab.gru_conventions import GRU_CONVENTIONS
from elman.recipes.lab.jacobians import JACOBIANS
from elman.recipes.lab.lanes import LANES
from elman.recipes.lab.long_clue import LONG_CLUE
from elman.recipes.lab.loop_by_hand import LOOP_BY_HAND
from elman.recipes.lab.memory_cost import MEMORY_COST
from elman.recipes.lab.next_letter import NEXT_LETTER
from elman.recipes.lab.norm_of_products import NORM_OF_PRODUCTS
from elman.recipes.lab.overfitting import OVERFITTING
from elman.recipes.lab.own_prefixes import OWN_PREFIXES
from elman.recipes.lab.plain_steps import PLAIN_STEPS
from elman.recipes.lab.retrieval import RETRIEVAL
from elman.recipes.lab.row_order import ROW_ORDER
from elman.recipes.lab.safe_loading import SAFE_LOADING
from elman.recipes.lab.segments import SEGMENTS
from elman.recipes.lab.sequence_layouts import SEQUENCE_LAYOUTS
from elman.recipes.lab.serial_cost import SERIAL_COST
from elman.recipes.lab.short_clue import SHORT_CLUE
from elman.recipes.lab.small_comparisons import SMALL_COMPARISONS
from elman.recipes.lab.source_summary import SOURCE_SUMMARY, SUMMARY_BOTTLENECK
from elman.recipes.lab.temperature import TEMPERATURE
from elman.recipes.lab.three_masks import THREE_MASKS
from elman.recipes.lab.two_sequences import TWO_SEQUENCES
from elman.recipes.lab.tying import TYING
from elman.recipes.lab.unrolling import UNROLLING
from elman.recipes.lab.window_borders import WINDOW_BORDERS
from elman.recipes.lab.word_order import WORD_ORDER

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            CLUE_PARAMETERS,
            CLUE_SWEEPS,
            CLUE_WINDOW,
            FACTORS,
            SUMMARY_BOTTLENECK,
            SOURCE_SUMMARY,
            MEMORY_TASK,
            MEMORY_SEQUENCES,
            COUNT_ORDERS,
            COUNT_CONTEXT,
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
            SEQUENCE_LAYOUTS,
            PLAIN_STEPS,
            GATED_STEPS,
            DERIVATIVE_PATHS,
            WINDOW_BORDERS,
            SERIAL_COST,
            CONTEXTS_OF_A_TOKEN,
            OWN_PREFIXES,
            WORD_ORDER,
            LOOP_BY_HAND,
            GRADIENT_REACH,
            GATE_VALUES,
            FIXED_MEMORY,
            FACTS_IN_STATE,
            DIRECT_ATTENTION,
        )
    }
)
