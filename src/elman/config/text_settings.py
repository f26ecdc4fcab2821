"""The settings of how text becomes ids."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import Count, OrNone

Level = Literal["char", "byte", "word", "bpe"]
Unit = Literal["line", "stream"]
UnknownPolicy = Literal["replace", "refuse", "skip"]
NormalForm = Literal["none", "NFC", "NFD", "NFKC", "NFKD"]


@dataclass(frozen=True)
class TextSettings:
    """How text becomes ids."""

    level: Annotated[Level, Field(description="What one token is.")] = "char"
    target_level: Annotated[
        Literal["same", "char", "byte", "word", "bpe"],
        Field(description="translate: what one token of a target is; same: as level says."),
    ] = "same"
    unit: Annotated[
        Unit,
        Field(
            description="line: every line is a sequence of its own with start and stop; "
            "stream: one long sequence."
        ),
    ] = "stream"
    direction: Annotated[
        Literal["forward", "backward"],
        Field(
            description="Language models: the end from which a line, or the whole stream, is read. "
            "What is learnt backward can be scored, not written on."
        ),
    ] = "forward"
    encoding: Annotated[str, Field(description="Encoding of the files, read strictly.")] = "utf-8"
    normal_form: Annotated[
        NormalForm, Field(description="Unicode normal form applied to data and prompts alike.")
    ] = "none"
    unknown: Annotated[
        UnknownPolicy,
        Field(
            description="Symbols of data outside the vocabulary: replace by [ UNK ], refuse "
            "the text, or skip them."
        ),
    ] = "replace"
    prompt_unknown: Annotated[
        UnknownPolicy,
        Field(description='The same for prompts; replace needs text.unknown = "replace".'),
    ] = "refuse"
    min_count: Annotated[
        Count, Field(description="Symbols seen less often in training text are unknown.")
    ] = 1
    vocabulary_size: Annotated[
        OrNone,
        Field(
            description="Most entries kept, specials included; 0: all (bpe: 2048, or as many "
            "as the text allows)."
        ),
    ] = 0
    literal_unknown: Annotated[
        str,
        Field(
            description="Word level: a spelling in the data that means the unknown word, such "
            "as <unk>."
        ),
    ] = ""
    start: Annotated[
        Literal["none", "mark"],
        Field(
            description="stream: begin with a start mark, so that the first token is predicted too."
        ),
    ] = "none"
