"""The settings of which files a run learns from, chooses by and is tested on."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import OrNone, Share
from elman.config.tag_settings import TagData
from elman.config.translate_settings import PairData


@dataclass(frozen=True)
class DataSettings(TagData, PairData):
    """Which files are learnt from and which are held out."""

    train: Annotated[
        tuple[str, ...], Field(description="Files or folders to learn from; - is standard input.")
    ] = ()
    valid: Annotated[
        tuple[str, ...], Field(description="Files to choose by; empty: split off from train.")
    ] = ()
    test: Annotated[
        tuple[str, ...],
        Field(description="Files for the final figure only; empty: split off from train."),
    ] = ()
    valid_fraction: Annotated[
        Share, Field(description="Share of train held out for choosing when valid is empty.")
    ] = 0.05
    test_fraction: Annotated[
        Share, Field(description="Share of train held out for the final figure when test is empty.")
    ] = 0.05
    split: Annotated[
        Literal["auto", "tail", "shuffled"],
        Field(
            description="Where the split is taken: from the tail, or from shuffled lines. "
            "auto: stream tail, line shuffled, labels spread evenly."
        ),
    ] = "auto"
    workers: Annotated[
        OrNone,
        Field(
            description="Processes that prepare a text of more than 64 million characters, at most "
            "64; 0: one for each core."
        ),
    ] = 0
    repeats: Annotated[
        Literal["keep", "drop"],
        Field(
            description="drop: keep only the first of equal paragraphs (stream) or lines "
            "(line), before splitting."
        ),
    ] = "keep"
