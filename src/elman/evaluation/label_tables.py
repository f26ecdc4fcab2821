"""Tables of classes and of confusions, in plain text for a terminal."""

from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len, set_cell_size

from elman.errors import one_line
from elman.evaluation.labels import LabelScores
from elman.evaluation.ratios import ClassCounts, format_ratio

TABLE_WIDTH = 100
MOST_LABEL_CELLS = 30
"""Cells of a terminal that a label may take in a table; a longer one is cut."""
ZERO = "·"

_Column = tuple[str, Literal["left", "right"], list[str]]


def class_table(classes: Sequence[ClassCounts]) -> str:
    """Return precision, recall, F1 and support of each class, and their sums, a line each.

    A ratio of 0/0 is shown as –.
    """
    columns: list[_Column] = [
        ("label", "left", [_shown(each.label) for each in classes]),
        ("precision", "right", [format_ratio(each.precision) for each in classes]),
        ("recall", "right", [format_ratio(each.recall) for each in classes]),
        ("F1", "right", [format_ratio(each.f1) for each in classes]),
        ("support", "right", [f"{each.num_gold:,}" for each in classes]),
        ("predicted", "right", [f"{each.num_predicted:,}" for each in classes]),
    ]
    return _laid_out(columns)


def confusion_table(scores: LabelScores, *, width: int = TABLE_WIDTH) -> str:
    """Return the confusion counts as a matrix, gold labels down and predicted ones across.

    Columns are headed by the numbers of their labels. A matrix wider than `width` cells is not
    shown; the most frequent confusions stand in its place (`confused_table`).
    """
    counts = scores.confusion().tolist()
    columns: list[_Column] = [
        ("", "right", [str(number) for number in range(1, len(counts) + 1)]),
        ("gold \\ predicted", "left", [_shown(label) for label in scores.labels]),
    ]
    for number in range(len(counts)):
        cells = [f"{row[number]}" if row[number] else ZERO for row in counts]
        columns.append((str(number + 1), "right", cells))
    table = _laid_out(columns)
    if max(map(cell_len, table.split("\n"))) <= width:
        return table
    return (
        f"{len(scores.labels)} labels are too many for a table of {width} columns; "
        f"the most frequent confusions:\n{confused_table(scores)}"
    )


def confused_table(scores: LabelScores, *, most: int = 20) -> str:
    """Return the most frequent confusions, a line each, with their share of the gold label."""
    support = {each.label: each.num_gold for each in scores.classes}
    confused = scores.confused()
    shown = confused[:most]
    if not shown:
        return "no label was taken for another"
    table = _laid_out(
        [
            ("gold", "left", [_shown(gold) for gold, _, _ in shown]),
            ("predicted", "left", [_shown(predicted) for _, predicted, _ in shown]),
            ("rows", "right", [f"{count:,}" for _, _, count in shown]),
            ("of gold", "right", [f"{100 * n / support[gold]:.1f} %" for gold, _, n in shown]),
        ]
    )
    left = len(confused) - len(shown)
    return table + (f"\nand {left:,} more kinds of confusion" if left else "")


def _shown(label: str) -> str:
    """Return the label on one line, cut where it is long; an empty one as two quotes."""
    text = one_line(label) or "''"
    if cell_len(text) <= MOST_LABEL_CELLS:
        return text
    return set_cell_size(text, MOST_LABEL_CELLS - 1).rstrip() + "…"


def _laid_out(columns: Sequence[_Column]) -> str:
    """Return the columns as lines; widths count cells, of which a CJK character takes two."""
    padded: list[list[str]] = []
    for title, side, cells in columns:
        width = max(map(cell_len, [title, *cells]))
        blanks = [" " * (width - cell_len(cell)) for cell in [title, *cells]]
        rows = zip([title, *cells], blanks, strict=True)
        padded.append([cell + blank if side == "left" else blank + cell for cell, blank in rows])
    return "\n".join("  ".join(row).rstrip() for row in zip(*padded, strict=True))
