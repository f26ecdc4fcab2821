"""What can go wrong: the mistakes that a user can make, each told in one line.

Every error says what is wrong, what was got, what is allowed and what to do next. The command
prints that line and exits with status 2; anything that is not an `ElmanError` is a fault of the
program and keeps its traceback.
"""

from collections.abc import Sequence

LONGEST_PART = 3000
"""Characters of one part of an error; a cell of a broken table may have millions."""


class ElmanError(Exception):
    """A mistake that a user can mend.

    `what` names the thing and the rule it broke, `got` the value found, `allowed` the values that
    would do, `hint` the next step. Line ends inside any part are escaped, so that the message is
    always a single line; a part that is longer than a screen is cut.
    """

    def __init__(self, what: str, *, got: str = "", allowed: str = "", hint: str = "") -> None:
        self.what, self.got, self.allowed, self.hint = what, got, allowed, hint
        parts = [_cut(what)]
        if got:
            parts.append(f"got {_cut(got)}")
        if allowed:
            parts.append(f"allowed: {_cut(allowed)}")
        if hint:
            parts.append(_cut(hint))
        super().__init__(one_line("; ".join(parts)))


class SettingError(ElmanError):
    """A setting or option has a value that cannot be used."""


class DataError(ElmanError):
    """A file or a text cannot be read as what it was given for."""


class UnknownSymbolError(DataError):
    """A text holds symbols that the vocabulary does not have, and the policy is to refuse them."""


class ShapeError(ElmanError):
    """A tensor or a length does not fit the axes that the function declares."""


class RunError(ElmanError):
    """A run folder is missing something, was altered, or cannot be used for what is asked."""


class ConversionError(ElmanError):
    """A model cannot be expressed on the other side, or the two sides do not agree."""


class MissingPackageError(ElmanError):
    """An optional package is needed and not installed."""


def _cut(part: str) -> str:
    if len(part) <= LONGEST_PART:
        return part
    return f"{part[:LONGEST_PART]} … (of {len(part):,} characters)"


def first_few(names: Sequence[str], most: int = 5) -> str:
    """Return the first `most` names with commas between, and how many more there are."""
    listed = ", ".join(names[:most])
    return listed + (f" and {len(names) - most:,} more" if len(names) > most else "")


def one_line(text: str) -> str:
    """Return `text` with line ends and control characters escaped, so that it is one line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
