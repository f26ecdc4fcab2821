"""What the metrics tell: rates, a loss that stands still, a text learnt by heart."""

import numpy as np

from elman.evaluation.units import percent
from elman.recipes.diagnosing.evidence import Evidence, PartText
from elman.recipes.diagnosing.fault import Fault
from elman.training.optimisers import PEAK_RATES

HELD_OUT_RISE, CLOSE = 0.06, 0.95
"""Share by which a held-out loss may rise again where that of training is as large as this share of
it or larger."""
LEAST_RISE = 0.05
"""Nats that it must rise by: losses next to nothing move by chance."""
FEW_UPDATES, MOVED = 50, 0.97
"""Updates of which fewer say nothing of a rate, and the share of its first value to which a loss
falls that moved."""
RISE = 0.35
"""Nats a token that the recent loss may stand above its lowest value so far."""
LEARNT = 0.97
"""Share of the nats of single tokens above which little more than how often they are was learnt."""
WORSE = 0.02
"""Share of the best held-out loss by which the last one is worse where a text is overlearnt."""
APART, BY_HEART = 0.2, 0.4
"""Shares of the held-out loss by which that of training is lower: where the one grew worse, and
where this alone tells of a text that is known by heart."""


def unfinished(evidence: Evidence) -> Fault | None:
    """Find a run that training has not ended."""
    if evidence.is_finished:
        return None
    asked = evidence.settings.training.updates
    done = evidence.updates[-1].update if evidence.updates else 0
    stands = f"it stands after update {done:,} of {asked:,}"
    if done >= asked:
        stands = f"all {asked:,} updates are made, and what is held out is not scored yet"
    return Fault(
        "unfinished",
        stands,
        "let it end, or, where nothing trains it any more, go on with elman train … --resume",
        {"updates": done, "of": asked},
    )


def rate_too_high(evidence: Evidence) -> Fault | None:
    """Find a loss that rose far above what it had reached, or updates that were no numbers."""
    smoothed = [(one.update, one.smoothed) for one in evidence.updates if one.smoothed is not None]
    skipped = sum(one.skipped for one in evidence.updates)
    lowest, rise, risen_at = np.inf, 0.0, 0
    for update, nats in smoothed:
        lowest = min(lowest, nats)
        if nats - lowest > rise:
            rise, risen_at = nats - lowest, update
    at = f"by {rise:.2f} nats a {evidence.unit} above its lowest until update {risen_at:,}"
    told = [f"the training loss rose {at}"] if rise > RISE else []
    told += [f"{skipped:,} updates had gradients that were no numbers"] if skipped else []
    told += _held_out_rise(evidence)
    if not told:
        return None
    peak = max(one.rate for one in evidence.updates)
    usual = PEAK_RATES[evidence.settings.training.optimizer]
    lower = usual if peak > 3.0 * usual else peak / 3.0
    return Fault(
        "rate-too-high",
        "; ".join(told),
        f"training.learning_rate = {lower:.2g} (it was {peak:g}), or less",
        {"rise": rise, "skipped": skipped, "rate": peak},
    )


def _held_out_rise(evidence: Evidence) -> list[str]:
    """Tell of a held-out loss that rose, where that of training is no lower: it did not overlearn.

    It is told once, in the first place where it is so.
    """
    best, best_update = np.inf, 0
    for one in evidence.validations:
        if one.nats is None or one.training_nats is None:
            continue
        least = max((1.0 + HELD_OUT_RISE) * best, best + LEAST_RISE)
        if one.nats > least and one.training_nats > CLOSE * one.nats:
            share = percent(one.nats / best - 1.0)
            return [
                f"the held-out loss was {share} worse after update {one.update:,} than after "
                f"{best_update:,}, and that of training is no lower"
            ]
        if one.nats < best:
            best, best_update = one.nats, one.update
    return []


def nothing_learnt(evidence: Evidence) -> Fault | None:
    """Find a model that is hardly better than the frequencies of single tokens, or labels."""
    reached = [one.nats for one in evidence.validations if one.nats is not None]
    frequencies, what = evidence.rows.frequency_nats, "how often each label is"
    if evidence.text is not None:
        frequencies = single_token_nats(evidence.text.train, evidence.text.looked_at)
        what = "the frequencies of single tokens"
    if frequencies is None or not reached:
        return None
    best = min(reached)
    if best < LEARNT * frequencies:
        return None
    return Fault(
        "nothing-learnt",
        f"the best held-out loss is {best:.3f} nats a {evidence.unit}, and that of {what} "
        f"{frequencies:.3f}",
        _to_learn_more(evidence),
        {"nats_per_token": best, "single_token_nats": frequencies},
    )


def _to_learn_more(evidence: Evidence) -> str:
    """Return what to change: the time, or first the rate where the loss hardly moved."""
    more = f"more training.updates (now {evidence.settings.training.updates:,})"
    course = [one.smoothed for one in evidence.updates if one.smoothed is not None]
    if len(course) < FEW_UPDATES or course[-1] < MOVED * course[0]:
        return more
    peak = max((one.rate for one in evidence.updates), default=0.0)
    usual = PEAK_RATES[evidence.settings.training.optimizer]
    if peak >= usual:
        return f"{more}; the loss hardly moved at a rate of {peak:g}, where {usual:g} is usual"
    return f"training.learning_rate = {usual:g} (it came to {peak:g} at most), or {more}"


def single_token_nats(train: PartText, held_out: PartText) -> float:
    """Return the nats a token of `held_out` by the frequencies of tokens in `train`, plus one."""
    size = int(max(train.ids_N.max(initial=0), held_out.ids_N.max(initial=0))) + 1
    counts_V = np.bincount(train.ids_N, minlength=size) + 1.0
    log_probs_V = np.log(counts_V / counts_V.sum())
    return float(-log_probs_V[held_out.ids_N].mean())


def overfitting(evidence: Evidence) -> Fault | None:
    """Find a held-out loss that grew worse while that of training went on falling."""
    known = [
        (one.nats, one.training_nats, one.update)
        for one in evidence.validations
        if one.nats is not None and one.training_nats is not None
    ]
    if len(known) < 2:
        return None
    (best, then, best_update), (last, now, last_update) = min(known), known[-1]
    worse, apart = last / best - 1.0, 1.0 - now / last
    if now > then or apart < (APART if worse >= WORSE else BY_HEART):
        return None
    grew = (
        f" and is {percent(worse)} worse after update {last_update:,}, while that of training fell "
        f"from {then:.3f} to {now:.3f}; the best weights were kept"
        if worse >= WORSE
        else f", where that of training was {now:.3f} in the end"
    )
    return Fault(
        "overfitting",
        f"the held-out loss was best after update {best_update:,} ({best:.3f} nats a "
        f"{evidence.unit}){grew}",
        f"model.dropout (now {evidence.settings.model.dropout:g}) higher, a smaller "
        "model.hidden_size, or fewer training.epochs",
        {"worse": worse, "apart": apart, "best_update": best_update},
    )
