"""Which tokens of a text a run has never seen, told in one line."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from elman.errors import first_few
from elman.text.tokenizer import Tokenizer

MOST_NAMED = 5


def unknown_places(tokenizer: Tokenizer, ids_N: npt.NDArray[np.integer]) -> tuple[int, ...]:
    """Return the places at which ids_N is [ UNK ]."""
    unk_id = tokenizer.vocabulary.unk_id
    return () if unk_id is None else tuple(np.flatnonzero(ids_N == unk_id).tolist())


def told_unknown(
    shown: Sequence[str],
    unknown: Sequence[int],
    left_out: int = 0,
    *,
    marks: int = 0,
    read: str = "[ UNK ]",
) -> tuple[str, ...]:
    """Return one line for a person; none where every token is known.

    `unknown` are the places of tokens read as `read`, `left_out` how many were not read at all,
    `marks` how many of `shown` are marks.
    """
    parts = list[str]()
    if unknown:
        names = list(dict.fromkeys(repr(shown[place]) for place in unknown))
        parts.append(f"read as {read}: {first_few(names, MOST_NAMED)}")
    if left_out:
        parts.append(f"{left_out:,} left out" if unknown else "left out")
    if not parts:
        return ()
    count, whole = len(unknown) + left_out, len(shown) - marks + left_out
    are = "is" if count == 1 else "are"
    return (f"{count:,} of {whole:,} tokens {are} unknown to the run, {', '.join(parts)}",)
