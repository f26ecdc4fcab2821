"""Several language models on one text: figures under one unit, intervals, differences in pairs.

A text is cut into blocks. What a model costs a block is the sum of the nats of the tokens that
begin in it, whatever its tokens are, so that models of different vocabularies are compared block by
block: in bits per byte of the text that each is asked about.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.errors import DataError
from elman.evaluation.ratios import Interval
from elman.evaluation.significance import (
    PairedDifference,
    bootstrap_interval,
    paired_bootstrap,
    ratio_of_sums,
)
from elman.evaluation.surprisal import BITS_PER_NAT, TokenRows
from elman.evaluation.text_blocks import TextBlocks
from elman.evaluation.units import MANY_UNKNOWN, LanguageScore

FEWEST_BLOCKS = 20
"""With fewer blocks the bootstrap makes intervals that are too narrow."""

FloatArray = npt.NDArray[np.float64]


class BlockSums:
    """Adds up the nats of tokens by the block that they begin in; what `score_files` tells."""

    def __init__(self, blocks: TextBlocks) -> None:
        self.blocks = blocks
        self.nats_B: FloatArray = np.zeros(len(blocks.ends_B))

    def write_context(self, rows: TokenRows, count: int) -> None:
        """Add nothing: what is context only costs nothing."""

    def write(self, rows: TokenRows, first: int, nats_N: FloatArray) -> None:
        """Add the nats of rows[first : first + N]."""
        starts_N = rows.starts[first : first + len(nats_N)]
        blocks_N = np.searchsorted(self.blocks.ends_B, starts_N, side="right")
        # A stop mark at the very end of the text begins where no block is any more.
        np.add.at(self.nats_B, np.minimum(blocks_N, len(self.nats_B) - 1), nats_N)


@dataclass(frozen=True)
class Compared:
    """One model: its name and kind, what it is made of, and what it costs each block of the text.

    passes: how often training read its text, where that is known. nats_B and bytes_B: of the tokens
    that begin in each block, and of the text it is asked about.
    """

    name: str
    kind: str
    parameters: int
    training_seconds: float | None
    passes: float | None
    vocabulary_digest: str
    score: LanguageScore
    nats_B: FloatArray
    bytes_B: npt.NDArray[np.int64]

    @property
    def is_too_low(self) -> bool:
        """Whether so much of the text is unknown or skipped that its figures are too low."""
        return self.score.has_many_unknown or self.score.skipped_rate > MANY_UNKNOWN

    def is_comparable(self, other: "Compared") -> bool:
        """Whether a difference says which is better: what is unknown is the same, or is little."""
        same = self.vocabulary_digest == other.vocabulary_digest
        return same or not (self.is_too_low or other.is_too_low)


@dataclass(frozen=True)
class ComparisonRow:
    """A model with the interval of its bits per byte, and its difference to the row above."""

    compared: Compared
    interval: Interval | None
    difference: PairedDifference | None

    def to_json(self) -> dict[str, object]:
        """Return every figure; differences are of bits per byte, this row less the one above."""
        one = self.compared
        return {
            "name": one.name,
            "kind": one.kind,
            "parameters": one.parameters,
            "training_seconds": one.training_seconds,
            "passes": one.passes,
            "is_too_low": one.is_too_low,
            **one.score.to_json(),
            "bits_per_byte_interval": None if self.interval is None else self.interval.to_json(),
            "difference": None if self.difference is None else self.difference.to_json(),
        }


@dataclass(frozen=True)
class ModelComparison:
    """All rows, in the order given, and whether their tokens are the same."""

    rows: tuple[ComparisonRow, ...]
    num_blocks: int
    same_tokens: bool

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "num_blocks": self.num_blocks,
            "same_tokens": self.same_tokens,
        }


def compare_models(models: Sequence[Compared], *, seed: int = 1) -> ModelComparison:
    """Return the rows with intervals and paired differences, by the bootstrap over blocks.

    Bits per byte: Σ nats / ln 2 / Σ bytes. All models have the same number of blocks. There are no
    intervals for a text of fewer than FEWEST_BLOCKS blocks, or where a probability was 0, and no
    difference between models of which one passes over more than the other does
    (`Compared.is_comparable`). Raises `DataError` for no model.
    """
    if not models:
        raise DataError("there is nothing to compare", got="no run")
    counts = [np.stack((one.nats_B * BITS_PER_NAT, one.bytes_B), axis=1) for one in models]
    num_blocks = len(counts[0])
    enough = num_blocks >= FEWEST_BLOCKS
    rows = []
    for place, (one, counts_B2) in enumerate(zip(models, counts, strict=True)):
        finite = enough and bool(np.isfinite(counts_B2).all())
        interval = None
        if finite:
            interval = bootstrap_interval(counts_B2, ratio_of_sums, seed=seed, unit="blocks")
        difference = None
        above_B2 = counts[place - 1]
        fair = place and one.is_comparable(models[place - 1])
        if fair and finite and np.isfinite(above_B2).all():
            difference = paired_bootstrap(
                above_B2, counts_B2, ratio_of_sums, seed=seed, unit="blocks"
            )
        rows.append(ComparisonRow(one, interval, difference))
    digests = {one.vocabulary_digest for one in models}
    return ModelComparison(tuple(rows), num_blocks, len(digests) == 1)
