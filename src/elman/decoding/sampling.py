"""One id from one vector of logits: the highest, or one draw."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.decoding.filters import Logits, SamplingSettings, apply_filters, forbid
from elman.errors import RunError
from elman.seeding import stream_seed, uniform_at


def draw(
    logits_V: Tensor | npt.NDArray[np.floating],
    settings: SamplingSettings,
    position: int,
    *,
    forbidden_ids: Sequence[int] = (),
) -> int:
    """Return one id: greedy at temperature 0, else drawn from softmax of the filtered logits.

    A draw takes the uniform number at `position` of the settings' seed, whatever the vocabulary,
    the filters and the draws before; a greedy choice takes none (`numbers_drawn`). Raises
    `RunError` where the logits are not numbers, which is a diverged model, and `SettingError` where
    every id is forbidden.
    """
    wide_V = widen(logits_V)
    if len(forbidden_ids):
        wide_V = forbid(wide_V, forbidden_ids)
    if settings.temperature == 0:
        return choose_greedy(wide_V)
    uniform = uniform_at(sampling_key(settings.seed), position)
    return invert_cdf(apply_filters(wide_V, settings), uniform)


def sampling_key(seed: int) -> int:
    """Return the key of the uniform numbers of a request with this seed."""
    return stream_seed(seed, "sampling")


def numbers_drawn(settings: SamplingSettings) -> int:
    """Return by how much one id moves the position on: 1, or 0 where the choice is greedy."""
    return int(settings.temperature != 0)


def widen(logits_V: Tensor | npt.NDArray[np.floating]) -> Logits:
    """Return the logits as a new float64 array on the CPU.

    Raises `RunError` where one is NaN or +inf, or all are -inf.
    """
    if isinstance(logits_V, Tensor):
        logits_V = (
            logits_V.float().numpy(force=True)
            if logits_V.dtype in _NARROW
            else logits_V.numpy(force=True)
        )
    wide_V = logits_V.astype(np.float64)
    highest = wide_V.max()
    if not np.isfinite(highest):
        raise RunError(
            "the model's logits are not finite numbers",
            got=str(highest),
            hint="its training has diverged: use an earlier checkpoint or a lower learning rate",
        )
    return wide_V


def choose_greedy(logits_V: Logits) -> int:
    """Return the id of the highest logit, the lowest id among equals."""
    return int(np.argmax(logits_V))


def invert_cdf(logits_V: Logits, uniform: float) -> int:
    """Return the first id whose cumulative weight exceeds uniform · total; 0 <= uniform < 1.

    Weights are exp(z - max z) and are never divided by their sum: drawing from unnormalised weights
    is the same draw. An id of weight 0 is never returned.
    """
    cumulative_V = np.cumsum(np.exp(logits_V - logits_V.max()))
    total = cumulative_V[-1]
    chosen = int(np.searchsorted(cumulative_V, uniform * total, side="right"))
    if chosen < len(cumulative_V):
        return chosen
    return int(np.searchsorted(cumulative_V, total, side="left"))


_NARROW = (torch.bfloat16, torch.float16)
