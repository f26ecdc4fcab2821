"""Text as it grows: ids in, one at a time, valid text out as soon as it is certain."""

import codecs
from collections.abc import Callable, Mapping

from elman.errors import RunError

LINE_END = b"\n"


class TextStream:
    """Turns ids into text piece by piece; the pieces joined are the text of all the bytes at once.

    `token_bytes` gives what a token adds to the text as UTF-8; several tokens may share a
    character. Bytes that may yet become a character are held back, bytes that never can become
    U+FFFD, as Python's "replace" does. `separator` stands between two tokens (words), but not
    beside a line end and not before the first token. A token without bytes adds nothing and no
    separator.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], *, separator: bytes = b"") -> None:
        self._token_bytes, self._separator = token_bytes, separator
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._joins = False

    def follow(self, token: int) -> None:
        """Take note of a token of the prompt, not shown, so that a separator may follow it."""
        added = self._token_bytes(token)
        if added:
            self._joins = added != LINE_END

    def push(self, token: int) -> str:
        """Return the text that is certain now that `token` has come: often a character, or none."""
        added = self._token_bytes(token)
        if not added:
            return ""
        if self._separator:
            is_line_end = added == LINE_END
            if self._joins and not is_line_end:
                added = self._separator + added
            self._joins = not is_line_end
        return self._decoder.decode(added)

    def flush(self) -> str:
        """Return U+FFFD for a character that was begun and never finished, else an empty string."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text

    def facts(self) -> dict[str, str | bool]:
        """Return what is held back, for JSON, so that a stream can go on in another process."""
        return {"held_bytes": self._decoder.getstate()[0].hex(), "joins": self._joins}

    def restore(self, facts: Mapping[str, object]) -> None:
        """Go on from `facts` of another stream; `RunError` where they are not such."""
        held, joins = facts.get("held_bytes"), facts.get("joins")
        try:
            held_bytes = bytes.fromhex(held) if isinstance(held, str) else None
        except ValueError:
            held_bytes = None
        if held_bytes is None or len(held_bytes) > 3 or not isinstance(joins, bool):
            raise RunError(
                "the saved text stream is damaged",
                got=f"held_bytes {held!r} and joins {joins!r}",
                allowed="at most three bytes in hexadecimal, and true or false",
            )
        self._decoder.setstate((held_bytes, 0))
        self._joins = joins
