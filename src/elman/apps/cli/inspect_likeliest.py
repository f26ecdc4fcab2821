"""The last column of a trace: the likeliest tokens or labels, as many as fit beside the figures."""

from collections.abc import Collection, Sequence

from rich.text import Text

from elman.apps.cli.inspect_cells import (
    LEAST_CELLS,
    column_widths,
    plain_token,
    print_fitted,
    shortened,
    token_cells,
)
from elman.apps.cli.output import output_console

_TITLE = "likeliest"


def print_likeliest(
    titles: Sequence[str],
    rows: Sequence[Sequence[Text]],
    likeliest: Sequence[Sequence[tuple[str, float]]],
    *,
    left: Sequence[int],
    tokens: Collection[int],
) -> None:
    """Print a table, and behind each row as many of its likeliest ones as the screen has room for.

    Figures are never cut; where the likeliest ones do not all fit, a line says so.
    """
    widths = column_widths(titles, rows)
    first = max((_candidate(*each[0]).cell_len for each in likeliest if each), default=0)
    width = output_console().width - 2 * len(titles)
    fixed = sum(width for place, width in enumerate(widths) if place not in tokens)
    most = token_cells([widths[place] for place in tokens], width - fixed - max(first, len(_TITLE)))
    cells = [
        [shortened(cell, most) if place in tokens else cell for place, cell in enumerate(row)]
        for row in rows
    ]
    room = max(len(_TITLE), width - sum(column_widths(titles, cells)))
    fitting = [_fitting(each, room) for each in likeliest]
    whole = [[*row, text] for row, (text, _) in zip(cells, fitting, strict=True)]
    print_fitted((*titles, _TITLE), whole, left=(*left, len(titles)), tokens=())
    if any(shown < len(each) for each, (_, shown) in zip(likeliest, fitting, strict=True)):
        output_console().print("likeliest: as many as fit; --json has all that --top asks for")


def _fitting(shares: Sequence[tuple[str, float]], room: int) -> tuple[Text, int]:
    """Return the first of the shares that fit, and how many; one is shortened if it must be."""
    text, count = Text(), 0
    for name, share in shares:
        more = _candidate(name, share)
        if count and text.cell_len + 2 + more.cell_len > room:
            break
        if not count and more.cell_len > room:
            more = _candidate(name, share, room)
        text.append("  " if count else "").append_text(more)
        count += 1
    return text, count


def _candidate(name: str, share: float, room: int | None = None) -> Text:
    """Return a token or label with its share in percent, no wider than `room` if that can be."""
    percent = f" {100 * share:.0f} %"
    token = Text(plain_token(name))
    if room is not None:
        token = shortened(token, max(LEAST_CELLS, room - len(percent)))
    return token.append(percent, style="dim")
