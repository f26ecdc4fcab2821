"""What a search over continuations is: steps as functions, limits, hypotheses; greedy search.

A model enters as functions of a state, so that language models and encoder-decoders are searched
by the same code. Rows of the state are hypotheses; a search asks for rows again, in any order and
number, and keeps nothing of its own in the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.errors import SettingError, ShapeError

S = TypeVar("S")
AtLimit = Literal["end", "cut"]


@dataclass(frozen=True)
class StepFunctions(Generic[S]):
    """A model as a search sees it; `S` is whatever the model keeps between two tokens.

    step(state, last_ids_N) → (log_probs_NV, state): read one id in each row and return natural
    logarithms of probabilities of the next one. reorder(state, rows_N) → the state of these rows,
    which may repeat. weights(state) → weights_NS: the attention of the step that made `state`,
    0 on padding; None where there is none.
    """

    step: Callable[[S, Tensor], tuple[Tensor, S]]
    reorder: Callable[[S, Tensor], S]
    weights: Callable[[S], Tensor] | None = None


@dataclass(frozen=True)
class SearchLimits:
    """What may be found. Lengths count tokens before the end mark, and not the start mark.

    end_id: the end mark; None: there is none, and `at_limit` must be "cut".
    max_lengths: one for each source, so that no neighbour changes a result.
    min_length: the end mark is not considered before it. forbidden_ids: never generated. What is
    not considered is not given to others: every score stays what the model says.
    at_limit: "end": nothing but the end mark may follow a hypothesis of the greatest length;
    "cut": it stops there without one.
    """

    end_id: int | None
    max_lengths: tuple[int, ...]
    min_length: int = 0
    forbidden_ids: tuple[int, ...] = ()
    at_limit: AtLimit = "end"

    def __post_init__(self) -> None:
        if self.at_limit not in get_args(AtLimit):
            raise SettingError(
                "at_limit is unknown", got=repr(self.at_limit), allowed=", ".join(get_args(AtLimit))
            )
        if self.end_id is None and self.at_limit == "end":
            raise SettingError("without an end mark a search is cut at its limit", got="end")
        if self.end_id is not None and self.end_id in self.forbidden_ids:
            raise SettingError("the end mark must not be forbidden", got=str(self.end_id))
        if self.min_length < 0:
            raise SettingError("min_length must be at least 0", got=str(self.min_length))
        short = [length for length in self.max_lengths if length < max(self.min_length, 0)]
        if short:
            raise SettingError(
                "a greatest length must not be below min_length",
                got=str(short[0]),
                allowed=f"at least {self.min_length}",
            )

    def longest(self, source: int) -> int:
        """Return the greatest length that a score may be divided by, the end mark counted."""
        return self.max_lengths[source] + (1 if self.at_limit == "end" else 0)


@dataclass(frozen=True)
class Hypothesis:
    """A continuation: ids without start and end mark, and what it is worth.

    ended: whether the end mark follows, exactly once, scored in log_prob_nats; False: cut.
    log_prob_nats: Σ log p of the ids and the end mark, the number of teacher forcing. score: what
    the search ranks by, log_prob_nats itself or made of it. weights_TS: the attention of every
    step, the end mark's too, over the valid positions of the source; None without attention.
    """

    ids: tuple[int, ...]
    ended: bool
    log_prob_nats: float
    score: float
    weights_TS: npt.NDArray[np.float32] | None = None

    @property
    def length(self) -> int:
        """Tokens that were scored: the end mark counts, the start mark does not."""
        return len(self.ids) + int(self.ended)

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold; every float survives it exactly."""
        weights = None if self.weights_TS is None else self.weights_TS.tolist()
        return {**vars(self), "ids": list(self.ids), "weights_TS": weights}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Return the hypothesis that told this."""
        weights = told["weights_TS"]
        weights_TS = None if weights is None else np.array(weights, dtype=np.float32)
        return cls(**{**told, "ids": tuple(told["ids"]), "weights_TS": weights_TS})


def greedy_search(
    model: StepFunctions[S],
    state: S,
    start_ids_B: Tensor,
    limits: SearchLimits,
    *,
    source_lengths: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Return for each source the continuation of the likeliest next id, the lowest among equals.

    `state` has a row for each of the B sources, before reading start_ids_B [B]. Rows that have
    ended are no longer stepped. `source_lengths`, needed with attention, cut the weights to valid
    positions. A source where nothing is possible any more is cut there. No source at all: no step.

    Raises `SettingError` or `ShapeError` where the arguments do not fit each other.
    """
    require_sources(model, start_ids_B, limits, source_lengths)
    num_sources = len(start_ids_B)
    ids: list[list[int]] = [[] for _ in range(num_sources)]
    sums, ended = [0.0] * num_sources, [False] * num_sources
    weights: list[list[npt.NDArray[np.float32]]] = [[] for _ in range(num_sources)]
    live = [source for source in range(num_sources) if may_go_on(limits, source, 0)]
    last_ids_N = start_ids_B.long()
    with torch.inference_mode():
        if live and len(live) < num_sources:
            rows_N = torch.tensor(live, device=last_ids_N.device)
            state, last_ids_N = model.reorder(state, rows_N), last_ids_N[rows_N]
        while live:
            log_probs_NV, state = model.step(state, last_ids_N)
            masked_NV = considered(log_probs_NV, limits, live, len(ids[live[0]]))
            best_N = masked_NV.argmax(dim=1)  # the first of equals
            best = best_N.tolist()
            values = masked_NV.gather(1, best_N.unsqueeze(1)).squeeze(1).tolist()
            read = None if model.weights is None else attention_rows(model.weights(state))
            going: list[int] = []
            for row, source in enumerate(live):
                if values[row] == -np.inf:
                    continue
                sums[source] += values[row]
                if read is not None and source_lengths is not None:
                    weights[source].append(read[row, : source_lengths[source]])
                ended[source] = best[row] == limits.end_id
                if not ended[source]:
                    ids[source].append(best[row])
                    if may_go_on(limits, source, len(ids[source])):
                        going.append(row)
            rows_N = torch.tensor(going, dtype=torch.long, device=log_probs_NV.device)
            live = [live[row] for row in going]
            if live:
                state, last_ids_N = model.reorder(state, rows_N), best_N[rows_N]
    return [
        Hypothesis(
            tuple(ids[source]),
            ended[source],
            sums[source],
            sums[source],
            None if model.weights is None else stacked(weights[source], source, source_lengths),
        )
        for source in range(num_sources)
    ]


def may_go_on(limits: SearchLimits, source: int, length: int) -> bool:
    """Whether anything may follow `length` tokens: at the limit, an end mark where it is needed."""
    return length < limits.max_lengths[source] or limits.at_limit == "end"


def considered(
    log_probs_NV: Tensor, limits: SearchLimits, sources: Sequence[int], length: int
) -> Tensor:
    """Return log_probs_NV with −inf where an id may not follow `length` tokens of its source.

    What is given is not written to, and handed back where nothing is ruled out.
    """
    full = [row for row, source in enumerate(sources) if length >= limits.max_lengths[source]]
    too_short = limits.end_id is not None and length < limits.min_length
    if not (full or too_short or limits.forbidden_ids):
        return log_probs_NV
    masked_NV = log_probs_NV.clone()
    if limits.forbidden_ids:
        masked_NV[:, list(limits.forbidden_ids)] = -torch.inf
    if too_short:
        masked_NV[:, limits.end_id] = -torch.inf
    if full:
        ends_N = masked_NV[full, limits.end_id]
        masked_NV[full] = -torch.inf
        masked_NV[full, limits.end_id] = ends_N
    return masked_NV


def attention_rows(weights_NS: Tensor) -> npt.NDArray[np.float32]:
    """Return the weights as an array that shares nothing with the model."""
    rows_NS: npt.NDArray[np.float32] = weights_NS.float().numpy(force=True).copy()
    return rows_NS


def stacked(
    rows: Sequence[npt.NDArray[np.float32]], source: int, source_lengths: Sequence[int] | None
) -> npt.NDArray[np.float32]:
    """Return weights_TS of one hypothesis, [0, S] where no step was made."""
    if rows:
        return np.stack(rows)
    width = 0 if source_lengths is None else source_lengths[source]
    return np.zeros((0, width), dtype=np.float32)


def require_sources(
    model: StepFunctions[S],
    start_ids_B: Tensor,
    limits: SearchLimits,
    source_lengths: Sequence[int] | None,
) -> None:
    """Raise unless there is one limit, and with attention one length, for each source."""
    num_sources = len(start_ids_B)
    if start_ids_B.ndim != 1 or len(limits.max_lengths) != num_sources:
        raise ShapeError(
            "a search needs one start id and one greatest length for each source",
            got=f"{list(start_ids_B.shape)} and {len(limits.max_lengths)}",
        )
    if model.weights is not None and (source_lengths is None or len(source_lengths) != num_sources):
        raise SettingError(
            "a search with attention needs the length of each source",
            got="none" if source_lengths is None else str(len(source_lengths)),
            allowed=str(num_sources),
        )
