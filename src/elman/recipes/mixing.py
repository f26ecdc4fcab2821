"""A run with a cache of its states, or mixed with another run, the numbers fitted on held-out text.

What is not given is fitted on the validation part of the run itself, which its manifest proves to
be the one that it was chosen by.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from elman.errors import SettingError
from elman.evaluation.scorers import (
    MOST_CACHED,
    CacheScorer,
    MixtureScorer,
    ModelScorer,
    RecallScorer,
    TokenScorer,
    mixed_nats,
)
from elman.evaluation.units import LanguageScore, percent
from elman.recipes.both_ways import EVEN, read_differently, score_both_ways
from elman.recipes.dynamic_evaluation import RATES, SEGMENT, DynamicScorer, mean_squares
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.trained import TrainedModel, open_members, open_trained
from elman.recipes.validation_text import OnFitted, ValidationText
from elman.text.vocabulary import UNK

Facts = dict[str, float | int | str]
"""The numbers that a score was made with, by name."""

FLATNESSES = (0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8, 1.3, 2.0, 3.0, 5.0)
"""Values of θ among which the one of least loss is sought."""
STEPS = 60
"""Steps of expectation and maximisation for a weight; each moves it less than the one before."""
LEAST_WEIGHT = 1e-3
"""A smaller share of a mixture changes nothing that is shown."""


@dataclass(frozen=True)
class Mixing:
    """What is added to a run; None is fitted. A `cache_size` of 0 is none."""

    cache_size: int = 0
    flatness: float | None = None
    cache_weight: float | None = None
    other: Path | None = None
    other_weight: float | None = None
    is_dynamic: bool = False
    dynamic_rate: float | None = None

    def __post_init__(self) -> None:
        if not self.cache_size and (self.flatness, self.cache_weight) != (None, None):
            raise SettingError("flatness and weight of a cache need --cache", got="no --cache")
        if self.other is None and self.other_weight is not None:
            raise SettingError("the weight of a mixture needs --mix RUN", got="no --mix")
        if self.dynamic_rate is not None and not self.is_dynamic:
            raise SettingError("the rate of weights that follow needs --dynamic", got="none")
        for name, value, most in (
            ("--cache-flatness", self.flatness, math.inf),
            ("--cache-weight", self.cache_weight, 1.0),
            ("--mix-weight", self.other_weight, 1.0),
            ("--dynamic-rate", self.dynamic_rate, math.inf),
        ):
            if value is not None and not (0.0 <= value <= most and math.isfinite(value)):
                allowed = "a number of 0 or more" if math.isinf(most) else "a number from 0 to 1"
                raise SettingError(f"{name} must be {allowed}", got=f"{value:g}")
        if not 0 <= self.cache_size <= MOST_CACHED:
            raise SettingError(
                "--cache must be a number of states",
                got=f"{self.cache_size:,}",
                allowed=f"0 (none) to {MOST_CACHED:,}",
            )
        if self.is_dynamic and self.cache_size:
            raise SettingError(
                "--cache compares states, which --dynamic makes by other weights each time",
                got="both",
                allowed="one of them",
            )

    @property
    def is_plain(self) -> bool:
        """Whether nothing is added."""
        return not (self.cache_size or self.is_dynamic) and self.other is None


@dataclass(frozen=True)
class Mixed:
    """What gives the nats, the numbers it uses, and how many tokens those were fitted on.

    `left_out` unknown ones beside them were not looked at.
    """

    scorer: TokenScorer
    facts: Facts
    fitted_on: int
    left_out: int = 0

    @property
    def told(self) -> tuple[str, ...]:
        """Return lines that tell a person of it."""
        fitted = f"; fitted on {self.fitted_on:,} tokens of validation text"
        if self.left_out:
            fitted += f", {self.left_out:,} unknown ones left out"
        end = fitted if self.fitted_on else ""
        lines = []
        if "cache_size" in self.facts:
            lines.append(
                f"a cache of {self.facts['cache_size']:,} states, flatness "
                f"{self.facts['cache_flatness']:.3g}, {self._weight('cache_weight')}{end}"
            )
        if "dynamic_rate" in self.facts:
            lines.append(
                f"weights that follow the text, rate {self.facts['dynamic_rate']:.3g}{end}"
            )
        if "mixed_with" in self.facts:
            lines.append(
                f"mixed with {self.facts['mixed_with']}, {self._weight('mixed_weight')}{end}"
            )
        return tuple(lines)

    def _weight(self, name: str) -> str:
        weight = self.facts[name]
        assert not isinstance(weight, str)
        told = f"weight {weight:.3g}"
        return f"{told}: nothing is gained by it" if weight < LEAST_WEIGHT else told


def mixed(
    trained: TrainedModel,
    mixing: Mixing,
    other: TrainedModel | None = None,
    *,
    on_fitted: OnFitted = lambda stage, num_tokens: None,
) -> Mixed:
    """Return the run with what is added to it; `other` is `mixing.other` where it is open already.

    `on_fitted` is told what is being fitted, and how many tokens are read for it.

    Raises `RunError` for a second run of another vocabulary, and `SettingError` where a number is
    to be fitted and the run has no validation text.
    """
    texts = ValidationText(trained, on_fitted)
    scorer: TokenScorer = ModelScorer(trained.model, trained.plan)
    facts: Facts = {}
    if mixing.cache_size:
        _require_states(trained)
        cached = _cached(trained, mixing, texts)
        scorer = cached
        facts |= {
            "cache_size": cached.size,
            "cache_flatness": cached.flatness,
            "cache_weight": cached.weight,
        }
    if mixing.is_dynamic:
        following = _following(trained, mixing, texts)
        scorer = following
        facts |= {"dynamic_rate": following.rate, "dynamic_decay": following.decay}
    if mixing.other is not None:
        open_members(trained.path, (mixing.other,), task="lm", otherwise="is no language model")
        other = open_trained(mixing.other) if other is None else other
        second: TokenScorer = ModelScorer(other.model, other.plan)
        weight = mixing.other_weight
        if weight is None:
            stage = "fitting the weight of the mixture, run {} of 2"
            weight, _ = fitted_weight(
                texts.nats(scorer, stage.format(1)), texts.nats(second, stage.format(2))
            )
        scorer = MixtureScorer(scorer, second, weight)
        facts |= {"mixed_with": str(mixing.other), "mixed_weight": weight}
    return Mixed(scorer, facts, texts.num_scored, texts.num_left_out)


def score_mixed(
    trained: TrainedModel,
    request: ScoreRequest,
    mixing: Mixing,
    *,
    on_fitted: OnFitted = lambda stage, num_tokens: None,
    on_scored: Callable[[int], None] = lambda num_tokens: None,
) -> tuple[LanguageScore, tuple[str, ...], Facts]:
    """Score files with what is added to the run; return also lines to show, and the numbers used.

    A second run that reads in the other direction is mixed text by text (`recipes.both_ways`), all
    else token by token. A `warning` among the numbers takes the place of that of the score. Raises
    what `mixed` and `score_files` raise.
    """
    if mixing.is_plain:
        score, notices = score_files(trained, request, on_scored=on_scored)
        return score, notices, {}
    other = None if mixing.other is None else open_trained(mixing.other)
    if other is not None and read_differently(trained, other):
        if mixing.cache_size or mixing.is_dynamic:
            raise SettingError(
                "a run that reads in the other direction is mixed text by text, without --cache "
                "and --dynamic",
                got=str(mixing.other),
            )
        weight = EVEN if mixing.other_weight is None else mixing.other_weight
        score, notices = score_both_ways(trained, other, request, weight, on_scored=on_scored)
        told = f"mixed text by text with {mixing.other}, the other way round, weight {weight:g}"
        facts: Facts = {
            "mixed_with": str(mixing.other),
            "mixed_weight": weight,
            "mixed_by": "text",
            "warning": "; ".join(filter(None, (_of_one_text(trained), score.warning))),
        }
        return score, (told, *notices), facts
    by = mixed(trained, mixing, other, on_fitted=on_fitted)
    score, notices = score_files(trained, request, scorer=by.scorer, on_scored=on_scored)
    warning = _gone_astray(trained, mixing, by.facts, score)
    notices = (*by.told, *(_of_unknown(score) if _gains(by.facts) else ()), *notices)
    return score, notices, by.facts | ({"warning": warning} if warning else {})


def _gains(facts: Facts) -> bool:
    """Return whether what is added has a share that is shown."""
    weights = (facts.get(name) for name in ("cache_weight", "mixed_weight"))
    return "dynamic_rate" in facts or any(
        isinstance(weight, float) and weight >= LEAST_WEIGHT for weight in weights
    )


def _of_unknown(score: LanguageScore) -> tuple[str, ...]:
    """Return which figure to compare where much of the text is unknown; nothing where it is not."""
    if not score.has_many_unknown:
        return ()
    return (
        f"part of what this gains is the guessing of {UNK}, which "
        f"{percent(score.num_unknown / score.num_tokens)} of the tokens are: compare the lines "
        "with unknown left out",
    )


def _gone_astray(trained: TrainedModel, mixing: Mixing, facts: Facts, score: LanguageScore) -> str:
    """Return that weights which follow have lost the text, "" where they have not.

    They have where it is worse than a uniform guess: a mean above ln V, or none that is a number.
    """
    rate, mean = facts.get("dynamic_rate"), score.nats_per_token
    num_tokens = len(trained.tokenizer.vocabulary)
    if not rate or mean is None or mean <= math.log(num_tokens):
        return ""
    return (
        f"weights that follow at a rate of {rate:g} are worse than a uniform guess among "
        f"{num_tokens:,} tokens ({mean:.4g} nats per token, and ln {num_tokens:,} is "
        f"{math.log(num_tokens):.4g}): the rate is too high; "
        + (
            "give a smaller --dynamic-rate, or leave --dynamic out"
            if mixing.dynamic_rate is None
            else "leave --dynamic-rate out, so that it is fitted, or give a smaller one"
        )
    )


def _of_one_text(trained: TrainedModel) -> str:
    """Return why a mixture of whole texts is worth nothing to this run, "" where it is of lines."""
    if trained.settings.text.unit == "line":
        return ""
    return (
        "one stream is one text, of which a mixture of whole texts is never better than the better "
        "of both runs: it is worth something for runs of lines"
    )


def fitted_weight(
    first_N: npt.NDArray[np.float64], second_N: npt.NDArray[np.float64]
) -> tuple[float, float]:
    """Return λ of least mean −ln((1 − λ) e^−first + λ e^−second), and that mean.

    By expectation and maximisation from 1/2, whose loss falls at every step, as it is convex.
    """
    weight = 0.5
    with np.errstate(invalid="ignore"):
        difference_N = first_N - second_N
    # What is impossible to both says nothing of either: its ratio is 1.
    difference_N = np.where(np.isnan(difference_N), 0.0, difference_N)
    ratio_N = np.exp(np.clip(difference_N, -700.0, 700.0))
    for _ in range(STEPS):
        weight = float(np.mean(weight * ratio_N / (1.0 - weight + weight * ratio_N)))
    return weight, _mixed_loss(first_N, second_N, weight)


def _mixed_loss(
    first_N: npt.NDArray[np.float64], second_N: npt.NDArray[np.float64], weight: float
) -> float:
    """Return the mean nats of the mixture."""
    first_1N, second_1N = (torch.from_numpy(nats_N)[None] for nats_N in (first_N, second_N))
    return float(mixed_nats(first_1N, second_1N, weight).mean())


def _require_states(trained: TrainedModel) -> None:
    """Raise `SettingError` for a count model, whose cache would have nothing to compare."""
    if not trained.model.has_vectors:
        raise SettingError(
            "a cache compares states, which a count model does not have",
            got=f"--cache with {trained.path}",
            hint="score it without --cache, or mix it into a recurrent run with --mix",
        )


def _cached(trained: TrainedModel, mixing: Mixing, texts: ValidationText) -> CacheScorer:
    """Return the run with a cache, whose flatness and weight are fitted where they are open.

    Of `FLATNESSES` every third and the last are tried, then the neighbours of the best, until none
    is better.
    """
    model, plan, size = trained.model, trained.plan, mixing.cache_size
    if mixing.flatness is not None and mixing.cache_weight is not None:
        given = mixing.flatness, mixing.cache_weight
        return CacheScorer(model, plan, size=size, flatness=given[0], weight=given[1])
    own_N = texts.nats(ModelScorer(model, plan), "fitting the cache, the run alone")
    flatnesses = FLATNESSES if mixing.flatness is None else (mixing.flatness,)
    tried: dict[int, tuple[float, float]] = {}

    def loss_at(place: int) -> float:
        """Return the loss at a flatness; `tried` keeps it with its weight."""
        if place not in tried:
            recall = RecallScorer(model, plan, size=size, flatness=flatnesses[place])
            recalled_N = texts.nats(recall, f"fitting the cache, try {len(tried) + 1}")
            weight = mixing.cache_weight
            tried[place] = (
                fitted_weight(own_N, recalled_N)[::-1]
                if weight is None
                else (_mixed_loss(own_N, recalled_N, weight), weight)
            )
        return tried[place][0]

    best = min((*range(0, len(flatnesses), 3), len(flatnesses) - 1), key=loss_at)
    before = -1
    while best != before:
        before = best
        best = min(range(max(best - 1, 0), min(best + 2, len(flatnesses))), key=loss_at)
    return CacheScorer(model, plan, size=size, flatness=flatnesses[best], weight=tried[best][1])


def _following(trained: TrainedModel, mixing: Mixing, texts: ValidationText) -> DynamicScorer:
    """Return the run with weights that follow the text, at a rate that is fitted where open."""
    squares = mean_squares(trained, on_read=partial(texts.on_fitted, "measuring gradients"))

    def scorer(rate: float) -> DynamicScorer:
        segment = SEGMENT[trained.settings.text.level]
        return DynamicScorer(trained.model, trained.plan, squares, rate=rate, segment=segment)

    if mixing.dynamic_rate is not None:
        return scorer(mixing.dynamic_rate)
    losses: list[tuple[float, float]] = []
    for number, rate in enumerate(RATES, 1):
        nats_N = texts.nats(scorer(rate), f"fitting the rate, try {number} of {len(RATES)}")
        losses.append((float(nats_N.mean()), rate))
    # Of a rate at which they go astray the loss may be no number, which no other is less than.
    return scorer(min((math.inf if math.isnan(loss) else loss, rate) for loss, rate in losses)[1])
