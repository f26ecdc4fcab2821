"""How far back a language model looks: its loss when only the last k tokens are kept as they are.

For positions drawn from a text, each with as many tokens before it as the longest k,

    truncated   the model reads the last k of them alone, from its first state
    shuffled    it reads all of them, those before the last k in an order by chance

and predicts the token there. What the shuffled loss still gains with k is what the order of tokens
so far back tells; the truncated one also gains from which tokens they are. A count model is flat
from its order on, a window from its width. Source: U. Khandelwal et al., "Sharp Nearby, Fuzzy Far
Away" (2018), sections 3 and 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from elman.errors import DataError
from elman.evaluation.scorers import ModelScorer
from elman.evaluation.significance import bootstrap_interval, ratio_of_sums

ReachKind = Literal["truncated", "shuffled"]

LENGTHS = (1, 2, 3, 5, 8, 13, 25, 50, 100, 200)
"""Values of k; the last is also how many tokens stand before a position."""
ROWS_AT_ONCE = 64
NEAR = 0.01
"""The effective length is the shortest k whose loss is within this share of that of the longest."""


@dataclass(frozen=True)
class ReachCurve:
    """nats per token [K] for each length kept, and half the width of each 95 % interval."""

    kind: ReachKind
    lengths: tuple[int, ...]
    nats: tuple[float, ...]
    half_widths: tuple[float, ...]
    num_positions: int

    @property
    def effective_length(self) -> int:
        """The shortest length whose loss is within 1 % of the loss with all of them."""
        limit = self.nats[-1] * (1.0 + NEAR)
        return next(k for k, nats in zip(self.lengths, self.nats, strict=True) if nats <= limit)

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "kind": self.kind,
            "lengths": list(self.lengths),
            "nats_per_token": list(self.nats),
            "interval_half_widths": list(self.half_widths),
            "num_positions": self.num_positions,
            "effective_length": self.effective_length,
        }


def reach_curve(
    scorer: ModelScorer,
    ids_N: npt.NDArray[np.integer],
    kind: ReachKind,
    *,
    num_positions: int = 1000,
    lengths: Sequence[int] = LENGTHS,
    seed: int = 1,
) -> ReachCurve:
    """Return the curve of a model on a stream of ids, all lengths on the same positions.

    The same seed draws the same positions and orders for every model with the same tokens. Raises
    `DataError` for a text with fewer tokens than the longest length and one more.
    """
    longest = max(lengths)
    if len(ids_N) <= longest:
        raise DataError(
            "the text is too short to look so far back",
            got=f"{len(ids_N):,} tokens",
            allowed=f"{longest + 1:,} and more",
        )
    draw = np.random.default_rng(seed)
    ends_N = longest + draw.integers(0, len(ids_N) - longest, num_positions)
    before_NL = np.stack([ids_N[end - longest : end] for end in ends_N]).astype(np.int64)
    targets_N = ids_N[ends_N].astype(np.int64)
    keys_NL = np.asarray(draw.random(before_NL.shape))
    found = []
    for length in lengths:
        rows_NL = before_NL[:, longest - length :]
        if kind == "shuffled":
            far = longest - length
            orders_NL = np.argsort(keys_NL[:, :far], axis=1)
            shuffled_NL = np.take_along_axis(before_NL[:, :far], orders_NL, axis=1)
            rows_NL = np.concatenate((shuffled_NL, rows_NL), axis=1)
        found.append(_last_nats(scorer, rows_NL, targets_N))
    intervals = [_half_width(nats_N, seed) for nats_N in found]
    return ReachCurve(
        kind,
        tuple(lengths),
        tuple(float(nats_N.mean()) for nats_N in found),
        tuple(intervals),
        num_positions,
    )


def _last_nats(
    scorer: ModelScorer, rows_NL: npt.NDArray[np.int64], targets_N: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the nats of each target after its row."""
    found = []
    with torch.inference_mode():
        for start in range(0, len(rows_NL), ROWS_AT_ONCE):
            ids_BT = torch.from_numpy(rows_NL[start : start + ROWS_AT_ONCE]).to(scorer.device)
            targets_B = torch.from_numpy(targets_N[start : start + ROWS_AT_ONCE])
            found.append(scorer.last_nats(ids_BT, targets_B.to(scorer.device)).cpu().numpy())
    return np.concatenate(found)


def _half_width(nats_N: npt.NDArray[np.float64], seed: int) -> float:
    if not np.isfinite(nats_N).all():
        return float("nan")
    counts_N2 = np.stack((nats_N, np.ones(len(nats_N))), axis=1)
    interval = bootstrap_interval(counts_N2, ratio_of_sums, seed=seed, num_resamples=1000)
    return (interval.high - interval.low) / 2
