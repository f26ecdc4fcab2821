"""Tables of `elman inspect` and what stands in their cells: tokens seen whole, bars of norms."""

import math
import re
from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from elman.apps.cli.output import output_console

MOST_ROWS = 24
"""Steps shown of what gets smaller with the distance."""
BAR = 24
LEAST_CELLS = 6
"""Characters of a token that are shown at least, where the screen is narrow."""
MOST_CELLS = 32
_BETWEEN = 2
"""Blanks between two columns."""
_ENDLESS = 4096
_MARKS = re.compile(r"(?: [?*])+$")


def view_table(*titles: str, left: Sequence[int], folds: bool = False) -> Table:
    """Return an empty table; columns at the places of `left` begin, the others end, at a line.

    What is too wide for the screen `folds` onto further lines, or is never cut where `print_table`
    shows it.
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


def print_table(table: Table) -> None:
    """Print a table with every figure whole, on lines longer than the screen where it must be."""
    console = output_console()
    wanted = console.measure(table, options=console.options.update(max_width=_ENDLESS)).maximum
    console.width = max(console.width, wanted)
    console.print(table)


def print_fitted(
    titles: Sequence[str],
    rows: Sequence[Sequence[Text]],
    *,
    left: Sequence[int],
    tokens: Collection[int],
    title: str = "",
) -> None:
    """Print a table in which tokens, the columns at the places of `tokens`, give way to figures."""
    table = view_table(*titles, left=left)
    if title:
        table.title, table.title_justify = title, "left"
    widths = column_widths(titles, rows)
    fixed = sum(width for place, width in enumerate(widths) if place not in tokens)
    room = output_console().width - fixed - _BETWEEN * (len(titles) - 1)
    most = token_cells([widths[place] for place in tokens], room)
    for row in rows:
        table.add_row(
            *(shortened(cell, most) if place in tokens else cell for place, cell in enumerate(row))
        )
    print_table(table)


def column_widths(titles: Sequence[str], rows: Sequence[Sequence[Text]]) -> list[int]:
    """Return how wide each column would be if nothing were cut."""
    widths = [cell_len(title) for title in titles]
    for row in rows:
        widths = [max(width, cell.cell_len) for width, cell in zip(widths, row, strict=True)]
    return widths


def token_cells(widths: Sequence[int], room: int) -> int:
    """Return how many characters of a token fit, columns of tokens being so wide."""
    most = MOST_CELLS
    while most > LEAST_CELLS and sum(min(width, most) for width in widths) > room:
        most -= 1
    return most


def shortened(cell: Text, most: int) -> Text:
    """Return a cell whose token has at most so many characters, with … for the rest; marks stay."""
    token = _MARKS.sub("", cell.plain)
    short = Text(token, style=cell.style)
    short.truncate(most, overflow="ellipsis")
    return short.append(cell.plain[len(token) :])


def plain_token(token: str) -> str:
    """Return a token so that blanks and line ends are seen."""
    return token if token.isprintable() and token.strip() == token and token else repr(token)


def shown_token(token: str, *, unknown: bool = False) -> Text:
    """Return a token as a cell, in which nothing is taken for markup; ? marks an unknown one."""
    return Text(plain_token(token) + (" ?" if unknown else ""))


def starred(cell: Text, *, is_meant: bool) -> Text:
    """Return a cell, bold and with a star where it is meant: no file and no pipe has bold type."""
    return Text(f"{cell.plain} *", style="bold") if is_meant else cell


def tell_unknown(unknown: Collection[int]) -> None:
    """Say what the mark of an unknown token means, where there is one."""
    if unknown:
        output_console().print(
            "?: a token that the run does not know, read as [ UNK ]", markup=False
        )


def share_bar(value: float, largest: float) -> str:
    """Return a bar as long as the share of the largest."""
    return "█" * round(BAR * value / largest) if largest > 0.0 else ""


def log_bar(value: float, largest: float) -> str:
    """Return a bar on a scale of logarithms, which ends a millionth below the largest."""
    if not value > 0.0 or not largest > 0.0:
        return ""
    share = 1.0 + math.log10(value / largest) / 6.0
    return "█" * max(0, round(BAR * share)) or "▏"
