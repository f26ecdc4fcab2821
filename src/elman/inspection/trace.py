"""A language model read token by token: what each step did, and what it expected to come next."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.cells.cell import CellState
from elman.inspection.recording import CellStep, Recording, record
from elman.layers.stack import StackState
from elman.models.recurrent import RecurrentLanguageModel

WINDOW = 128
"""Steps that are kept at a time."""


class Choice(NamedTuple):
    """A token that may come next, with its logit and its probability."""

    token_id: int
    logit: float
    probability: float


class NextToken(NamedTuple):
    """The token that really comes next. rank: 1 for the likeliest; equals share the best one."""

    choice: Choice
    nats: float
    rank: int


class TokenStep(NamedTuple):
    """One step of the model: the token read, what every cell did, what is expected to follow.

    `cells` are those of a batch of one, layer by layer. `top` are the likeliest tokens, the first
    one what greedy feedback would read next. `following` is None after the last token.
    """

    position: int
    token_id: int
    cells: tuple[CellStep, ...]
    top: tuple[Choice, ...]
    following: NextToken | None

    @property
    def greedy_differs(self) -> bool:
        """Whether feeding back the likeliest token would read another one than the text has."""
        return self.following is not None and self.top[0].token_id != (
            self.following.choice.token_id
        )


def trace(
    model: RecurrentLanguageModel,
    ids_N: npt.NDArray[np.integer],
    *,
    top: int = 5,
    state: StackState | None = None,
) -> Iterator[TokenStep]:
    """Yield what the model does at each of ids_N, in memory that does not grow with N.

    Probabilities are those of a softmax over all tokens in float64; of equal logits the lowest id
    comes first.
    """
    for start in range(0, len(ids_N), WINDOW):
        piece_N = ids_N[start : start + WINDOW].astype(np.int64)
        with torch.no_grad():
            recording = record(model.stack, model.inputs(torch.from_numpy(piece_N)[None]), state)
            logits_TV = model.readout.logits(recording.states_BTH)[0].double()
        state = recording.state
        for step, token_id in enumerate(piece_N.tolist()):
            position = start + step
            after = int(ids_N[position + 1]) if position + 1 < len(ids_N) else None
            yield _token_step(position, token_id, after, recording, step, logits_TV[step], top)


def _token_step(
    position: int,
    token_id: int,
    next_id: int | None,
    recording: Recording,
    step: int,
    logits_V: Tensor,
    top: int,
) -> TokenStep:
    log_probs_V = logits_V.log_softmax(dim=0)

    def choice(token_id: int) -> Choice:
        return Choice(token_id, logits_V[token_id].item(), log_probs_V[token_id].exp().item())

    order = torch.sort(logits_V, descending=True, stable=True).indices[:top]
    following = None
    if next_id is not None:
        rank = 1 + int((logits_V > logits_V[next_id]).sum())
        following = NextToken(choice(next_id), -log_probs_V[next_id].item(), rank)
    cells = tuple(steps[step] for steps in recording.steps)
    return TokenStep(position, token_id, cells, tuple(map(choice, order.tolist())), following)


class Divergence(NamedTuple):
    """How far apart two texts of one length leave the states: distances_L of each layer, ‖Δ‖.

    `token_ids` are those read of either text; the state is that after them, all parts together.
    """

    position: int
    token_ids: tuple[int, int]
    distances_L: tuple[float, ...]
    nats_apart: float
    """KL(p(next | first) ‖ p(next | second))."""


def diverge(
    model: RecurrentLanguageModel,
    first_N: npt.NDArray[np.integer],
    second_N: npt.NDArray[np.integer],
) -> Iterator[Divergence]:
    """Yield after each token how far apart the states are; both texts have as many tokens.

    Raises `ValueError` for texts of different lengths.
    """
    if len(first_N) != len(second_N):
        raise ValueError(f"texts of {len(first_N)} and {len(second_N)} tokens")
    states: list[StackState | None] = [None, None]
    for start in range(0, len(first_N), WINDOW):
        pieces = [ids_N[start : start + WINDOW].astype(np.int64) for ids_N in (first_N, second_N)]
        # Each by itself: rows of one product may differ in their last bits for the same numbers.
        read = [_read(model, ids_N, state) for ids_N, state in zip(pieces, states, strict=True)]
        states = [recording.state for recording, _ in read]
        (one, one_TV), (other, other_TV) = read
        apart_T = (one_TV.exp() * (one_TV - other_TV)).nansum(dim=1)
        for step, pair in enumerate(zip(*(piece.tolist() for piece in pieces), strict=True)):
            distances = tuple(
                _distance(steps[step].after, others[step].after)
                for steps, others in zip(one.steps, other.steps, strict=True)
            )
            yield Divergence(start + step, pair, distances, max(0.0, apart_T[step].item()))


def _read(
    model: RecurrentLanguageModel, ids_N: npt.NDArray[np.int64], state: StackState | None
) -> tuple[Recording, Tensor]:
    """Return what a batch of one records, and the log-probabilities [T, V] after each token."""
    with torch.no_grad():
        recording = record(model.stack, model.inputs(torch.from_numpy(ids_N)[None]), state)
        logits_TV = model.readout.logits(recording.states_BTH)[0].double()
    return recording, logits_TV.log_softmax(dim=1)


def _distance(one: CellState, other: CellState) -> float:
    parts = zip(one, other, strict=True)
    squares = sum((part - same).double().square().sum() for part, same in parts)
    return float(torch.as_tensor(squares).sqrt())
