"""Scores of tokens with their places, and a table of each one's surprisal written on the way."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from elman.errors import ShapeError
from elman.evaluation.language import STREAM_WINDOW, Ids, score_lines_by, score_stream_by
from elman.evaluation.scorers import TokenScorer
from elman.evaluation.units import LanguageScore, nats_to_bits
from elman.processes import Processes

SURPRISAL_COLUMNS = ("start", "end", "token", "surprisal_bits", "unknown")
BITS_PER_NAT = nats_to_bits(1.0)


@dataclass(frozen=True)
class TokenRows:
    """Tokens of a text in order: ids [N], character offsets starts [N] and ends [N], and texts.

    Raises `ShapeError` where the four do not have one length.
    """

    ids: Ids
    starts: npt.NDArray[np.integer]
    ends: npt.NDArray[np.integer]
    texts: Sequence[str]

    def __post_init__(self) -> None:
        lengths = [len(self.ids), len(self.starts), len(self.ends), len(self.texts)]
        if len(set(lengths)) > 1:
            raise ShapeError(
                "ids, starts, ends and texts of tokens must have one length", got=str(lengths)
            )


class RowSink(Protocol):
    """What is told of each token of a text, in order."""

    def write_context(self, rows: TokenRows, count: int) -> None:
        """Take the first `count` rows, which are context only."""
        ...

    def write(self, rows: TokenRows, first: int, nats_N: npt.NDArray[np.float64]) -> None:
        """Take rows[first : first + N] with their nats."""
        ...


def turned_rows(rows: TokenRows) -> TokenRows:
    """Return the rows as a reader from the other end meets them: last first, each from its end."""
    texts = list(reversed(rows.texts))
    return TokenRows(rows.ids[::-1], rows.ends[::-1], rows.starts[::-1], texts)


class _TurnedSink:
    """Holds what is told of turned rows, and tells another sink of it in the order of the text."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink
        self._held: list[tuple[TokenRows, npt.NDArray[np.float64] | None]] = []

    def write_context(self, rows: TokenRows, count: int) -> None:
        self._held.append((_first_rows(rows, 0, count), None))

    def write(self, rows: TokenRows, first: int, nats_N: npt.NDArray[np.float64]) -> None:
        self._held.append((_first_rows(rows, first, len(nats_N)), nats_N))

    def flush(self) -> None:
        """Tell all of it, in the order of the text."""
        held = sorted(self._held, key=lambda one: int(one[0].starts[-1]) if len(one[0].ids) else 0)
        for rows, nats_N in held:
            back = turned_rows(rows)
            if nats_N is None:
                self._sink.write_context(back, len(back.ids))
            else:
                self._sink.write(back, 0, nats_N[::-1])


@contextmanager
def in_reading_order(sink: RowSink, direction: Literal["forward", "backward"]) -> Iterator[RowSink]:
    """Give a sink of rows as they are read, which tells `sink` of them in the order of the text."""
    if direction == "forward":
        yield sink
        return
    turned = _TurnedSink(sink)
    yield turned
    turned.flush()


def _first_rows(rows: TokenRows, first: int, count: int) -> TokenRows:
    part = slice(first, first + count)
    return TokenRows(rows.ids[part], rows.starts[part], rows.ends[part], rows.texts[part])


def in_parts(rows: TokenRows, most: int) -> Iterator[TokenRows]:
    """Yield `rows` in order, at most `most` of them at once."""
    for start in range(0, len(rows.ids), most):
        part = slice(start, start + most)
        yield TokenRows(rows.ids[part], rows.starts[part], rows.ends[part], rows.texts[part])


def score_stream_rows(
    scorer: TokenScorer,
    chunks: Iterable[TokenRows],
    sink: RowSink | None,
    *,
    window: int = STREAM_WINDOW,
    boundary_id: int | None = None,
    unk_id: int | None = None,
) -> LanguageScore:
    """Score a stream as `score_stream_by` does and tell `sink` of each of its tokens.

    Without a sink the score alone is returned. The first token of a stream without a start mark is
    context only. Rows are told as the text is read; about `window` tokens and one chunk are held at
    a time.
    """
    pending: deque[TokenRows] = deque()
    offset = 0  # of the first row not yet written, within the oldest chunk pending

    def read() -> Iterator[Ids]:
        nonlocal offset
        is_first = boundary_id is None
        for rows in chunks:
            if not len(rows.ids):
                continue
            pending.append(rows)
            if is_first:
                if sink is not None:
                    sink.write_context(rows, 1)
                is_first, offset = False, 1
            yield rows.ids

    def write(nats_N: npt.NDArray[np.float64], targets_N: npt.NDArray[np.int64]) -> None:
        nonlocal offset
        done = 0
        while done < len(nats_N):
            rows = pending[0]
            count = min(len(rows.ids) - offset, len(nats_N) - done)
            if sink is not None:
                sink.write(rows, offset, nats_N[done : done + count])
            done, offset = done + count, offset + count
            if offset == len(rows.ids):
                pending.popleft()
                offset = 0

    return score_stream_by(
        scorer,
        read(),
        window=window,
        boundary_id=boundary_id,
        unk_id=unk_id,
        on_tokens=write,
    )


def score_line_rows(
    scorer: TokenScorer,
    lines: Iterable[TokenRows],
    sink: RowSink | None,
    *,
    boundary_id: int,
    boundary_text: str,
    batch_size: int = 64,
    unk_id: int | None = None,
    processes: Processes | None = None,
) -> LanguageScore:
    """Score lines as `score_lines_by` does; tell `sink` of each token and stop mark.

    It may be None. The stop mark's row comes last in its
    line, is called `boundary_text`, and has no width: both offsets are the end of the line's last
    token (0 where a first line is empty, the end of the line before where a later one is).
    """
    pending: deque[TokenRows] = deque()
    end = 0

    def read() -> Iterator[Ids]:
        for rows in lines:
            pending.append(rows)
            yield rows.ids

    def write(
        number: int, nats_N: npt.NDArray[np.float64], targets_N: npt.NDArray[np.int64]
    ) -> None:
        nonlocal end
        rows = pending.popleft()
        if sink is not None:
            sink.write(rows, 0, nats_N[:-1])
        if len(rows.ends):
            end = int(rows.ends[-1])
        stop_N = np.array([end])
        stop = TokenRows(targets_N[-1:], stop_N, stop_N, (boundary_text,))
        if sink is not None:
            sink.write(stop, 0, nats_N[-1:])

    return score_lines_by(
        scorer,
        read(),
        boundary_id=boundary_id,
        batch_size=batch_size,
        unk_id=unk_id,
        on_line=write,
        processes=processes,
    )


def escape_field(text: str) -> str:
    r"""Return `text` fit for one field of a tab-separated table.

    A backslash becomes two; a tab, a line end and every other character that is not printable
    become \t, \n, \xa0, \u2028 and so on, as in a Python string literal, whose reader undoes it.
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode() for c in text
    )


class SurprisalTable:
    """A table of each token's surprisal, its header written at once.

    The columns are tab-separated, SURPRISAL_COLUMNS in the first line: start and end as given, the
    token escaped (`escape_field`), surprisal_bits = -log2 p in as many digits as the float64 needs,
    empty for what is context only, unknown 0 or 1; nothing is quoted.
    """

    def __init__(self, out: TextIO, unk_id: int | None) -> None:
        self._out, self._unk_id = out, unk_id
        out.write("\t".join(SURPRISAL_COLUMNS) + "\n")

    def write_context(self, rows: TokenRows, count: int) -> None:
        """Write the first `count` rows as context only, their surprisal left empty."""
        self._write(rows, slice(0, count), [""] * count)

    def write(self, rows: TokenRows, first: int, nats_N: npt.NDArray[np.float64]) -> None:
        """Write rows[first : first + N] with nats_N in bits."""
        bits = [repr(value) for value in (nats_N * BITS_PER_NAT).tolist()]
        self._write(rows, slice(first, first + len(bits)), bits)

    def _write(self, rows: TokenRows, part: slice, bits: Sequence[str]) -> None:
        unk_id = self._unk_id
        columns = zip(
            rows.ids[part].tolist(),
            rows.starts[part].tolist(),
            rows.ends[part].tolist(),
            rows.texts[part],
            bits,
            strict=True,
        )
        self._out.writelines(
            f"{start}\t{end}\t{escape_field(text)}\t{surprisal}\t{int(token == unk_id)}\n"
            for token, start, end, text, surprisal in columns
        )
