"""The settings that only a model from sequence to sequence has, beside those of every task."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import OrNone, ReadingModel, RowData


@dataclass(frozen=True)
class PairData(RowData):
    """How pairs of a source and a target are found in files, beside what all rows have."""

    source_column: Annotated[
        str,
        Field(
            description="translate: column of the sources, by name or by number from 1; empty: "
            "source, or the first that is not the target."
        ),
    ] = ""
    target_column: Annotated[
        str,
        Field(
            description="translate: column of the targets, by name or by number from 1; empty: "
            "target, or the first that is not the source."
        ),
    ] = ""
    train_target: Annotated[
        tuple[str, ...],
        Field(
            description="translate: files whose lines are the targets of the lines of train; "
            "empty: train are tables of pairs."
        ),
    ] = ()
    valid_target: Annotated[
        tuple[str, ...], Field(description="translate: the same for valid.")
    ] = ()
    test_target: Annotated[tuple[str, ...], Field(description="translate: the same for test.")] = ()


@dataclass(frozen=True)
class TransductionModel(ReadingModel):
    """How a decoder is joined to the encoder that has read its source."""

    attention: Annotated[
        Literal["none", "dot", "scaled_dot", "projected", "additive", "multi_head"],
        Field(
            description="translate: how a step of the decoder scores the positions of the source; "
            "none: it knows one fixed vector of the source."
        ),
    ] = "none"
    query: Annotated[
        Literal["previous", "current"],
        Field(
            description="translate: the state of the decoder that scores the source: the one "
            "before the step, or the one after it."
        ),
    ] = "current"
    context: Annotated[
        Literal["state", "transition", "output", "both"],
        Field(
            description="translate: where what is known of the source enters: the decoder's first "
            "state alone (without attention), every transition, the output layer, or both of these."
        ),
    ] = "output"
    coverage: Annotated[
        Literal["none", "vector"],
        Field(
            description="translate: additive attention only: what was attended to before enters "
            "the scores."
        ),
    ] = "none"
    attention_size: Annotated[
        OrNone,
        Field(
            description="translate: width of additive and multi-head attention; 0: that of the "
            "decoder's state."
        ),
    ] = 0
    attention_heads: Annotated[
        int, Field(ge=1, description="translate: heads of multi-head attention.")
    ] = 4
    attention_bias: Annotated[
        bool, Field(description="translate: projected attention has a bias on the query.")
    ] = False
    encoder_size: Annotated[
        OrNone,
        Field(description="translate: units of each reader of the source; 0: hidden_size."),
    ] = 0
    bridge: Annotated[
        Literal["projection", "tanh", "copy"],
        Field(
            description="translate: how the decoder's first state is made of the encoder's last "
            "valid one."
        ),
    ] = "projection"
    bridge_from: Annotated[
        Literal["all", "forward", "backward"],
        Field(description="translate: the reader whose last state the bridge takes."),
    ] = "all"
