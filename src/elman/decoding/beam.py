"""Beam search over step functions: exact bookkeeping, each source independent of the others.

At every step a source's live hypotheses and all ids that may follow them are candidates; the best
`beam` by summed log-probability go on. Those that end leave the beam and are kept. A candidate
before another in the order (higher sum; earlier hypothesis; lower id) wins ties; of finished
hypotheses with equal scores the one found first wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.decoding.search import (
    Hypothesis,
    SearchLimits,
    StepFunctions,
    attention_rows,
    considered,
    may_go_on,
    require_sources,
    stacked,
)
from elman.errors import SettingError

S = TypeVar("S")
Normalisation = Literal["none", "average", "gnmt"]

COVERAGE_FLOOR = 1e-30
"""The least coverage of a source position that the penalty sees, so that it stays finite."""


@dataclass(frozen=True)
class BeamSettings:
    """How wide, how many results, and what ranks them.

    beam: hypotheses that go on in each step. n_best: results for each source, at most `beam`.
    normalisation, with n tokens, the end mark counted and the start mark not:

        none      log_prob_nats;  average   log_prob_nats / n
        gnmt      log_prob_nats / ((5 + n) / 6)^alpha  (Y. Wu et al., arXiv:1609.08144, eq. 14)

    coverage: β of β Σ_j log min(Σ_t α_tj, 1), added to the score of a finished hypothesis (the
    same, eq. 14, over valid source positions and all steps, the end mark's too); 0 is off.
    """

    beam: int = 5
    n_best: int = 1
    normalisation: Normalisation = "none"
    alpha: float = 0.6
    coverage: float = 0.0

    def __post_init__(self) -> None:
        if self.normalisation not in get_args(Normalisation):
            allowed = ", ".join(get_args(Normalisation))
            raise SettingError(
                "the normalisation of a beam is unknown", got=self.normalisation, allowed=allowed
            )
        if self.beam < 1:
            raise SettingError("beam must be an int >= 1", got=str(self.beam))
        if not 1 <= self.n_best <= self.beam:
            raise SettingError(
                "n_best must be an int from 1 to beam", got=f"{self.n_best} with beam {self.beam}"
            )
        for name, value in (("alpha", self.alpha), ("coverage", self.coverage)):
            if not 0 <= value < np.inf:
                raise SettingError(f"{name} must be a finite number >= 0", got=f"{value:g}")

    @property
    def score_name(self) -> str:
        """What a score is, to be shown beside it."""
        name = {
            "none": "sum of log-probabilities, nats",
            "average": "log-probability per token, nats, end mark counted",
            "gnmt": f"log-probability / ((5 + n) / 6)^{self.alpha:g}, nats, end mark counted",
        }[self.normalisation]
        return name + (f", coverage penalty {self.coverage:g}" if self.coverage else "")

    def normalised(self, log_prob_nats: float, length: int) -> float:
        """Return the score of `length` tokens, the end mark counted, without the coverage."""
        if self.normalisation == "average":
            return log_prob_nats / max(length, 1)
        if self.normalisation == "gnmt":
            return log_prob_nats / float(((5 + length) / 6) ** self.alpha)
        return log_prob_nats

    def best_possible(self, log_prob_nats: float, longest: int) -> float:
        """Return a bound on the score of anything that begins with a hypothesis of this sum.

        Sums only fall and divisors only grow, so that the greatest length with nothing lost is
        the best case; the coverage penalty is at most 0.
        """
        return self.normalised(log_prob_nats, longest)


def beam_search(
    model: StepFunctions[S],
    state: S,
    start_ids_B: Tensor,
    limits: SearchLimits,
    settings: BeamSettings,
    *,
    source_lengths: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Return for each source its `n_best` hypotheses or as many as there are, best first.

    Arguments as in `greedy_search`; all sources are stepped together, and one that is done is no
    longer stepped. A source is done when nothing lives, or when `n_best` hypotheses are kept and no
    live one can still score above the worst of them. Where nothing has ended and nothing can go
    on, the live hypotheses are cut. No two results are the same sequence. A beam of one finds what
    `greedy_search` finds.
    """
    require_sources(model, start_ids_B, limits, source_lengths)
    if settings.coverage and model.weights is None:
        raise SettingError("a coverage penalty needs attention", got=f"{settings.coverage:g}")
    attended = None if model.weights is None else source_lengths
    searches = [
        _SourceSearch(source, limits, settings, attended, [_Node.root()])
        for source in range(len(start_ids_B))
    ]
    for search in searches:
        search.close_full(0)
    last_ids_N = start_ids_B.long()
    rows = [row for row, search in enumerate(searches) if search.live]
    length = 0
    with torch.inference_mode():
        while rows:
            if length or len(rows) < len(searches):
                rows_N = torch.tensor(rows, device=start_ids_B.device)
                state = model.reorder(state, rows_N)
                last_ids_N = last_ids_N if length else last_ids_N[rows_N]
            log_probs_NV, state = model.step(state, last_ids_N)
            sources = [search.source for search in searches for _ in search.live]
            masked_NV = considered(log_probs_NV, limits, sources, length)
            values_NK, ids_NK = best_of_rows(masked_NV, settings.beam)
            weights_NS = None if model.weights is None else attention_rows(model.weights(state))
            length += 1
            first, rows, last_ids = 0, [], list[int]()
            for search in searches:
                after = first + len(search.live)
                if after > first:
                    read_KS = None if weights_NS is None else weights_NS[first:after]
                    found = search.advance(values_NK[first:after], ids_NK[first:after], read_KS)
                    rows += [first + parent for parent in found]
                    last_ids += [node.token for node in search.live]
                first = after
            last_ids_N = torch.tensor(last_ids, dtype=torch.long, device=start_ids_B.device)
    return [search.results() for search in searches]


def best_of_rows(
    log_probs_NV: Tensor, beam: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the `beam` highest values [N, K] of each row and their ids, best first, K ≤ V.

    Equal values come in the order of their ids, and of those at the end of the list the lowest ids
    are taken, which `torch.topk` alone does not promise.
    """
    size = min(beam, log_probs_NV.shape[1])
    values_NK, ids_NK = torch.topk(log_probs_NV, size, dim=1)
    last_N1 = values_NK[:, -1:]
    tied_N = ((log_probs_NV >= last_N1) & (last_N1 > -torch.inf)).sum(dim=1) > size
    if bool(tied_N.any()):
        sorted_NV, order_NV = log_probs_NV[tied_N].sort(dim=1, descending=True, stable=True)
        values_NK[tied_N], ids_NK[tied_N] = sorted_NV[:, :size], order_NV[:, :size]
    values, ids = values_NK.double().numpy(force=True), ids_NK.numpy(force=True)
    order = np.lexsort((ids, -values), axis=1)
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(ids, order, axis=1)


@dataclass(frozen=True)
class _Node:
    """A live hypothesis: its last id and the one before; the chain of parents spells it."""

    parent: "_Node | None"
    token: int
    log_prob_nats: float
    weights_S: npt.NDArray[np.float32] | None

    @classmethod
    def root(cls) -> "_Node":
        return cls(None, -1, 0.0, None)

    def chain(self) -> list["_Node"]:
        """Return the nodes from the first id to this one."""
        nodes: list[_Node] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass
class _SourceSearch:
    """The search of one source: what lives, best first, and what is kept."""

    source: int
    limits: SearchLimits
    settings: BeamSettings
    source_lengths: Sequence[int] | None
    live: list[_Node]
    kept: list[Hypothesis] = field(default_factory=list)
    length: int = 0

    def advance(
        self,
        values_KK: npt.NDArray[np.float64],
        ids_KK: npt.NDArray[np.int64],
        weights_KS: npt.NDArray[np.float32] | None,
    ) -> list[int]:
        """Take one step; return which hypothesis each one that lives now goes on from."""
        before = self.live
        sums_KK = np.array([node.log_prob_nats for node in before])[:, None] + values_KK
        # A stable sort in the order of hypotheses, then of their ids, which are sorted already.
        order = np.argsort(-sums_KK, axis=None, kind="stable")[: self.settings.beam]
        parents: list[int] = []
        self.live, ended = [], list[_Node]()
        for place in order.tolist():
            parent, rank = divmod(place, sums_KK.shape[1])
            if sums_KK[parent, rank] == -np.inf:
                break
            weights_S = None
            if weights_KS is not None and self.source_lengths is not None:
                weights_S = weights_KS[parent, : self.source_lengths[self.source]]
            token = int(ids_KK[parent, rank])
            node = _Node(before[parent], token, float(sums_KK[parent, rank]), weights_S)
            if token == self.limits.end_id:
                ended.append(node)
            else:
                self.live.append(node)
                parents.append(parent)
        self.length += 1
        for node in ended:
            self._keep(node, ended=True)
        if not self.live and not self.kept and not ended:
            for node in before:
                self._keep(node, ended=False)
        self.close_full(self.length)
        if self._is_done():
            self.live = []
        return parents[: len(self.live)]

    def close_full(self, length: int) -> None:
        """Cut what lives where nothing may follow `length` tokens."""
        if not may_go_on(self.limits, self.source, length):
            for node in self.live:
                self._keep(node, ended=False)
            self.live = []

    def results(self) -> list[Hypothesis]:
        """Return what is kept, best first."""
        return self.kept

    def _is_done(self) -> bool:
        if len(self.kept) < self.settings.n_best or not self.live:
            return not self.live
        highest = max(node.log_prob_nats for node in self.live)
        bound = self.settings.best_possible(highest, self.limits.longest(self.source))
        return bound <= self.kept[-1].score

    def _keep(self, node: _Node, *, ended: bool) -> None:
        """Add a finished hypothesis, and let go of what falls behind the `n_best` first ones."""
        nodes = node.chain()
        ids = tuple(step.token for step in (nodes[:-1] if ended else nodes))
        rows = [step.weights_S for step in nodes if step.weights_S is not None]
        weights_TS = None
        if self.source_lengths is not None:
            weights_TS = stacked(rows, self.source, self.source_lengths)
        score = self.settings.normalised(node.log_prob_nats, len(nodes))
        if self.settings.coverage and weights_TS is not None:
            covered_S = weights_TS.sum(axis=0, dtype=np.float64).clip(COVERAGE_FLOOR, 1.0)
            score += self.settings.coverage * float(np.log(covered_S).sum())
        self.kept.append(Hypothesis(ids, ended, node.log_prob_nats, score, weights_TS))
        self.kept.sort(key=lambda hypothesis: -hypothesis.score)
        del self.kept[self.settings.n_best :]
