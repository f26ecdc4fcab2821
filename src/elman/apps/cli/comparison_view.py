"""A comparison as a table for people, and as Markdown."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from elman.apps.cli.options import duration_text
from elman.evaluation.comparison import ComparisonRow, ModelComparison
from elman.evaluation.reach import ReachCurve

WIDE, UNBOUND = 120, 240
"""Columns of a terminal that takes the whole table, and of what is no terminal."""
_HEADS = ("model", "kind", "parameters", "trained in", "passes")
TOO_LOW = "*"
"""Stands behind figures that are too low to be set beside others."""


def print_comparison(comparison: ModelComparison, console: Console) -> None:
    """Print one row a model: size, time, cost under one unit, difference to the row above.

    A terminal that is too narrow gets sizes and costs one above the other.
    """
    cells = _cells(comparison)
    if not console.is_terminal or console.width >= WIDE:
        _wide(console).print(_table(cells))
        return
    console.print(_table([row[: len(_HEADS)] for row in cells]))
    console.print()
    console.print(_table([[row[0], *row[len(_HEADS) :]] for row in cells]))


def _wide(console: Console) -> Console:
    """Return a console that cuts nothing where there is no terminal."""
    return console if console.is_terminal else Console(highlight=False, width=UNBOUND)


def _table(cells: list[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    heads, *rows = cells
    for head in heads:
        left = head in ("model", "kind")
        table.add_column(head, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def print_reach(curves: Sequence[tuple[str, Sequence[ReachCurve]]], console: Console) -> None:
    """Print a table for each kind of context: nats per token for each number of tokens kept."""
    for place, first in enumerate(curves[0][1]):
        lengths = [str(length) for length in first.lengths]
        cells = [["model", *lengths, "reaches"]]
        for name, each in curves:
            curve = each[place]
            reached = str(curve.effective_length)
            cells.append([name, *(_number(nats, 3) for nats in curve.nats), reached])
        console.print(
            f"nats per token, the last 1, 2 … tokens kept, {first.kind} before that "
            f"({first.num_positions:,} places)"
        )
        _wide(console).print(_table(cells))
        if place < len(curves[0][1]) - 1:
            console.print()


def markdown_table(comparison: ModelComparison, notices: Sequence[str]) -> str:
    """Return the same table as Markdown, and below it what has to be known to read it."""
    heads, *rows = _cells(comparison)
    lines = [heads, ["---" if place < 2 else "---:" for place in range(len(heads))], *rows]
    cells = ([cell.replace("|", "\\|") for cell in row] for row in lines)
    table = "".join(f"| {' | '.join(row)} |\n" for row in cells)
    return table + "".join(f"\n{notice}\n".replace("*", "\\*") for notice in notices)


def _cells(comparison: ModelComparison) -> list[list[str]]:
    by_token = ["tokens"]
    if comparison.same_tokens:
        unknown = any(row.compared.score.num_unknown for row in comparison.rows)
        by_token = ["nats/token", "perplexity", *(["of known"] if unknown else [])]
    heads = [*_HEADS, *by_token, "bits/char", "bits/byte", "± 95 %", "to the row above"]
    return [heads, *(_row(row, by_token) for row in comparison.rows)]


def _row(row: ComparisonRow, by_token: Sequence[str]) -> list[str]:
    one, score = row.compared, row.compared.score
    seconds = one.training_seconds
    figures = {
        "tokens": f"{score.num_tokens:,}",
        "nats/token": _number(score.nats_per_token, 4),
        "perplexity": _number(score.perplexity, 2),
        "of known": _number(score.perplexity_excluding_unknown, 2),
    }
    mark = TOO_LOW if one.is_too_low else ""
    interval = row.interval
    return [
        one.name,
        one.kind,
        f"{one.parameters:,}",
        "–" if seconds is None else duration_text(seconds),
        "–" if one.passes is None else f"{one.passes:,.3g}",
        *(figures[head] for head in by_token),
        _number(score.bits_per_character, 4) + mark,
        _number(score.bits_per_byte, 4) + mark,
        "–" if interval is None else f"{(interval.high - interval.low) / 2:.4f}",
        _difference(row),
    ]


def _difference(row: ComparisonRow) -> str:
    found = row.difference
    if found is None:
        return "–"
    sure = f"p {found.p_value:.2g}" if found.p_value >= 0.001 else "p < 0.001"
    return f"{found.difference:+.4f} ({sure})"


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "–"
    return "inf" if math.isinf(value) else f"{value:,.{digits}f}"
