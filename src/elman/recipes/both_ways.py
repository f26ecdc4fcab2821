"""A forward and a backward run on the same text, mixed as distributions over whole texts.

The two have no prediction in common: one knows what stands before a token, the other what stands
behind it. Each gives a whole text (a line, or the whole stream) a probability, and

    P(text) = (1 − λ) P_first(text) + λ P_second(text)

is one again. It is never worse than the better of both by more than −ln of its share.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from elman.errors import SettingError
from elman.evaluation.surprisal import TokenRows
from elman.evaluation.units import LanguageScore
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.trained import TrainedModel
from elman.text.vocabulary import BOUNDARY

EVEN = 0.5
"""λ, where none is given."""


@dataclass
class TextTotals:
    """Adds up the nats of each whole text: a stop mark ends a line, and nothing ends a stream."""

    totals: list[float] = field(default_factory=lambda: [0.0])

    def write_context(self, rows: TokenRows, count: int) -> None:
        """Add nothing."""

    def write(self, rows: TokenRows, first: int, nats_N: npt.NDArray[np.float64]) -> None:
        """Add the nats to the text at hand; behind a stop mark the next one begins."""
        self.totals[-1] += float(nats_N.sum())
        if tuple(rows.texts) == (BOUNDARY,):
            self.totals.append(0.0)


def read_differently(first: TrainedModel, second: TrainedModel) -> bool:
    """Return whether one of the runs reads from the end, and the other from the beginning."""
    return first.settings.text.direction != second.settings.text.direction


def score_both_ways(
    first: TrainedModel,
    second: TrainedModel,
    request: ScoreRequest,
    weight: float = EVEN,
    *,
    on_scored: Callable[[int], None] = lambda num_tokens: None,
) -> tuple[LanguageScore, tuple[str, ...]]:
    """Score the files under the mixture of whole texts.

    Raises `SettingError` for a table of tokens, of which the mixture has no probabilities, for a
    weight outside 0 … 1, and for runs of which one is of lines and one a stream.
    """
    if request.per_token is not None:
        raise SettingError(
            "two runs that read in different directions have no surprisal of a token in common",
            got="--per-token",
        )
    if not 0.0 <= weight <= 1.0:
        raise SettingError("the weight of a mixture must be from 0 to 1", got=f"{weight:g}")
    if first.settings.text.unit != second.settings.text.unit:
        raise SettingError("both runs must be of lines, or both of a stream", got="one of each")
    scores, totals = [], []
    for trained in (first, second):
        sums = TextTotals()
        score, notices = score_files(trained, request, sink=sums, on_scored=on_scored)
        scores.append(score)
        totals.append(np.array(sums.totals))
    with np.errstate(divide="ignore"):
        logs = np.log(1.0 - weight) - totals[0], np.log(weight) - totals[1]
    nats = float(-np.logaddexp(*logs).sum())
    # What follows the last stop mark is a text of no token, whose two probabilities are 1.
    whole = scores[0]
    if whole.num_unknown:
        notices += (f"{whole.num_unknown:,} unknown tokens count here like any other",)
    return (
        LanguageScore(
            known_nats=nats,
            unknown_nats=0.0,
            num_tokens=whole.num_tokens,
            num_unknown=0,
            num_predictable=whole.num_predictable,
            characters=whole.characters,
            utf8_bytes=whole.utf8_bytes,
        ),
        notices,
    )
