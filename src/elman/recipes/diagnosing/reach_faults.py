"""What the recurrence does with its past: ignored, forgotten, exploding, saturated, dead."""

import math

from elman.evaluation.units import percent
from elman.inspection.gate_statistics import is_share
from elman.inspection.gradient_reach import gradient_reach
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.diagnosing.evidence import Evidence
from elman.recipes.diagnosing.fault import Fault
from elman.recipes.diagnosing.gates import RECORDED
from elman.recipes.diagnosing.passages import SHORT_REACH

IGNORED = 0.02
"""Nats that the token just read moves the next prediction by, at least."""
GROWTH = 0.05
"""Nats a step by which a gradient grows backwards where the recurrence explodes."""
MOST_GROWTH = 10.0
SATURATED = 0.9
"""Share of the values of gates and candidates, of a plain cell its outputs, at their ends."""
CLOSED = 0.45
"""Tokens within which nine of ten units forget all but 1/e, where forget gates are closed."""
DEAD = 0.1
"""Share of the units of a layer that never move."""
LEAST_STEPS = 6
"""Steps of a row over which the growth of a gradient can be seen."""
CUT = 0.2
"""Share of the gradient that lies behind a training window."""


def input_ignored(evidence: Evidence) -> Fault | None:
    """Find a model that predicts the same whatever it has read."""
    if evidence.passages is None:
        return None
    largest = max(max(evidence.passages.reach.nats), evidence.passages.effect_within)
    if largest >= IGNORED:
        return None
    return Fault(
        "input-ignored",
        f"another token just read moves the next prediction by {largest:.4f} nats at most",
        "train anew, for longer or at another training.learning_rate",
        {"largest_effect": largest},
    )


def vanishing_reach(evidence: Evidence) -> Fault | None:
    """Find a recurrence that keeps next to nothing of what it read before the last token."""
    model, passages = _recurrent(evidence), evidence.passages
    if model is None or passages is None:
        return None
    reach = passages.reach
    if max(reach.nats) < IGNORED or reach.horizon > SHORT_REACH:
        return None
    last = f"the last {reach.horizon + 1} tokens" if reach.horizon else "the last token alone"
    return Fault(
        "vanishing-reach",
        f"predictions use {last}: a change further back moves them by less than a hundredth of "
        "the largest effect",
        "model.kind with gates (gru, lstm), model.forget_bias of 1 or more, a longer "
        "training.window",
        {"horizon": reach.horizon},
    )


def exploding_reach(evidence: Evidence) -> Fault | None:
    """Find gradients that grow the further back they are followed."""
    growth = _growth(evidence)
    if growth is None or math.isnan(growth) or growth <= GROWTH:
        return None
    factor = f"{math.exp(growth):.2f}" if growth < MOST_GROWTH else "more than can be told"
    return Fault(
        "exploding-reach",
        "the gradient of the last state by earlier ones grows for each step back by a factor of "
        f"{factor}",
        "training.clip_norm = 1, a lower training.learning_rate, model.initialisation = orthogonal",
        {"nats_per_step": growth},
    )


def _growth(evidence: Evidence) -> float | None:
    """Return ln of the factor by which the gradient grows a step, over all but the last steps."""
    model, passages = _recurrent(evidence), evidence.passages
    if model is None or passages is None or passages.read.shape[1] < LEAST_STEPS:
        return None
    rows_BT, next_B = passages.read[:RECORDED], passages.targets[:RECORDED, -1]
    found = gradient_reach(model, rows_BT, next_B, "state")
    logs_K = found.states_LBK.square().sum(dim=0).sqrt().mean(dim=0).double().log()
    far = len(logs_K) - 2
    near = min(2, far - 2)
    return float((logs_K[far] - logs_K[near]) / (far - near))


def saturated_gates(evidence: Evidence) -> Fault | None:
    """Find a layer whose gates and candidates stand at their ends nearly always."""
    for layer, where, statistics in evidence.gates:
        gates = {k: v for k, v in statistics.gates.items() if k != "preactivation"}
        ends = [
            float((moments.below_H + moments.above_H).mean())
            for moments in (gates or statistics.state).values()
        ]
        share = sum(ends) / len(ends)
        if share >= SATURATED:
            return Fault(
                "saturated-gates",
                f"in {where} {percent(share)} of the values stand at their ends, where "
                "their derivatives are small",
                "a lower training.learning_rate, training.weight_decay = 0.01 or model.layer_norm "
                "= cell",
                {"layer": layer + 1, "share": share},
            )
    return None


def closed_forget_gates(evidence: Evidence) -> Fault | None:
    """Find a gated layer that keeps its memory for less than a token."""
    for layer, where, statistics in evidence.gates:
        if not any(map(is_share, statistics.gates)):
            continue
        longest = float(statistics.time_constants().nan_to_num(posinf=1e9).quantile(0.9))
        if longest < CLOSED:
            return Fault(
                "closed-forget-gates",
                f"in {where} nine of ten units forget their memory at once: all but 1/e of it is "
                f"gone within {longest:.2f} tokens",
                _opening(evidence.settings.model.forget_bias),
                {"layer": layer + 1, "time_constant": longest},
            )
    return None


def _opening(forget_bias: float) -> str:
    """Return what opens forget gates, where they do not begin open already."""
    if forget_bias < 1.0:
        return f"model.forget_bias = 1 or more (now {forget_bias:g})"
    return (
        "a lower training.learning_rate: the gates began open (model.forget_bias is "
        f"{forget_bias:g}) and were closed by training"
    )


def dead_units(evidence: Evidence) -> Fault | None:
    """Find a layer many of whose units have the same value at every step."""
    for layer, where, statistics in evidence.gates:
        stuck_H = next(iter(statistics.state.values())).stuck()
        share = float(stuck_H.double().mean())
        if share >= DEAD:
            return Fault(
                "dead-units",
                f"{int(stuck_H.sum()):,} of the {len(stuck_H):,} units of {where} have "
                "the same value at every step",
                "a lower training.learning_rate or another model.activation; a smaller "
                "model.hidden_size does as well",
                {"layer": layer + 1, "share": share},
            )
    return None


def window_too_short(evidence: Evidence) -> Fault | None:
    """Find a window of training behind which much of the gradient lies."""
    settings, passages = evidence.settings, evidence.passages
    model, window = _recurrent(evidence), settings.training.window
    if settings.text.unit != "stream" or model is None or passages is None:
        return None
    if window >= passages.read.shape[1]:
        return None
    rows_BT, next_B = passages.read[:RECORDED], passages.targets[:RECORDED, -1]
    norms_K = gradient_reach(model, rows_BT, next_B).inputs_BK.mean(dim=0)
    share = float(norms_K[window:].sum() / norms_K.sum().clamp(min=1e-30))
    if share < CUT:
        return None
    return Fault(
        "window-too-short",
        f"{percent(share)} of the gradient by what was read lies more than {window} tokens back, "
        "where training cuts it",
        f"training.window of {4 * window} or more (now {window})",
        {"share": share, "window": window},
    )


def _recurrent(evidence: Evidence) -> RecurrentLanguageModel | None:
    model = None if evidence.trained is None else evidence.trained.model
    return model if isinstance(model, RecurrentLanguageModel) else None
