"""What the weights and the probabilities tell: broken, blank, too sharp, one-sided."""

import numpy as np
import torch
from torch import Tensor

from elman.evaluation.units import percent
from elman.recipes.diagnosing.evidence import Evidence
from elman.recipes.diagnosing.fault import Fault

BLANK = 0.02
"""Share of the training text in tokens whose vectors are equal to others'."""
SHARPNESS = np.geomspace(0.25, 4.0, 33)
"""Factors on the logits, 1 in the middle."""
TOO_SHARP = 0.65
"""Factor below which the held-out text wants softer probabilities."""
GAIN = 0.02
"""Nats a token that the best factor must gain."""
COMMON = 0.02
"""Share of the tokens from which one is common enough for its probability to be compared."""
SURE = 5.0
"""Standard deviations by which both differ at least: a few tokens more or less are chance."""
OFF = 5.0
"""Factor between how often a common token is predicted and how often it comes."""


def broken_weights(evidence: Evidence) -> Fault | None:
    """Find weights that are infinite or no numbers."""
    broken = {
        name: int((~torch.isfinite(tensor)).sum()) for name, tensor in evidence.weights.items()
    }
    broken = {name: count for name, count in broken.items() if count}
    if not broken:
        return _no_predictions(evidence)
    worst = max(broken, key=lambda name: broken[name])
    total = sum(broken.values())
    return Fault(
        "broken-weights",
        f"{total:,} of them, {broken[worst]:,} in {worst}; the model was not run",
        "train anew with a lower training.learning_rate and training.clip_norm = 1",
        {"weights": total, "tensors": len(broken)},
    )


def _no_predictions(evidence: Evidence) -> Fault | None:
    """Find weights that are numbers but whose products are none."""
    if evidence.is_sound:
        return None
    largest = evidence.largest_weight
    return Fault(
        "broken-weights",
        f"they reach {largest:.3g}, and what is predicted by them is no number",
        "train anew with a lower training.learning_rate and training.clip_norm = 1",
        {"largest": largest},
    )


def blank_vectors(evidence: Evidence) -> Fault | None:
    """Find tokens of the training text whose vectors are those of other tokens."""
    vectors_VE = evidence.weights.get("embedding.weight")
    if vectors_VE is None or evidence.text is None:
        return None
    counts_V = np.bincount(evidence.text.train.ids_N, minlength=len(vectors_VE))
    used = torch.from_numpy(np.flatnonzero(counts_V))
    _, kind_of, num_alike = torch.unique(
        vectors_VE[used], dim=0, return_inverse=True, return_counts=True
    )
    blank = used[num_alike[kind_of] > 1].numpy()
    share = float(counts_V[blank].sum() / max(counts_V.sum(), 1))
    if share < BLANK:
        return None
    return Fault(
        "blank-vectors",
        f"{len(blank):,} of the {len(used):,} tokens that were learnt from, {percent(share)} of "
        "the text, have the same vector as another",
        "train anew: nothing in a text makes two vectors equal",
        {"tokens": len(blank), "share": share},
    )


def overconfident(evidence: Evidence) -> Fault | None:
    """Find probabilities that are better on held-out text once they are made softer."""
    if evidence.passages is None:
        return None
    log_probs_BTV, targets_BT = evidence.passages.log_probs, evidence.passages.targets
    nats = {
        float(factor): _nats_at(log_probs_BTV, targets_BT, float(factor)) for factor in SHARPNESS
    }
    best = min(nats, key=lambda factor: nats[factor])
    gain = nats[1.0] - nats[best]
    if best > TOO_SHARP or gain < GAIN:
        return None
    return Fault(
        "overconfident",
        f"logits times {best:.2f} would gain {gain:.3f} nats a token on held-out text",
        f"{_softer(evidence)}; until then --temperature {1.0 / best:.2f}",
        {"factor": best, "gain": gain},
    )


def _softer(evidence: Evidence) -> str:
    model = evidence.settings.model
    if model.kind == "ngram":
        return f"a shorter model.order (now {model.order}) or another model.smoothing"
    return f"model.dropout (now {model.dropout:g}) or training.label_smoothing higher"


def _nats_at(log_probs_BTV: Tensor, targets_BT: Tensor, factor: float) -> float:
    sharper_BTV = (log_probs_BTV * factor).log_softmax(dim=2)
    return float(-sharper_BTV.gather(2, targets_BT.unsqueeze(2)).mean())


def biased_output(evidence: Evidence) -> Fault | None:
    """Find a common token whose mean probability is far from how often it comes.

    Beginnings of long lines are read, so that the end of a line is not asked about, nor is padding.
    """
    if evidence.passages is None or evidence.trained is None or evidence.text is None:
        return None
    probs_V = evidence.passages.log_probs.exp().mean(dim=(0, 1)).numpy()
    targets = evidence.passages.targets.flatten().numpy()
    shares_V = np.bincount(targets, minlength=len(probs_V)) / len(targets)
    vocabulary = evidence.trained.tokenizer.vocabulary
    for mark in (vocabulary.boundary_id, vocabulary.pad_id):
        if mark is not None:
            probs_V[mark] = shares_V[mark] = 0.0
    common = np.flatnonzero(np.maximum(shares_V, probs_V) >= COMMON)
    floor = COMMON / 100
    if not len(common):
        return None
    ratios = (probs_V[common] + floor) / (shares_V[common] + floor)
    worst = int(np.abs(np.log(ratios)).argmax())
    token_id, off = int(common[worst]), float(ratios[worst])
    mean, share = float(probs_V[token_id]), float(shares_V[token_id])
    # Passages of a short text lie over one another: it has no more evidence than tokens.
    seen = min(len(targets), evidence.text.looked_at.num_tokens)
    chance = SURE * float(np.sqrt(max(mean, share) / max(seen, 1)))
    if 1 / OFF < off < OFF or abs(mean - share) < chance:
        return None
    token = evidence.trained.tokenizer.token_text(token_id)
    return Fault(
        "biased-output",
        f"{token} has a mean probability of {mean:.4f} where it is {share:.4f} of the text",
        "train on text of this kind, or train anew: the output's bias is wrong",
        {"mean_probability": mean, "share": share},
    )
