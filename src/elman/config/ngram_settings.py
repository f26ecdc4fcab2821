"""The settings that only count models have."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import ReadingModel

LONGEST_GRAM = 64
"""The longest sequences that can be counted."""


@dataclass(frozen=True)
class NgramModel(ReadingModel):
    """How sequences of tokens are counted, and what probabilities become of the counts."""

    order: Annotated[
        Annotated[int, Field(ge=1, le=LONGEST_GRAM)] | Literal["auto"],
        Field(
            description="ngram: longest sequence counted (N), so that N - 1 tokens are looked back "
            "at; auto: the one of least held-out loss."
        ),
    ] = "auto"
    smoothing: Annotated[
        Literal["kneser_ney", "kneser_ney_backoff", "absolute", "witten_bell", "add_k", "none"],
        Field(
            description="ngram: how probability is moved to what was not seen: modified "
            "Kneser–Ney, interpolated or as back-off; absolute discounting; Witten–Bell; add-k; "
            "none: maximum likelihood."
        ),
    ] = "kneser_ney"
    added_count: Annotated[
        float,
        Field(gt=0.0, allow_inf_nan=False, description="ngram: k of add_k; 1 is Laplace's."),
    ] = 1.0
    min_gram_counts: Annotated[
        tuple[int, ...],
        Field(
            description="ngram: sequences of 1, 2 … tokens seen less often are left out, the last "
            "number counting for all longer ones; single tokens stay. Empty: all are kept."
        ),
    ] = ()
    prune: Annotated[
        float,
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description="ngram: leave out sequences that change the perplexity of the model by "
            "less than this share, such as 1e-8; 0: none.",
        ),
    ] = 0.0
