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

ASKED_AT_ONCE = 512


class Probe(NamedTuple):
    """Shares of asked steps: answered rightly, and with the token most frequent when fitted."""

    back: int
    accuracy: float
    most_frequent: float
    num_asked: int


def probe_memory(
    states_NH: Tensor, ids_N: Tensor, backs: Sequence[int], vocabulary_size: int
) -> list[Probe]:
    """Return one probe for each k of `backs`: 0 is the token just read.

    states_NH [N, H] after reading ids_N [N] in a row. Raises `DataError` for a text with too few
    steps for the largest k.
    """
    usable = len(ids_N) - max(backs)
    fitted = int(FITTED_SHARE * usable)
    if min(fitted, usable - fitted) < LEAST_STEPS:
        raise DataError(
            "the text is too short to fit a probe and to ask it",
            got=f"{len(ids_N):,} tokens, {max(backs)} of them looked back",
            allowed=f"{int(LEAST_STEPS / (1.0 - FITTED_SHARE)) + max(backs) + 1:,} and more",
        )
    states_NH = states_NH.double()
    ones_N1 = torch.ones(len(states_NH), 1, dtype=torch.float64)
    features_NF = torch.cat((states_NH, ones_N1), dim=1)[max(backs) :]
    first_NF = features_NF[:fitted]
    ridge = RIDGE * float(states_NH.square().mean()) * fitted
    gram_FF = first_NF.T @ first_NF + ridge * torch.eye(first_NF.shape[1], dtype=torch.float64)
    factor_FF = torch.linalg.cholesky(gram_FF)
    found = []
    for back in backs:
        tokens_N = ids_N[max(backs) - back : len(ids_N) - back]
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
