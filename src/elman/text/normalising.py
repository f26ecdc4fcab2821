"""Unicode normal forms, also of a text that comes in pieces."""

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from elman.config.text_settings import NormalForm
from elman.text.holding import HeldText

ASCII_LIMIT = "\x80"
LOOK_BACK = 1000
HANGUL_VOWELS_AND_FINALS = range(0x1160, 0x1200)


def normalise(text: str, form: NormalForm) -> str:
    """Return `text` in the normal form; "none" leaves it as it is."""
    return text if form == "none" else unicodedata.normalize(form, text)


def normalised_chunks(chunks: Iterable[str], form: NormalForm) -> Iterator[str]:
    """Yield pieces whose join is the normal form of all the chunks joined.

    A piece ends only before a character that can never merge with what stands before it, so that a
    letter and an accent that come in two chunks still become one.
    """
    if form == "none":
        yield from chunks
        return
    held = HeldText("a character with all that merges with it")
    for chunk in chunks:
        cut = _last_start(chunk)
        if cut is None:
            held.add(chunk)
            continue
        yield unicodedata.normalize(form, held.take(chunk[:cut]))
        held.add(chunk[cut:])
    if held:
        yield unicodedata.normalize(form, held.take())


def _last_start(chunk: str) -> int | None:
    """Return the place of the last character that merges with nothing before it, or None."""
    for index in range(len(chunk) - 1, max(-1, len(chunk) - LOOK_BACK), -1):
        if chunk[index] < ASCII_LIMIT:
            return index
    for index in range(len(chunk) - 1, -1, -1):
        if starts_afresh(chunk[index]):
            return index
    return None


def starts_afresh(character: str) -> bool:
    """Return whether no normal form joins `character` to what stands before it, or swaps them."""
    if character < ASCII_LIMIT:
        return True
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.combining(first) == 0 and first not in _second_parts()


@lru_cache(maxsize=1)
def _second_parts() -> frozenset[str]:
    """Every character that is the second part of a composed one."""
    seconds = {chr(point) for point in HANGUL_VOWELS_AND_FINALS}
    for point in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    return frozenset(seconds)
