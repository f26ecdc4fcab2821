"""A linear-chain conditional random field: tags that know their neighbours, exactly.

    score(y) = start[y_1] + Σ_t emissions_t[y_t] + Σ_{t > 1} between[y_{t−1}, y_t] + end[y_last]
    log p(y | x) = score(y) − log Σ_{y'} exp score(y')

Source: J. Lafferty, A. McCallum, F. Pereira, Conditional Random Fields, ICML 2001; the recursions
are those of L. Rabiner, A Tutorial on Hidden Markov Models, Proc. IEEE 77 (1989). `C` is the number
of tags. Everything is computed in float64: a likelihood is the small difference of large numbers.
Steps t ≥ lengths_B are padding and have no influence, be they NaN; a row of length 0 has one path,
the empty one, with probability 1.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elman.errors import DataError, ShapeError
from elman.layers.masks import valid_positions
from elman.shapes import require_shape
from elman.text.tag_schemes import AllowedTransitions


class ChainScores(NamedTuple):
    """Scores that do not depend on the input: start_C, between_CC (row to column), end_C."""

    start_C: Tensor
    between_CC: Tensor
    end_C: Tensor

    def allowing(self, allowed: AllowedTransitions) -> "ChainScores":
        """Return the scores with −inf at every start, transition and end that is not allowed."""
        return ChainScores(
            *(
                scores.masked_fill(~torch.from_numpy(mask).to(scores.device), -math.inf)
                for scores, mask in zip(self, allowed, strict=True)
            )
        )


class ChainLikelihood(NamedTuple):
    """The log-likelihood of tags as what can be added: nats (float64 scalar) and tags covered."""

    log_likelihood_nats: Tensor
    num_tags: int


class BestPaths(NamedTuple):
    """tags_BT (int64, 0 at padding) with the highest scores_B (float64) of all paths."""

    tags_BT: Tensor
    scores_B: Tensor


def path_scores(
    emissions_BTC: Tensor, tags_BT: Tensor, lengths_B: Tensor, chain: ChainScores
) -> Tensor:
    """Return scores_B (float64) of the paths tags_BT, whose padding may hold anything.

    Raises `ShapeError` where the axes do not fit or a valid tag is outside 0 … C − 1.
    """
    emissions_BTC, valid_BT = _checked(emissions_BTC, lengths_B, chain)
    require_shape("tags_BT", tags_BT, valid_BT.shape)
    num_tags = emissions_BTC.shape[2]
    tags_BT = tags_BT.long().masked_fill(~valid_BT, 0)
    if bool(((tags_BT < 0) | (tags_BT >= num_tags)).any()):
        raise ShapeError(
            "tags must be ids of the tagger's tags",
            got=f"{int(tags_BT.min())} to {int(tags_BT.max())}",
            allowed=f"0 to {num_tags - 1}",
        )
    if tags_BT.shape[1] == 0:
        return emissions_BTC.new_zeros(len(tags_BT))
    start_C, between_CC, end_C = (part.double() for part in chain)
    emitted_BT = emissions_BTC.gather(2, tags_BT.unsqueeze(2)).squeeze(2)
    passed_BT = between_CC[tags_BT[:, :-1], tags_BT[:, 1:]].masked_fill(~valid_BT[:, 1:], 0.0)
    last_B1 = (valid_BT.sum(dim=1, keepdim=True) - 1).clamp(min=0)
    ends_B = end_C[tags_BT.gather(1, last_B1).squeeze(1)]
    total_B = start_C[tags_BT[:, 0]] + emitted_BT.sum(dim=1) + passed_BT.sum(dim=1) + ends_B
    return total_B.masked_fill(~valid_BT[:, 0], 0.0)


def log_partition(emissions_BTC: Tensor, lengths_B: Tensor, chain: ChainScores) -> Tensor:
    """Return log Σ exp score of all paths of each row, [B] float64, by the forward recursion.

    a_1 = start + emissions_1;  a_t[j] = log Σ_i exp(a_{t−1}[i] + between[i, j]) + emissions_t[j]
    """
    emissions_BTC, valid_BT = _checked(emissions_BTC, lengths_B, chain)
    if emissions_BTC.shape[1] == 0:
        return emissions_BTC.new_zeros(len(emissions_BTC))
    last_BC = _forward(emissions_BTC, valid_BT, chain)[-1]
    totals_B = (last_BC + chain.end_C.double()).logsumexp(dim=1)
    return totals_B.masked_fill(~valid_BT[:, 0], 0.0)


def best_paths(
    emissions_BTC: Tensor,
    lengths_B: Tensor,
    chain: ChainScores,
    allowed: AllowedTransitions | None = None,
) -> BestPaths:
    """Return the best path of each row (Viterbi), within `allowed` where it is given.

    Of equal paths the one with the lowest last tag, then the lowest tag before it, and so on.
    Raises `DataError` where no path of a row is allowed.
    """
    emissions_BTC, valid_BT = _checked(emissions_BTC, lengths_B, chain)
    batch_size, num_steps, num_tags = emissions_BTC.shape
    chain = chain if allowed is None else chain.allowing(allowed)
    if num_steps == 0:
        return BestPaths(
            lengths_B.new_zeros(batch_size, 0).long(), emissions_BTC.new_zeros(batch_size)
        )
    start_C, between_CC, end_C = (part.double() for part in chain)
    best_BC = start_C + emissions_BTC[:, 0]
    stay_BC = torch.arange(num_tags, device=best_BC.device).expand(batch_size, -1)
    came_from: list[Tensor] = []
    for step in range(1, num_steps):
        inside_B1 = valid_BT[:, step : step + 1]
        ways_BCC = best_BC.unsqueeze(2) + between_CC
        from_BC = ways_BCC.argmax(dim=1)  # the first of equals
        reached_BC = ways_BCC.gather(1, from_BC.unsqueeze(1)).squeeze(1) + emissions_BTC[:, step]
        best_BC = torch.where(inside_B1, reached_BC, best_BC)
        came_from.append(torch.where(inside_B1, from_BC, stay_BC))
    tag_B1 = (best_BC + end_C).argmax(dim=1, keepdim=True)
    scores_B = (best_BC + end_C).gather(1, tag_B1).squeeze(1).masked_fill(~valid_BT[:, 0], 0.0)
    _require_paths(scores_B, lengths_B)
    tags = [tag_B1]
    for from_BC in reversed(came_from):
        tag_B1 = from_BC.gather(1, tag_B1)
        tags.append(tag_B1)
    return BestPaths(torch.cat(tags[::-1], dim=1).masked_fill(~valid_BT, 0), scores_B)


def tag_marginals(emissions_BTC: Tensor, lengths_B: Tensor, chain: ChainScores) -> Tensor:
    """Return probs_BTC (float64), p(y_t = c | x); they sum to 1 at valid steps, 0 at padding.

    By the forward and the backward recursion: log p = a_t + b_t − log Z.
    """
    emissions_BTC, valid_BT = _checked(emissions_BTC, lengths_B, chain)
    if emissions_BTC.shape[1] == 0:
        return emissions_BTC
    forward_BTC = torch.stack(_forward(emissions_BTC, valid_BT, chain), dim=1)
    between_CC, end_C = chain.between_CC.double(), chain.end_C.double()
    b_BC = end_C.expand(emissions_BTC.shape[0], -1)
    backward = [b_BC]
    for step in range(emissions_BTC.shape[1] - 1, 0, -1):
        after_B1C = (emissions_BTC[:, step] + b_BC).unsqueeze(1)
        b_BC = torch.where(
            valid_BT[:, step : step + 1], (between_CC + after_B1C).logsumexp(dim=2), end_C
        )
        backward.append(b_BC)
    log_probs_BTC = (forward_BTC + torch.stack(backward[::-1], dim=1)).log_softmax(dim=2)
    return log_probs_BTC.exp().masked_fill(~valid_BT.unsqueeze(2), 0.0)


class LinearChainCRF(nn.Module):
    """The scores of a chain of C tags as parameters: `start` [C], `between` [C, C], `end` [C].

    Zero until `initialise`: then tags do not know their neighbours, and the likelihood is that of
    a softmax at each step.
    """

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.between = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))

    @property
    def chain(self) -> ChainScores:
        """The parameters as what the functions of this module take."""
        return ChainScores(self.start, self.between, self.end)

    def log_likelihood(
        self, emissions_BTC: Tensor, tags_BT: Tensor, lengths_B: Tensor
    ) -> ChainLikelihood:
        """Return Σ log p(tags | x) over the rows, at most 0, and the number of valid tags."""
        scores_B = path_scores(emissions_BTC, tags_BT, lengths_B, self.chain)
        totals_B = log_partition(emissions_BTC, lengths_B, self.chain)
        return ChainLikelihood((scores_B - totals_B).sum(), int(lengths_B.sum()))

    def best_path(
        self, emissions_BTC: Tensor, lengths_B: Tensor, allowed: AllowedTransitions | None = None
    ) -> BestPaths:
        """Return `best_paths` of these scores."""
        return best_paths(emissions_BTC, lengths_B, self.chain, allowed)

    def marginals(self, emissions_BTC: Tensor, lengths_B: Tensor) -> Tensor:
        """Return `tag_marginals` of these scores."""
        return tag_marginals(emissions_BTC, lengths_B, self.chain)

    def initialise(self, generator: torch.Generator, *, bound: float = 0.1) -> None:
        """Draw every score from ±`bound`."""
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound, generator=generator)


def _forward(emissions_BTC: Tensor, valid_BT: Tensor, chain: ChainScores) -> list[Tensor]:
    """Return a_t [B, C] of every step; at padding that of the row's last valid step."""
    between_CC = chain.between_CC.double()
    a_BC = chain.start_C.double() + emissions_BTC[:, 0]
    steps = [a_BC]
    for step in range(1, emissions_BTC.shape[1]):
        reached_BC = (a_BC.unsqueeze(2) + between_CC).logsumexp(dim=1) + emissions_BTC[:, step]
        a_BC = torch.where(valid_BT[:, step : step + 1], reached_BC, a_BC)
        steps.append(a_BC)
    return steps


def _checked(emissions_BTC: Tensor, lengths_B: Tensor, chain: ChainScores) -> tuple[Tensor, Tensor]:
    """Return emissions in float64 with 0 at padding, and valid_BT."""
    require_shape("emissions_BTC", emissions_BTC, (None, None, chain.start_C.shape[0]))
    require_shape("lengths_B", lengths_B, (emissions_BTC.shape[0],))
    valid_BT = valid_positions(lengths_B.to(emissions_BTC.device), emissions_BTC.shape[1])
    return emissions_BTC.double().masked_fill(~valid_BT.unsqueeze(2), 0.0), valid_BT


def _require_paths(scores_B: Tensor, lengths_B: Tensor) -> None:
    lost_B = scores_B == -math.inf
    if bool(lost_B.any()):
        row = int(lost_B.nonzero()[0])
        raise DataError(
            "no sequence of tags is allowed",
            got=f"row {row} of length {int(lengths_B[row])}",
            hint="the tags seen in training do not suffice for the scheme: decode without it",
        )
