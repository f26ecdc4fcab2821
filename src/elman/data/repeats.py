"""Dropping what a text says twice, so that held-out text is not text that was learnt from."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b


class FirstSeen:
    """Tells the first of equal texts from its repeats, and counts both.

    Keeps 16 bytes a distinct text, not the text. One object may serve several files.
    """

    def __init__(self) -> None:
        self._digests: set[bytes] = set()
        self.kept = 0
        self.dropped = 0
        self.dropped_characters = 0

    def is_new(self, text: str) -> bool:
        """Return True the first time that `text` comes."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in self._digests:
            self.dropped += 1
            self.dropped_characters += len(text)
            return False
        self._digests.add(digest)
        self.kept += 1
        return True


def drop_repeated_lines(lines: Iterable[str], seen: FirstSeen) -> Iterator[str]:
    """Yield the lines that `seen` has not met, in order; lines are compared as they are."""
    return (line for line in lines if seen.is_new(line))


def drop_repeated_paragraphs(chunks: Iterable[str], seen: FirstSeen) -> Iterator[str]:
    r"""Yield the text of `chunks` without the paragraphs that `seen` has met.

    A paragraph is a run of lines (ended by \n alone) that are not blank; the blank lines after it
    go with it. Two are equal if they are equal without the white space at their ends. One paragraph
    is held in memory at a time.
    """
    for paragraph in _paragraphs(chunks):
        body = paragraph.strip()
        if not body or seen.is_new(body):
            yield paragraph


def _paragraphs(chunks: Iterable[str]) -> Iterator[str]:
    """Yield pieces that join to the text again: a run of lines with the blank lines after it."""
    piece: list[str] = []
    blank_seen = False
    for line in _lines_with_ends(chunks):
        blank = not line.strip()
        if blank_seen and not blank:
            yield "".join(piece)
            piece = []
        piece.append(line)
        blank_seen = blank
    if piece:
        yield "".join(piece)


def _lines_with_ends(chunks: Iterable[str]) -> Iterator[str]:
    unfinished: list[str] = []
    for chunk in chunks:
        *lines, last = chunk.split("\n")
        for line in lines:
            yield "".join([*unfinished, line, "\n"])
            unfinished = []
        if last:
            unfinished.append(last)
    if unfinished:
        yield "".join(unfinished)
