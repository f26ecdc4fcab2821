"""The settings that models of rows have: what a row is, and how a whole sequence is read."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Count = Annotated[int, Field(ge=1)]
OrNone = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
TaskName = Literal["lm", "classify", "tag", "translate"]


@dataclass(frozen=True)
class RowData:
    """How rows are found in files: labelled texts, series, pairs, sentences."""

    format: Annotated[
        Literal[
            "auto", "tsv", "csv", "jsonl", "class-files", "class-folders", "conll", "conllu", "text"
        ],
        Field(description="How files of data are read; auto: as their endings say."),
    ] = "auto"
    header: Annotated[
        Literal["auto", "yes", "no"],
        Field(
            description="Whether the first row of a table names its columns; auto: where that is "
            "certain."
        ),
    ] = "auto"
    delimiter: Annotated[str, Field(description="CSV: the character between two cells.")] = ","
    bad_rows: Annotated[
        Literal["refuse", "skip"],
        Field(description="What becomes of files with rows that cannot be read."),
    ] = "refuse"
    text_column: Annotated[
        str,
        Field(
            description="classify: column of the texts, by name or by number from 1; empty: text, "
            "or the first that is not the label."
        ),
    ] = ""
    label_column: Annotated[
        str,
        Field(
            description="classify: column of the labels, by name or by number from 1 (-1: the "
            "last); empty: label, or the other of two; of series the last."
        ),
    ] = ""
    label_separator: Annotated[
        str,
        Field(
            description="classify: what parts several labels of one text; empty: a text has one "
            "label, unless JSON gives a list."
        ),
    ] = ""
    max_length: Annotated[
        OrNone,
        Field(
            description="classify: tokens (or numbers of a series) that are read of a text at "
            "most, from its beginning; 0: all."
        ),
    ] = 0


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


@dataclass(frozen=True)
class RowTraining:
    """What is asked of learning from rows."""

    class_weights: Annotated[
        Literal["none", "balanced"],
        Field(
            description="classify: balanced lets rare labels weigh more while learning, so that "
            "all weigh the same; every loss that is told is the plain one."
        ),
    ] = "none"
    scheduled_sampling: Annotated[
        Share,
        Field(
            description="translate: share of the target tokens that the decoder reads which are "
            "its own guesses in place of the right ones.",
        ),
    ] = 0.0
