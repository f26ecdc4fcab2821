"""Tables of `elman inspect` and what stands in their cells: tokens seen whole, bars of norms."""

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

MOST_ROWS = 24
"""Steps shown of what gets smaller with the distance."""
BAR = 24


def view_table(*titles: str, left: Sequence[int], folds: bool = False) -> Table:
    """Return an empty table; columns at the places of `left` begin, the others end, at a line.

    What is too wide for the screen is cut, or `folds` onto further lines.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, title in enumerate(titles):
        table.add_column(
            title,
            justify="left" if place in left else "right",
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
        )
    return table


def plain_token(token: str) -> str:
    """Return a token so that blanks and line ends are seen."""
    return token if token.isprintable() and token.strip() == token and token else repr(token)


def shown_token(token: str) -> Text:
    """Return a token as a cell, in which nothing is taken for markup."""
    return Text(plain_token(token))


def share_bar(value: float, largest: float) -> str:
    """Return a bar as long as the share of the largest."""
    return "█" * round(BAR * value / largest) if largest > 0.0 else ""


def log_bar(value: float, largest: float) -> str:
    """Return a bar on a scale of logarithms, which ends a millionth below the largest."""
    if not value > 0.0 or not largest > 0.0:
        return ""
    share = 1.0 + math.log10(value / largest) / 6.0
    return "█" * max(0, round(BAR * share)) or "▏"
