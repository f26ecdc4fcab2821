"""One stream in lanes and segments: the integers 1 to 24, four abreast.

    lane b holds N // B of the N targets, the first N mod B lanes one more

A lane reads on where its segment before has ended. Every token but the first is a target once; the
tool that the document reads cuts the stream into equal columns instead, drops what is left over,
and predicts nothing across two columns.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from elman.data.batches import TokenBatch
from elman.data.streams import StreamBatches
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels

_LAST = 24
_LANES = 4
_SEGMENT = 3


def _run() -> Iterator[Measured]:
    """Yield lanes and segments, time first, as the document shows them."""
    yield Measured("004-29", _table(), "what each lane reads, and the end of the stream")
    stream = _stream(_SEGMENT)
    ours = [one for i in range(2) for _, one in _pairs(stream.batch(0, i))]
    yield Measured(
        "004-30",
        [len(set(ours)), len(_trimmed_targets(_LAST)), len(_trimmed_targets(_LAST + 2))],
        f"different targets of {_LAST} tokens in {_LANES} lanes, and by the document's tool; of "
        f"{_LAST + 2} tokens by that tool",
    )
    first, second = stream.batch(0, 0), stream.batch(0, 1)
    yield Measured(
        "004-31",
        [_rows(first), first.targets_BT.t().flatten().tolist()],
        "rows of the first segment, time first, and its targets in that order",
    )
    yield Measured(
        "004-32",
        [*_rows(second), second.continues],
        "rows of the second segment, padding left out; whether it goes on from the first",
    )


def _stream(window: int) -> StreamBatches:
    return StreamBatches(np.arange(1, _LAST + 1), batch_size=_LANES, window=window)


def _rows(batch: TokenBatch) -> list[list[int]]:
    """Return the ids at each step, lane by lane, without padding."""
    lengths = batch.lengths_B.tolist()
    steps = enumerate(batch.ids_BT.t().tolist())
    return [[one for one, n in zip(row, lengths, strict=True) if t < n] for t, row in steps]


def _pairs(batch: TokenBatch) -> list[tuple[int, int]]:
    """Return what is read and what is to be predicted from it, at every step that is real."""
    found = []
    lanes = zip(batch.ids_BT.tolist(), batch.targets_BT.tolist(), batch.lengths_B, strict=True)
    for ids, targets, length in lanes:
        found += list(zip(ids[:length], targets[:length], strict=True))
    return found


def _table() -> list[list[int]]:
    """Return the stream's ids with a column for each lane; the last target ends the last one."""
    batch = _stream(_LAST // _LANES).batch(0, 0)
    columns = [lane[:n] for lane, n in zip(batch.ids_BT.tolist(), batch.lengths_B, strict=True)]
    columns[-1].append(int(batch.targets_BT[-1, batch.lengths_B[-1] - 1]))
    return [list(row) for row in zip(*columns, strict=True)]


def _trimmed_targets(num_ids: int) -> set[int]:
    """Return the targets of the document's rule: equal columns, their first tokens unpredicted."""
    length = num_ids // _LANES
    columns = np.arange(1, length * _LANES + 1).reshape(_LANES, length)
    return set(columns[:, 1:].flatten().tolist())


def _draw(path: Path) -> None:
    """Draw the stream in its lanes, coloured by segment, and what the other rule leaves out."""
    draw_panels(path, [_lane_panel])


def _lane_panel(axes: Any) -> None:
    stream, trimmed = _stream(_SEGMENT), _trimmed_targets(_LAST)
    for index in range(stream.batches_per_epoch(0)):
        batch = stream.batch(0, index)
        for lane, length in enumerate(batch.lengths_B.tolist()):
            for step in range(length):
                place = index * _SEGMENT + step
                read, target = (int(ids[lane, step]) for ids in (batch.ids_BT, batch.targets_BT))
                face = ("#c6dbef", "#fdd0a2")[index % 2]
                box = {"boxstyle": "round,pad=0.35", "facecolor": face, "edgecolor": "none"}
                axes.text(lane, place, str(read), ha="center", va="center", bbox=box)
                colour = "0.35" if target in trimmed else "#d62728"
                axes.text(
                    lane + 0.33, place + 0.04, f"→ {target}", color=colour, fontsize=8, va="center"
                )
    axes.set(xlim=(-0.5, _LANES - 0.1), ylim=(stream.lane_length - 0.5, -0.5))
    axes.set(xticks=range(_LANES), yticks=range(stream.lane_length))
    axes.set(xlabel="lane", ylabel="step; colours are segments")
    axes.set_title("every token is a target once; red: lost by equal columns")


LANES = Experiment(
    "lanes",
    "the integers 1 to 24 in four lanes and segments of three",
    "document 004, 7.3",
    _run,
    _draw,
)
