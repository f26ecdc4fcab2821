"""Which ids may be drawn and how boldly: settings of a request, and pure functions on logits.

Arithmetic is float64 whatever the model's. A removed id has the logit -inf. The order is fixed:
forbidden ids, temperature, top-k, top-p, min-p; each filter sees what the one before left, and
each leaves at least one id.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.errors import SettingError

Logits = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SamplingSettings:
    """How a request chooses its tokens; checked when made, each mistake one line.

    temperature: >= 0 and finite. 0 is greedy: the highest logit, and the lowest id among equals.
    top_k: only the k likeliest ids; 0 is off, and so is a k of the vocabulary's size or more.
    top_p: 0 < p <= 1, only the smallest set of likeliest ids with probability >= p; 1 is off.
    min_p: 0 <= m <= 1, only ids at least m times as likely as the likeliest; 0 is off.
    seed: of this request's own generator, 0 <= seed < 2^63.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        _require_number("temperature", self.temperature, "a finite number >= 0 (0: greedy)")
        if self.temperature < 0:
            _refuse("temperature", self.temperature, "a finite number >= 0 (0: greedy)")
        _require_whole("top_k", self.top_k, "a whole number >= 0 (0: off)", below=None)
        _require_number("top_p", self.top_p, "0 < top_p <= 1 (1: off)")
        if not 0 < self.top_p <= 1:
            _refuse("top_p", self.top_p, "0 < top_p <= 1 (1: off)")
        _require_number("min_p", self.min_p, "0 <= min_p <= 1 (0: off)")
        if not 0 <= self.min_p <= 1:
            _refuse("min_p", self.min_p, "0 <= min_p <= 1 (0: off)")
        _require_whole("seed", self.seed, "a whole number from 0 to 2^63 - 1", below=2**63)


def forbid(logits_V: Logits, ids: Sequence[int] | npt.NDArray[np.intp]) -> Logits:
    """Return the logits with -inf at every id of `ids`.

    Raises `SettingError` where none is left or an id is outside the vocabulary.
    """
    size = len(logits_V)
    for token in ids:
        if not 0 <= token < size:
            raise SettingError(
                "a forbidden id is outside the vocabulary",
                got=str(token),
                allowed=f"0 to {size - 1}",
            )
    out_V = logits_V.copy()
    out_V[np.asarray(ids, dtype=np.intp)] = -np.inf
    if size == 0 or out_V.max() == -np.inf:
        raise SettingError(
            "after what stands there the model gives no chance to any token that may be written",
            got=f"{len(ids)} of {size} that may not, such as the unknown word",
            hint="write from another prompt; of counts, smooth them",
        )
    return out_V


def scale_temperature(logits_V: Logits, temperature: float) -> Logits:
    """Return (z - max z) / τ, so that p_τ ∝ exp(z/τ): τ → 0 is the argmax, 1 the model, ∞ uniform.

    The difference is taken first, so that the smallest positive float still gives no NaN. τ must be
    above 0; `choose_greedy` is τ = 0.
    """
    shifted_V: Logits = logits_V - logits_V.max()
    if temperature == 1.0:
        return shifted_V
    with np.errstate(over="ignore", under="ignore"):
        shifted_V /= temperature
    return shifted_V


def keep_top_k(logits_V: Logits, k: int) -> Logits:
    """Return the logits with all but the k highest at -inf; among equals the lowest ids stay."""
    if k == 0 or k >= len(logits_V):
        return logits_V
    bound = np.partition(logits_V, -k)[-k]
    keep_V = logits_V > bound
    equal = np.flatnonzero(logits_V == bound)
    keep_V[equal[: k - np.count_nonzero(keep_V)]] = True
    return np.where(keep_V, logits_V, -np.inf)


def keep_top_p(logits_V: Logits, p: float) -> Logits:
    """Return the logits of the smallest set of likeliest ids whose probability is at least p.

    The id that crosses p stays, so one always does; among equals the lowest ids come first.
    """
    if p >= 1.0:
        return logits_V
    weights_V = np.exp(logits_V - logits_V.max())
    total = weights_V.sum()
    # Ids below this weight have less than 1 - p together, so the others reach p: sort only those.
    likely = np.flatnonzero(weights_V >= (1.0 - p) * total / len(weights_V))
    order = likely[np.argsort(-logits_V[likely], kind="stable")]
    mass = np.cumsum(weights_V[order])
    count = int(np.searchsorted(mass, p * total, side="left")) + 1
    out_V = np.full_like(logits_V, -np.inf)
    out_V[order[:count]] = logits_V[order[:count]]
    return out_V


def keep_min_p(logits_V: Logits, min_p: float) -> Logits:
    """Return the logits of the ids whose probability is at least min_p times the highest."""
    if min_p <= 0.0:
        return logits_V
    keep_V = logits_V >= logits_V.max() + math.log(min_p)
    return np.where(keep_V, logits_V, -np.inf)


def apply_filters(logits_V: Logits, settings: SamplingSettings) -> Logits:
    """Return the logits of the distribution that a request with temperature > 0 draws from."""
    out_V = scale_temperature(logits_V, settings.temperature)
    out_V = keep_top_k(out_V, settings.top_k)
    out_V = keep_top_p(out_V, settings.top_p)
    return keep_min_p(out_V, settings.min_p)


def _require_number(name: str, value: float, allowed: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse(name, value, allowed)


def _require_whole(name: str, value: int, allowed: str, *, below: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(name, value, allowed)
    if below is not None and value >= below:
        _refuse(name, value, allowed)


def _refuse(name: str, value: float, allowed: str) -> None:
    raise SettingError(f"{name} cannot be used", got=repr(value), allowed=allowed)
