"""The settings that only a tagger has, beside those of every task."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import Count, OrNone


@dataclass(frozen=True)
class TagData:
    """Where tokens and tags stand in files, and what the tags tell."""

    token_column: Annotated[
        str,
        Field(
            description="tag: column of the tokens, by name or by number from 1; empty: FORM of "
            "CoNLL-U, else the first."
        ),
    ] = ""
    tag_column: Annotated[
        str,
        Field(
            description="tag: column of the tags, by name or by number from 1 (-1: the last); "
            "empty: UPOS of CoNLL-U, else the last."
        ),
    ] = ""
    tag_scheme: Annotated[
        Literal["auto", "none", "BIO", "IOB1", "BIOES", "BILOU"],
        Field(
            description="tag: how the tags of the files tell spans; auto: by the tags to learn "
            "from; none: every tag stands for itself."
        ),
    ] = "auto"


@dataclass(frozen=True)
class TaggerModel:
    """What a tagger is made of beside its recurrent layers."""

    head: Annotated[
        Literal["softmax", "crf"],
        Field(
            description="tag: softmax scores each tag by itself; crf scores neighbouring tags "
            "together, as a linear chain."
        ),
    ] = "softmax"
    scheme: Annotated[
        Literal["auto", "file", "BIO", "BIOES"],
        Field(
            description="tag: in which scheme tags of spans are learnt, whatever that of the "
            "files is; auto: BIOES. Predictions are in that of the files."
        ),
    ] = "auto"
    character_size: Annotated[
        Count, Field(description="tag: width of a character's vector in the reader of spellings.")
    ] = 32
    character_units: Annotated[
        OrNone,
        Field(
            description="tag: units in each direction of the reader of spellings; 0: words are "
            "known by their own vectors alone."
        ),
    ] = 64
    word_dropout: Annotated[
        float,
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description="tag: a word seen n times is learnt from as unknown with probability "
            "a / (n + a); this is a, 0: never.",
        ),
    ] = 0.25
