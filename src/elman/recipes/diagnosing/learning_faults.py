"""What the metrics tell: rates, a loss that stands still, a text learnt by heart."""

import numpy as np

from elman.evaluation.units import percent
from elman.recipes.diagnosing.evidence import Evidence, PartText
from elman.recipes.diagnosing.fault import Fault

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
    return Fault(
        "unfinished",
        f"it stands after update {done:,} of {asked:,}",
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
    if rise <= RISE and not skipped:
        return None
    peak = max(one.rate for one in evidence.updates)
    at = f"by {rise:.2f} nats a token above its lowest until update {risen_at:,}"
    told = [f"the training loss rose {at}"] if rise > RISE else []
    told += [f"{skipped:,} updates had gradients that were no numbers"] if skipped else []
    return Fault(
        "rate-too-high",
        "; ".join(told),
        f"training.learning_rate = {peak / 3:.2g} (it was {peak:.2g}), or less",
        {"rise": rise, "skipped": skipped, "rate": peak},
    )


def nothing_learnt(evidence: Evidence) -> Fault | None:
    """Find a model that is hardly better than the frequencies of single tokens."""
    reached = [one.nats for one in evidence.validations if one.nats is not None]
    if evidence.text is None or not reached:
        return None
    frequencies = single_token_nats(evidence.text.train, evidence.text.looked_at)
    best = min(reached)
    if best < LEARNT * frequencies:
        return None
    training = evidence.settings.training
    return Fault(
        "nothing-learnt",
        f"the best held-out loss is {best:.3f} nats a token, and that of the frequencies of "
        f"single tokens {frequencies:.3f}",
        f"more training.updates (now {training.updates:,}), or another training.learning_rate "
        f"(at most {max((one.rate for one in evidence.updates), default=0.0):.2g} so far)",
        {"nats_per_token": best, "single_token_nats": frequencies},
    )


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
        f"the held-out loss was best after update {best_update:,} ({best:.3f} nats a token){grew}",
        f"model.dropout (now {evidence.settings.model.dropout:g}) higher, a smaller "
        "model.hidden_size, or fewer training.epochs",
        {"worse": worse, "apart": apart, "best_update": best_update},
    )
