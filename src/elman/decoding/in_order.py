"""Many sources through a decoder in batches: one result for one source, in the order of input."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from elman.errors import SettingError
from elman.processes import Processes

R = TypeVar("R")
S = TypeVar("S")


@dataclass(frozen=True)
class Exchange(Generic[R]):
    """How several processes tell each other results: as what JSON can hold, and back, exactly."""

    processes: Processes
    pack: Callable[[R], Any]
    unpack: Callable[[Any], R]

    def all_results(self, own: dict[int, R]) -> dict[int, R]:
        """Return the results of all processes by their places, from those of each."""
        packed = json.dumps([(place, self.pack(result)) for place, result in own.items()])
        told = (json.loads(text) for text in self.processes.texts(packed))
        return {place: self.unpack(result) for results in told for place, result in results}


def decode_in_order(
    sources: Iterable[Sequence[S]],
    decode: Callable[[list[Sequence[S]]], Sequence[R]],
    *,
    batch_size: int,
    chunk_size: int = 1024,
    exchange: Exchange[R] | None = None,
) -> Iterator[R | None]:
    """Yield what `decode` makes of each source, and None for a source without ids (or words).

    `decode` takes at most `batch_size` sources that all have ids and returns one result for each;
    it is never called for empty ones. At most `chunk_size` sources are read ahead, and within a
    chunk those of like length are decoded together, so that little is padded; results come in the
    order of `sources` whatever the two sizes. A stream that is read no further is decoded no
    further. With `exchange` each of several processes, which all have the same sources, decodes its
    share of the batches of a chunk, and every one yields all results.

    Raises `SettingError` for a size below 1, and `ValueError` where `decode` returns another number
    of results than it was given sources, which is a fault of the program.
    """
    if batch_size < 1 or chunk_size < 1:
        raise SettingError(
            "batch_size and chunk_size must be at least 1", got=f"{batch_size} and {chunk_size}"
        )
    processes = Processes() if exchange is None else exchange.processes
    stream = iter(sources)
    while chunk := list(islice(stream, chunk_size)):
        order = sorted(
            (place for place, ids in enumerate(chunk) if len(ids)), key=_length_in(chunk)
        )
        batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        results: dict[int, R] = {}
        for places in batches[processes.rank :: processes.size]:
            made = decode([chunk[place] for place in places])
            results.update(zip(places, made, strict=True))
        if exchange is not None and processes.size > 1:
            results = exchange.all_results(results)
        yield from (results.get(place) for place in range(len(chunk)))


def _length_in(chunk: Sequence[Sequence[S]]) -> Callable[[int], int]:
    return lambda place: len(chunk[place])
