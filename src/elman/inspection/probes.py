"""Linear probes: how well the token k steps back can be read off the state.

    W = argmin Σ_n ‖W [h_n; 1] − onehot(token_{n−k})‖² + λ ‖W‖²

fitted on the first part of the steps, asked on the rest. A state that were a transcript would be
right at every k; what a probe finds falls with k, and where it meets the share of the most frequent
token nothing that is linear is left.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elman.errors import DataError

FITTED_SHARE = 0.7
RIDGE = 1e-3
"""λ, times the mean square of a state's numbers and the number of steps."""

LEAST_STEPS = 50
"""Steps in either part below which a share of right answers says little."""

MOST_NEEDED = int(LEAST_STEPS / (1.0 - FITTED_SHARE)) + 1
"""Steps that are enough for both parts."""

ASKED_AT_ONCE = 512


class Probe(NamedTuple):
    """Shares of asked steps: answered rightly, and with the token most frequent when fitted."""

    back: int
    accuracy: float
    most_frequent: float
    num_asked: int


def require_probeable(num_tokens: int, backs: Sequence[int]) -> None:
    """Raise `DataError` for a text too short to fit a probe of the largest k and to ask it."""
    if not _fitted_steps(num_tokens - max(backs)):
        raise DataError(
            "the text is too short to fit a probe and to ask it",
            got=f"{num_tokens:,} tokens, {max(backs)} of them looked back",
            allowed=f"{MOST_NEEDED + max(backs):,} and more",
        )


def probe_memory(
    states_NH: Tensor, ids_N: Tensor, backs: Sequence[int], vocabulary_size: int
) -> list[Probe]:
    """Return one probe for each k of `backs`: 0 is the token just read.

    states_NH [N, H] after reading ids_N [N] in a row. Raises `DataError` for a text with too few
    steps for the largest k.
    """
    require_probeable(len(ids_N), backs)
    furthest = max(backs)
    before = [ids_N[furthest - back : len(ids_N) - back] for back in backs]
    return probe_tokens(states_NH[furthest:], torch.stack(before), backs, vocabulary_size)


def probe_tokens(
    states_NH: Tensor, before_KN: Tensor, backs: Sequence[int], vocabulary_size: int
) -> list[Probe]:
    """Return one probe for each k of `backs` that asks states_NH for the tokens before_KN[k].

    The first seven tenths of the steps are fitted on, the rest is asked. Raises `DataError` for too
    few steps.
    """
    fitted = _fitted_steps(len(states_NH))
    if not fitted:
        raise DataError(
            "there are too few steps to fit a probe and to ask it",
            got=f"{len(states_NH):,}",
            allowed=f"{MOST_NEEDED:,} and more",
        )
    states_NH = states_NH.double()
    ones_N1 = torch.ones(len(states_NH), 1, dtype=torch.float64)
    features_NF = torch.cat((states_NH, ones_N1), dim=1)
    first_NF = features_NF[:fitted]
    ridge = RIDGE * float(states_NH.square().mean()) * fitted
    gram_FF = first_NF.T @ first_NF + ridge * torch.eye(first_NF.shape[1], dtype=torch.float64)
    factor_FF = torch.linalg.cholesky(gram_FF)
    found = []
    for back, tokens_N in zip(backs, before_KN, strict=True):
        wanted_NV = torch.zeros(fitted, vocabulary_size, dtype=torch.float64)
        wanted_NV[torch.arange(fitted), tokens_N[:fitted]] = 1.0
        weight_FV = torch.cholesky_solve(first_NF.T @ wanted_NV, factor_FF)
        asked = features_NF[fitted:].split(ASKED_AT_ONCE)  # type: ignore[no-untyped-call]
        answers_N = torch.cat([(rows_NF @ weight_FV).argmax(dim=1) for rows_NF in asked])
        asked_N = tokens_N[fitted:]
        usual = torch.bincount(tokens_N[:fitted], minlength=vocabulary_size).argmax()
        right, often = (answers_N == asked_N).double(), (asked_N == usual).double()
        found.append(Probe(back, right.mean().item(), often.mean().item(), len(asked_N)))
    return found


def _fitted_steps(usable: int) -> int:
    """Return how many steps to fit on; 0 where either part would have too few."""
    fitted = int(FITTED_SHARE * usable)
    return fitted if min(fitted, usable - fitted) >= LEAST_STEPS else 0
