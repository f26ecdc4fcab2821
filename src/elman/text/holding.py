"""Text that waits for what follows: a line without its end, a word without a blank behind it."""

from elman.errors import DataError

LONGEST_HELD = 1 << 27
"""Characters that may wait; a file that expands without end would else fill the memory."""


class HeldText:
    """Pieces of one text in order, of at most `LONGEST_HELD` characters together.

    `what` is what errors call it, such as "a line".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pieces: list[str] = []
        self._length = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: str) -> None:
        """Hold one more piece. Raises `DataError` where it is too much."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > LONGEST_HELD:
            raise DataError(
                f"{self._what} is too long to be held in memory",
                got=f"{self._length:,} characters and no end",
                allowed=f"at most {LONGEST_HELD:,}",
                hint="read the text as a stream of characters or bytes: --unit stream "
                "--level char; a compressed file may expand without end",
            )

    def take(self, last: str = "") -> str:
        """Return all that was held, with `last` behind it, and hold nothing."""
        whole = "".join([*self._pieces, last])
        self._pieces, self._length = [], 0
        return whole
