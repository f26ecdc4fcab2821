"""A text cut into blocks that are the same for every way of reading it.

A run reads a stream or lines, in one normal form or another, so that its tokens stand at places of
its own. Blocks end where a line ends, and within long lines where no normal form joins what stands
on both sides: each can then be told in the places of any run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elman.config.text_settings import NormalForm, Unit
from elman.text.normalising import normalise, starts_afresh

MOST_BLOCKS = 500
LEAST_CHARACTERS = 200
"""Characters of a block at least: shorter ones depend on each other."""


class Reading(NamedTuple):
    """How a run reads a text: as a stream or as lines, and in which normal form."""

    unit: Unit
    form: NormalForm


@dataclass(frozen=True)
class TextBlocks:
    """ends_B: where each block ends, in characters of the text as it is read, the last one too.

    bytes_B: the bytes in UTF-8 that a run is asked about: of a stream all, of lines those of lines
    that are not blank, each with its end.
    """

    ends_B: npt.NDArray[np.int64]
    bytes_B: npt.NDArray[np.int64]


def block_characters(num_characters: int) -> int:
    """Return how many characters a block of a text has, at least."""
    return max(LEAST_CHARACTERS, -(-num_characters // MOST_BLOCKS))


def text_blocks(
    lines: Iterable[str], length: int, readings: Sequence[Reading], *, has_last_end: bool
) -> dict[Reading, TextBlocks]:
    """Return the blocks of a text under each reading; `lines` come without their ends.

    A block has `length` characters or a little more. `has_last_end`: the last line has an end.
    """
    forms = sorted({reading.form for reading in readings})
    places = dict.fromkeys(forms, 0)
    ends: dict[NormalForm, list[int]] = {form: [] for form in forms}
    all_bytes, line_bytes = [0], [0]
    filled = 0
    for line in lines:
        is_blank = not line.strip()
        for piece in _pieces(f"{line}\n", length):
            if filled >= length:
                for form in forms:
                    ends[form].append(places[form])
                all_bytes.append(0)
                line_bytes.append(0)
                filled = 0
            size = len(piece.encode("utf-8", "surrogatepass"))
            all_bytes[-1] += size
            line_bytes[-1] += 0 if is_blank else size
            filled += len(piece)
            for form in forms:
                places[form] += len(normalise(piece, form))
    all_bytes[-1] -= 0 if has_last_end else 1
    for form in forms:
        ends[form].append(places[form])
    return {
        reading: TextBlocks(
            np.array(ends[reading.form]),
            np.array(line_bytes if reading.unit == "line" else all_bytes),
        )
        for reading in readings
    }


def _pieces(line: str, length: int) -> Iterator[str]:
    start = 0
    while len(line) - start > length:
        end = start + length
        while end < len(line) and not starts_afresh(line[end]):
            end += 1
        yield line[start:end]
        start = end
    if start < len(line):
        yield line[start:]
