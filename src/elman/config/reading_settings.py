"""The settings of models that read a whole sequence before they answer."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

TaskName = Literal["lm", "classify", "tag", "translate"]


@dataclass(frozen=True)
class ReadingModel:
    """What is answered, and how what is read becomes an answer."""

    task: Annotated[
        TaskName,
        Field(
            description="What is answered: the next token, one label a text, a tag for every "
            "token, or another sequence. `elman train` sets it."
        ),
    ] = "lm"
    bidirectional: Annotated[
        bool,
        Field(description="classify, tag, translate: each layer of what is read reads both ways."),
    ] = False
    pooling: Annotated[
        Literal["final", "mean", "max", "attention"],
        Field(
            description="classify: how the states of a text become one vector: where each reader "
            "ended, their mean, their maximum, or a mixture that is learnt."
        ),
    ] = "final"
