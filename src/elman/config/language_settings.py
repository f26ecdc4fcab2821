"""The settings that language models without a recurrence have."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import OrNone, ReadingModel


@dataclass(frozen=True)
class LookingBackModel(ReadingModel):
    """How far a window or a Transformer looks back, and what it does with what it sees."""

    context_length: Annotated[
        OrNone,
        Field(
            description="window, transformer: tokens that a prediction can look back at (N); 0: 8 "
            "and 256."
        ),
    ] = 0
    direct_connections: Annotated[
        bool,
        Field(description="window: the output sees the vectors of the window by itself as well."),
    ] = False
    positions: Annotated[
        Literal["rotary", "learned"],
        Field(
            description="transformer: how it knows places: rotary: by turning what is compared, "
            "so that a window slides; learned: by a vector for each place of a block."
        ),
    ] = "rotary"
    num_heads: Annotated[
        int, Field(ge=1, description="transformer: attention heads of each layer.")
    ] = 4
