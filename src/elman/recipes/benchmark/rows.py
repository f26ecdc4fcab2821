"""What is measured: families of rows, their shapes, and how long each row takes."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

Family = Literal["recurrences", "ragged", "word", "generation", "bfloat16", "gpu"]
FAMILIES: tuple[Family, ...] = get_args(Family)

Mode = Literal["forward", "training", "generation"]

SEED = 1
"""Seed of every weight, input and text of the benchmark: each run measures the same work."""

RECURRENT_KEYS = ("elman/tanh", "elman/relu", "gru/after/keep", "lstm")
RAGGED_KEYS = ("elman/tanh", "gru/after/keep", "lstm")


class Shape(NamedTuple):
    """One recurrence: steps, rows, units; the input is as wide as the state."""

    num_steps: int
    batch_size: int
    hidden_size: int

    @property
    def label(self) -> str:
        """The three sizes as tables show them: T,B,H."""
        return ",".join(map(str, self))


class ModelSizes(NamedTuple):
    """A language model: LSTM layers of `hidden_size` units and embeddings of the same width."""

    num_layers: int
    hidden_size: int
    vocabulary_size: int

    @property
    def label(self) -> str:
        """The sizes as tables show them, such as "2×200, V 33,278"."""
        return f"{self.num_layers}×{self.hidden_size}, V {self.vocabulary_size:,}"


@dataclass(frozen=True)
class Effort:
    """How long is measured.

    A sample repeats its call until it has lasted about `sample_seconds`; samples of all sides take
    turns until about `row_seconds` have passed, but at least `least_repeats` and at most
    `most_repeats` times. Before that `pilot_samples` of each say how long a call is.
    """

    sample_seconds: float
    row_seconds: float
    least_repeats: int
    most_repeats: int
    pilot_samples: int = 1


@dataclass(frozen=True)
class Programme:
    """All rows of one run of the benchmark, and the effort that is made for each.

    `loss_steps` updates without dropout are compared with torch's, `memory_steps` updates are made
    where peak memory is measured. Generation writes `tokens_per_call` tokens in each timed call and
    torch fewer; `checked_tokens` are compared with torch's; the state is carried on for
    `carry_seconds`, but not beyond `far_position`. The machine's peak is a product of square
    matrices of `peak_size` rows.
    """

    effort: Effort
    shapes: tuple[Shape, ...]
    ragged: tuple[Shape, ...]
    bfloat16: tuple[Shape, ...]
    word: tuple[ModelSizes, ...]
    bfloat16_word: tuple[ModelSizes, ...]
    generation: tuple[ModelSizes, ...]
    loss_steps: int
    memory_steps: int
    tokens_per_call: int
    torch_tokens_per_call: int
    checked_tokens: int
    carry_seconds: float
    far_position: int = 1_000_000
    peak_size: int = 2048


_COMMON = (
    Shape(35, 20, 200),
    Shape(35, 20, 650),
    Shape(70, 80, 400),
    Shape(64, 32, 128),
    Shape(16, 256, 128),
    Shape(128, 32, 512),
    Shape(12, 64, 64),
    Shape(35, 20, 1500),
)
_ODD = (Shape(33, 7, 77), Shape(35, 1, 200), Shape(1, 20, 200), Shape(1, 1, 256))

EXAMPLES_MODEL = ModelSizes(2, 200, 33_278)
"""The word language model of the PyTorch examples on WikiText-2, at its defaults."""

FULL = Programme(
    effort=Effort(
        sample_seconds=0.005, row_seconds=1.0, least_repeats=5, most_repeats=41, pilot_samples=2
    ),
    shapes=_COMMON + _ODD,
    ragged=(Shape(400, 32, 256), Shape(400, 20, 650), Shape(64, 32, 128)),
    bfloat16=_COMMON,
    word=(EXAMPLES_MODEL, ModelSizes(2, 650, 10_000)),
    bfloat16_word=(ModelSizes(2, 650, 10_000),),
    generation=(ModelSizes(2, 256, 65), EXAMPLES_MODEL),
    loss_steps=100,
    memory_steps=6,
    tokens_per_call=500,
    torch_tokens_per_call=50,
    checked_tokens=200,
    carry_seconds=60.0,
)
"""Every row there is, in about a quarter of an hour on two cores."""

QUICK = Programme(
    effort=Effort(sample_seconds=0.002, row_seconds=0.15, least_repeats=3, most_repeats=15),
    shapes=(Shape(35, 20, 200), Shape(35, 20, 650), Shape(64, 32, 128), Shape(33, 7, 77)),
    ragged=(Shape(400, 8, 128),),
    bfloat16=(Shape(35, 20, 650),),
    word=(EXAMPLES_MODEL,),
    bfloat16_word=(),
    generation=(ModelSizes(2, 256, 65), EXAMPLES_MODEL),
    loss_steps=4,
    memory_steps=2,
    tokens_per_call=200,
    torch_tokens_per_call=20,
    checked_tokens=40,
    carry_seconds=0.5,
)
"""A few rows of each family, in under a minute on two cores."""
