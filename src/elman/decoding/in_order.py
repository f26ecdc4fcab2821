"""Many sources through a decoder in batches: one result for one source, in the order of input."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from elman.errors import SettingError

R = TypeVar("R")
S = TypeVar("S")


def decode_in_order(
    sources: Iterable[Sequence[S]],
    decode: Callable[[list[Sequence[S]]], Sequence[R]],
    *,
    batch_size: int,
    chunk_size: int = 1024,
) -> Iterator[R | None]:
    """Yield what `decode` makes of each source, and None for a source without ids (or words).

    `decode` takes at most `batch_size` sources that all have ids and returns one result for each;
    it is never called for empty ones. At most `chunk_size` sources are read ahead, and within a
    chunk those of like length are decoded together, so that little is padded; results come in the
    order of `sources` whatever the two sizes. A stream that is read no further is decoded no
    further.

    Raises `SettingError` for a size below 1, and `ValueError` where `decode` returns another number
    of results than it was given sources, which is a fault of the program.
    """
    if batch_size < 1 or chunk_size < 1:
        raise SettingError(
            "batch_size and chunk_size must be at least 1", got=f"{batch_size} and {chunk_size}"
        )
    stream = iter(sources)
    while chunk := list(islice(stream, chunk_size)):
        results: list[R | None] = [None] * len(chunk)
        order = sorted(
            (place for place, ids in enumerate(chunk) if len(ids)), key=_length_in(chunk)
        )
        for first in range(0, len(order), batch_size):
            places = order[first : first + batch_size]
            made = decode([chunk[place] for place in places])
            for place, result in zip(places, made, strict=True):
                results[place] = result
        yield from results


def _length_in(chunk: Sequence[Sequence[S]]) -> Callable[[int], int]:
    return lambda place: len(chunk[place])
