"""Sums of nats and counts of tokens, and the figures made of them at the last moment.

Every function that changes the base of a logarithm has both bases in its name. A mean is taken in
one place, the properties of `LanguageScore`; until then there are sums and counts only.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from elman.errors import ShapeError

JsonValue = int | float | bool | str | None

NOTHING_KNOWN_WARNING = (
    "every predicted token is the unknown one: these figures say nothing about the text"
)
MANY_UNKNOWN = 0.01
"""A larger share of unknown tokens makes figures too low to be set beside other ones."""


def nats_to_bits(nats: float) -> float:
    """Return nats / ln 2."""
    return nats / math.log(2.0)


def bits_to_nats(bits: float) -> float:
    """Return bits · ln 2."""
    return bits * math.log(2.0)


def log10_to_nats(log10: float) -> float:
    """Return the natural logarithm of a number whose base-10 logarithm (as in ARPA) is `log10`."""
    return log10 * math.log(10.0)


def nats_to_log10(nats: float) -> float:
    """Return the base-10 logarithm of a number whose natural logarithm is `nats`."""
    return nats / math.log(10.0)


def perplexity_of_nats(nats_per_token: float) -> float:
    """Return exp(nats_per_token), and infinity where that is above the range of a float.

    Never raises; not a number in, not a number out.
    """
    try:
        return math.exp(nats_per_token)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class LanguageScore:
    """What a language model's predictions of a text cost: sums, counts, and the figures they give.

    `known_nats` and `unknown_nats` are -Σ ln p over the predicted tokens that the vocabulary has
    and over those that stand for the unknown symbol; `num_unknown` of the `num_tokens` predictions
    are of the latter kind. `num_predictable` is how many tokens a complete scoring predicts (None:
    just those predicted); symbols skipped in encoding make it larger. `characters` and `utf8_bytes`
    measure the whole text, decoded and before normalisation (None: not told). `first_infinite` is
    the 0-based number of the first prediction of probability 0, if there is one.

    Figures that divide by 0 (nothing predicted, an empty text) are None.
    """

    known_nats: float
    unknown_nats: float
    num_tokens: int
    num_unknown: int
    num_predictable: int | None = None
    characters: int | None = None
    utf8_bytes: int | None = None
    first_infinite: int | None = None

    def __add__(self, other: "LanguageScore") -> "LanguageScore":
        """Return the score of both texts, one after the other."""
        first = self.first_infinite
        if first is None and other.first_infinite is not None:
            first = self.num_tokens + other.first_infinite
        return LanguageScore(
            known_nats=self.known_nats + other.known_nats,
            unknown_nats=self.unknown_nats + other.unknown_nats,
            num_tokens=self.num_tokens + other.num_tokens,
            num_unknown=self.num_unknown + other.num_unknown,
            num_predictable=_complete(self) + _complete(other),
            characters=_sum_or_none(self.characters, other.characters),
            utf8_bytes=_sum_or_none(self.utf8_bytes, other.utf8_bytes),
            first_infinite=first,
        )

    def with_text(
        self, *, characters: int, utf8_bytes: int, num_skipped: int = 0
    ) -> "LanguageScore":
        """Return the score together with the size of its text and the tokens left out of it."""
        return replace(
            self,
            characters=characters,
            utf8_bytes=utf8_bytes,
            num_predictable=_complete(self) + num_skipped,
        )

    @property
    def loss_nats(self) -> float:
        """-Σ ln p over every prediction, a sum."""
        return self.known_nats + self.unknown_nats

    @property
    def num_known(self) -> int:
        """Predictions of tokens that the vocabulary has."""
        return self.num_tokens - self.num_unknown

    @property
    def nats_per_token(self) -> float | None:
        """loss_nats / num_tokens."""
        return _ratio(self.loss_nats, self.num_tokens)

    @property
    def perplexity(self) -> float | None:
        """exp(nats_per_token); infinity above the range of a float."""
        mean = self.nats_per_token
        return None if mean is None else perplexity_of_nats(mean)

    @property
    def nats_per_token_excluding_unknown(self) -> float | None:
        """known_nats / num_known: predictions of the unknown symbol are left out of both."""
        return _ratio(self.known_nats, self.num_known)

    @property
    def perplexity_excluding_unknown(self) -> float | None:
        """exp(nats_per_token_excluding_unknown); the unknown symbol remains part of the context."""
        mean = self.nats_per_token_excluding_unknown
        return None if mean is None else perplexity_of_nats(mean)

    @property
    def bits_per_character(self) -> float | None:
        """Bits of the whole loss over the characters (code points) of the text."""
        return _ratio(nats_to_bits(self.loss_nats), self.characters)

    @property
    def bits_per_byte(self) -> float | None:
        """Bits of the whole loss over the UTF-8 bytes of the decoded text before normalisation."""
        return _ratio(nats_to_bits(self.loss_nats), self.utf8_bytes)

    @property
    def unknown_rate(self) -> float | None:
        """num_unknown / num_tokens."""
        return _ratio(self.num_unknown, self.num_tokens)

    @property
    def coverage(self) -> float | None:
        """num_tokens / num_predictable: 1 where every token that can be predicted was."""
        return _ratio(self.num_tokens, _complete(self))

    @property
    def skipped_rate(self) -> float:
        """1 − coverage: the share of what can be predicted that was left out."""
        return 0.0 if self.coverage is None else 1.0 - self.coverage

    @property
    def has_many_unknown(self) -> bool:
        """Whether so many tokens are unknown that figures which count them are too low."""
        return self.num_unknown > MANY_UNKNOWN * self.num_tokens

    @property
    def warning(self) -> str:
        """What makes the figures meaningless, or too good to compare, or an empty string."""
        if self.loss_nats == math.inf and self.first_infinite is not None:
            return (
                f"token {self.first_infinite:,}, counted from 0, is impossible to the model, which "
                "makes every figure with it infinite"
            )
        if 0 < self.num_unknown == self.num_tokens:
            return NOTHING_KNOWN_WARNING
        skipped = _complete(self) - self.num_tokens
        if skipped:
            return (
                f"{skipped:,} symbols were skipped: what they are costs nothing here, so that bits "
                "per character and per byte are too low to compare"
            )
        if self.has_many_unknown:
            return (
                f"{percent(self.num_unknown / self.num_tokens)} of the tokens are unknown, and "
                "what they are costs nothing here: figures that count them are too low to compare"
            )
        return ""

    def to_json(self) -> dict[str, JsonValue]:
        """Return every figure under its name, fit for strict JSON.

        An infinite figure is null beside a flag that is true: `perplexity_is_infinite` and its like
        for the perplexities, `loss_is_infinite` for everything proportional to the loss. A loss
        that is not a number makes null of all of them beside `loss_is_nan`.
        """
        figures: dict[str, float | int | None] = {
            "loss_nats": self.loss_nats,
            "num_tokens": self.num_tokens,
            "nats_per_token": self.nats_per_token,
            "perplexity": self.perplexity,
            "bits_per_character": self.bits_per_character,
            "bits_per_byte": self.bits_per_byte,
            "num_unknown": self.num_unknown,
            "unknown_rate": self.unknown_rate,
            "coverage": self.coverage,
            "num_predictable": _complete(self),
            "characters": self.characters,
            "utf8_bytes": self.utf8_bytes,
            "loss_nats_excluding_unknown": self.known_nats,
            "num_tokens_excluding_unknown": self.num_known,
            "nats_per_token_excluding_unknown": self.nats_per_token_excluding_unknown,
            "perplexity_excluding_unknown": self.perplexity_excluding_unknown,
        }
        report: dict[str, JsonValue] = {
            name: None if value is None or not math.isfinite(value) else value
            for name, value in figures.items()
        }
        report["perplexity_is_infinite"] = self.perplexity == math.inf
        report["perplexity_excluding_unknown_is_infinite"] = (
            self.perplexity_excluding_unknown == math.inf
        )
        report["loss_is_infinite"] = self.loss_nats == math.inf
        report["loss_excluding_unknown_is_infinite"] = self.known_nats == math.inf
        report["loss_is_nan"] = math.isnan(self.loss_nats)
        report["first_infinite_token"] = self.first_infinite
        report["warning"] = self.warning
        return report


class LanguageTally:
    """Adds up predictions in float64, piece by piece; how they are cut changes last bits only."""

    def __init__(self, *, unk_id: int | None) -> None:
        self._unk_id = unk_id
        self._known_nats = self._unknown_nats = 0.0
        self._num_tokens = self._num_unknown = 0
        self._first_infinite: int | None = None

    def add(self, nats_N: npt.NDArray[np.floating], targets_N: npt.NDArray[np.integer]) -> None:
        """Add predictions: nats_N[i] = -ln p of targets_N[i]."""
        if nats_N.shape != targets_N.shape or nats_N.ndim != 1:
            raise ShapeError(
                "nats_N and targets_N must be one-dimensional and of one length",
                got=f"{list(nats_N.shape)} and {list(targets_N.shape)}",
            )
        unknown_nats, num_unknown = 0.0, 0
        if self._unk_id is not None:
            unknown_N = targets_N == self._unk_id
            num_unknown = int(np.count_nonzero(unknown_N))
            if num_unknown:
                unknown_nats = float(nats_N[unknown_N].sum(dtype=np.float64))
                known_nats = float(nats_N[~unknown_N].sum(dtype=np.float64))
        if not num_unknown:
            known_nats = float(nats_N.sum(dtype=np.float64))
        if self._first_infinite is None and math.isinf(known_nats + unknown_nats):
            self._first_infinite = self._num_tokens + int(np.argmax(np.isinf(nats_N)))
        self._known_nats += known_nats
        self._unknown_nats += unknown_nats
        self._num_tokens += len(nats_N)
        self._num_unknown += num_unknown

    def score(self) -> LanguageScore:
        """Return what was added so far."""
        return LanguageScore(
            known_nats=self._known_nats,
            unknown_nats=self._unknown_nats,
            num_tokens=self._num_tokens,
            num_unknown=self._num_unknown,
            first_infinite=self._first_infinite,
        )


def _complete(score: LanguageScore) -> int:
    return score.num_tokens if score.num_predictable is None else score.num_predictable


def _ratio(numerator: float, denominator: int | None) -> float | None:
    return numerator / denominator if denominator else None


def _sum_or_none(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def percent(share: float) -> str:
    """Return a share as a person reads it: two digits of one below 10 %, whole ones from there."""
    return f"{100 * share:.2g} %" if share < 0.0995 else f"{100 * share:.0f} %"
