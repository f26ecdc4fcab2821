"""Scores of text under a recurrent language model: each token predicted once, memory constant."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch

from elman.data.batches import BatchSource, TokenBatch
from elman.errors import SettingError
from elman.evaluation.scorers import ModelScorer, TokenScorer
from elman.evaluation.units import LanguageScore, LanguageTally
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import LossSum, token_loss
from elman.models.language import LanguageModel
from elman.processes import Processes

Ids = npt.NDArray[np.integer]
OnTokens = Callable[[npt.NDArray[np.float64], npt.NDArray[np.int64]], None]
"""Receives (nats_N, targets_N) of the next predictions, in the order of the text."""
OnLine = Callable[[int, npt.NDArray[np.float64], npt.NDArray[np.int64]], None]
"""Receives (line number, nats_N, targets_N) of each line in order, the stop mark last."""

STREAM_WINDOW = 512
"""Tokens read at once from a stream; fewer are slower, and so are more than some 1,024 (caches)."""
LINE_WINDOW = 256
"""Steps of a batch of lines run at once, which bounds the memory that one long line takes."""
POOL_BATCHES = 32
"""Batches of lines sorted by length together, so that little is padded."""


def score_stream(
    model: LanguageModel,
    chunks: Iterable[Ids],
    *,
    plan: KernelPlan,
    window: int = STREAM_WINDOW,
    boundary_id: int | None = None,
    unk_id: int | None = None,
    on_tokens: OnTokens | None = None,
) -> LanguageScore:
    """Score one stream of ids as `score_stream_by` does, under the model alone."""
    return score_stream_by(
        ModelScorer(model, plan),
        chunks,
        window=window,
        boundary_id=boundary_id,
        unk_id=unk_id,
        on_tokens=on_tokens,
    )


def score_stream_by(
    scorer: TokenScorer,
    chunks: Iterable[Ids],
    *,
    window: int = STREAM_WINDOW,
    boundary_id: int | None = None,
    unk_id: int | None = None,
    on_tokens: OnTokens | None = None,
) -> LanguageScore:
    """Score one stream of ids in a single lane, the state carried from its start to its end.

        loss = -Σ_t ln p(x_t | x_1 … x_{t-1})

    Every id is predicted once, except the first of a stream without a start mark, which is context
    only; with `boundary_id` before them all N are. `chunks` may be cut anywhere; they are cut anew
    into windows of `window` ids, which bounds memory and changes no number beyond rounding. A
    stream with nothing to predict gives a score of no tokens. Dropout is off.
    """
    _require_positive("window", window)
    tally = LanguageTally(unk_id=unk_id)
    state: StackState | None = None
    with torch.inference_mode():
        for ids_N in _windows(chunks, window, boundary_id):
            ids_BT = torch.from_numpy(ids_N).unsqueeze(0).to(scorer.device)
            nats_BT, state = scorer.nats(ids_BT[:, :-1], ids_BT[:, 1:], state)
            nats_N = nats_BT[0].cpu().numpy()
            tally.add(nats_N, ids_N[1:])
            if on_tokens is not None:
                on_tokens(nats_N, ids_N[1:])
    return tally.score()


def score_lines(
    model: LanguageModel,
    lines: Iterable[Ids],
    *,
    plan: KernelPlan,
    boundary_id: int,
    batch_size: int = 64,
    window: int = LINE_WINDOW,
    unk_id: int | None = None,
    on_line: OnLine | None = None,
) -> LanguageScore:
    """Score lines as `score_lines_by` does, under the model alone."""
    return score_lines_by(
        ModelScorer(model, plan),
        lines,
        boundary_id=boundary_id,
        batch_size=batch_size,
        window=window,
        unk_id=unk_id,
        on_line=on_line,
    )


def score_lines_by(
    scorer: TokenScorer,
    lines: Iterable[Ids],
    *,
    boundary_id: int,
    batch_size: int = 64,
    window: int = LINE_WINDOW,
    unk_id: int | None = None,
    on_line: OnLine | None = None,
    processes: Processes | None = None,
) -> LanguageScore:
    """Score lines that know nothing of each other: input [S] x1 … xn, predicted x1 … xn [S].

    The start mark is context only, the stop mark is predicted and counted: n + 1 predictions for a
    line. Lines are batched with others of like length and told to `on_line` in their own order;
    neither batch_size nor window changes a number beyond rounding. Memory is bounded by
    POOL_BATCHES · batch_size lines. An empty line is the single prediction of the stop mark; leave
    blank lines out before if they are no examples. Several `processes`, which all have the same
    lines, score a share of the batches each and tell each other: the score is of all lines.
    """
    among = Processes() if processes is None else processes
    _require_positive("batch_size", batch_size)
    _require_positive("window", window)
    tally = LanguageTally(unk_id=unk_id)
    number = 0
    remaining = iter(lines)
    while pool := list(islice(remaining, POOL_BATCHES * batch_size)):
        rows = [_framed(ids_N, boundary_id) for ids_N in pool]
        order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
        nats = [np.zeros(len(row) - 1) for row in rows]
        batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        for batch in batches[among.rank :: among.size]:
            scored = _score_rows(scorer, [rows[row] for row in batch], window)
            for row, nats_N in zip(batch, scored, strict=True):
                nats[row] = nats_N
        if among.size > 1:
            nats = _of_all(nats, among)
        for ids_N, nats_N in zip(rows, nats, strict=True):
            tally.add(nats_N, ids_N[1:])
            if on_line is not None:
                on_line(number, nats_N, ids_N[1:])
            number += 1
    return tally.score()


def validation_loss(
    model: LanguageModel, source: BatchSource[TokenBatch], *, plan: KernelPlan
) -> LossSum:
    """Return the loss of one epoch of `source`, in lanes, as training asks for it again and again.

    The state is carried where a batch continues the one before. Lanes of a stream start from
    zeros, each of them with one target of less context, so that the figure depends a little on
    their number; `score_stream` gives the exact one. Dropout is off; no mode of the model changes.
    """
    total = LossSum.zero()
    state: StackState | None = None
    device = model.device
    with torch.inference_mode():
        for index in range(source.batches_per_epoch(0)):
            batch = source.batch(0, index)
            lengths_B = batch.lengths_B.to(device)
            output = model(
                batch.ids_BT.to(device), state if batch.continues else None, lengths_B, plan=plan
            )
            state = output.state
            loss = token_loss(
                output.states_BTH, output.readout, batch.targets_BT.to(device), lengths_B, plan=plan
            )
            total = total + LossSum(loss.nats.cpu(), loss.count)
    return LossSum(total.nats.clone(), total.count)


def _windows(
    chunks: Iterable[Ids], window: int, boundary_id: int | None
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield pieces of window + 1 ids, the last shorter; each begins with the last id before it."""
    held: list[npt.NDArray[np.int64]] = []
    if boundary_id is not None:
        held.append(np.array([boundary_id], dtype=np.int64))
    num_held = len(held)
    for chunk in chunks:
        held.append(np.asarray(chunk).astype(np.int64))
        num_held += len(held[-1])
        if num_held <= window:
            continue
        ids_N = np.concatenate(held)
        start = 0
        while num_held - start > window:
            yield ids_N[start : start + window + 1]
            start += window
        held, num_held = [ids_N[start:].copy()], num_held - start
    if num_held > 1:
        yield np.concatenate(held)


def _framed(ids_N: Ids, boundary_id: int) -> npt.NDArray[np.int64]:
    framed_N = np.full(len(ids_N) + 2, boundary_id, dtype=np.int64)
    framed_N[1:-1] = ids_N
    return framed_N


def _score_rows(
    scorer: TokenScorer, rows: list[npt.NDArray[np.int64]], window: int
) -> list[npt.NDArray[np.float64]]:
    """Return -ln p of every id but the first of each row; rows come longest first."""
    device = scorer.device
    lengths_B = torch.tensor([len(row) - 1 for row in rows])
    longest = int(lengths_B[0])
    nats_BT = np.zeros((len(rows), longest), dtype=np.float64)
    state: StackState | None = None
    with torch.inference_mode():
        for start in range(0, longest, window):
            stop = min(start + window, longest)
            ids_BT = np.zeros((len(rows), stop - start + 1), dtype=np.int64)
            for row, ids_N in zip(ids_BT, rows, strict=True):
                piece_N = ids_N[start : stop + 1]
                row[: len(piece_N)] = piece_N
            part_BT = torch.from_numpy(ids_BT).to(device)
            left_B = (lengths_B - start).clamp(0, stop - start).to(device)
            part_nats_BT, state = scorer.nats(part_BT[:, :-1], part_BT[:, 1:], state, left_B)
            nats_BT[:, start:stop] = part_nats_BT.cpu().numpy()
    return [nats_BT[row, : len(ids_N) - 1] for row, ids_N in enumerate(rows)]


def _of_all(
    nats: list[npt.NDArray[np.float64]], processes: Processes
) -> list[npt.NDArray[np.float64]]:
    """Return what all processes found, where each has 0 for what the others did."""
    ends = np.cumsum([len(nats_N) for nats_N in nats])[:-1]
    return np.split(processes.sums_of(torch.from_numpy(np.concatenate(nats))).numpy(), ends)


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise SettingError(f"{name} must be an int >= 1", got=str(value))
