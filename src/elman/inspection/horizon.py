"""How far back another token would have changed what comes next: the horizon by perturbation.

    effect(k) = mean over places of KL(p(next | text) ‖ p(next | text with token k back replaced))

in nats. k = 0 is the token just read. The horizon is the largest k whose effect is at least
`NOTICEABLE` of the largest one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from elman.errors import DataError
from elman.kernels.dispatch import KernelPlan
from elman.models.language import LanguageModel

NOTICEABLE = 0.01
ROWS_AT_ONCE = 64


class PerturbationCurve(NamedTuple):
    """Mean effects in nats for each k of `backs`, their standard errors, and at how many places."""

    backs: tuple[int, ...]
    nats: tuple[float, ...]
    errors: tuple[float, ...]
    num_positions: int

    @property
    def horizon(self) -> int:
        """The largest k with a noticeable effect; −1 where none has any."""
        limit = NOTICEABLE * max(self.nats)
        noticed = [k for k, nats in zip(self.backs, self.nats, strict=True) if nats >= limit > 0.0]
        return max(noticed, default=-1)


def perturbation_curve(
    model: LanguageModel,
    ids_N: npt.NDArray[np.integer],
    backs: Sequence[int],
    *,
    plan: KernelPlan,
    num_positions: int = 200,
    seed: int = 1,
) -> PerturbationCurve:
    """Return the effect of the token k back on the distribution of the next one.

    Each place has the same tokens before it as the largest k; a token is replaced by one drawn from
    the text, another one than it was. Raises `DataError` for a text that is too short, or that has
    one token only.
    """
    require_perturbable(ids_N, backs)
    longest = max(backs) + 1
    draw = np.random.default_rng(seed)
    ends_N = longest + draw.integers(0, len(ids_N) - longest, num_positions)
    rows_NL = np.stack([ids_N[end - longest : end] for end in ends_N]).astype(np.int64)
    return perturbation_of_rows(model, rows_NL, ids_N, backs, plan=plan, draw=draw)


def require_perturbable(ids_N: npt.NDArray[np.integer], backs: Sequence[int]) -> None:
    """Raise `DataError` for a text too short to replace a token so far back, or of one token."""
    longest = max(backs) + 1
    if len(ids_N) <= longest or len(np.unique(ids_N)) < 2:
        raise DataError(
            "the text is too short to look so far back",
            got=f"{len(ids_N):,} tokens, {len(np.unique(ids_N)):,} kinds",
            allowed=f"{longest + 1:,} tokens and more, of two kinds",
        )


def perturbation_of_rows(
    model: LanguageModel,
    rows_NL: npt.NDArray[np.int64],
    others_N: npt.NDArray[np.integer],
    backs: Sequence[int],
    *,
    plan: KernelPlan,
    draw: np.random.Generator,
) -> PerturbationCurve:
    """Return the effect at the end of each row of the token k back, one of `others_N` instead.

    Rows are read from the state before any token; each k is less than their length.
    """
    as_they_are_NV = _next_log_probs(model, rows_NL, plan)
    nats, errors = [], []
    for back in backs:
        changed_NL = rows_NL.copy()
        changed_NL[:, -1 - back] = _others(rows_NL[:, -1 - back], others_N, draw)
        log_probs_NV = _next_log_probs(model, changed_NL, plan)
        effect_N = (as_they_are_NV.exp() * (as_they_are_NV - log_probs_NV)).nansum(dim=1)
        nats.append(effect_N.mean().item())
        errors.append(effect_N.std().item() / len(rows_NL) ** 0.5)
    return PerturbationCurve(tuple(backs), tuple(nats), tuple(errors), len(rows_NL))


def _others(
    tokens_N: npt.NDArray[np.int64], ids_N: npt.NDArray[np.integer], draw: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return tokens drawn from the text, none the one it replaces."""
    found_N = draw.choice(ids_N, len(tokens_N)).astype(np.int64)
    while (same_N := found_N == tokens_N).any():
        found_N[same_N] = draw.choice(ids_N, int(same_N.sum()))
    return found_N


def _next_log_probs(
    model: LanguageModel, rows_NL: npt.NDArray[np.int64], plan: KernelPlan
) -> torch.Tensor:
    found = []
    with torch.inference_mode():
        for start in range(0, len(rows_NL), ROWS_AT_ONCE):
            ids_BT = torch.from_numpy(rows_NL[start : start + ROWS_AT_ONCE]).to(model.device)
            output = model(ids_BT, plan=plan)
            logits_BV = output.readout.logits(output.states_BTH[:, -1:])[:, 0]
            found.append(logits_BV.double().log_softmax(dim=1).cpu())
    return torch.cat(found)
