"""The figures of classifiers as tables for people."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from elman.apps.cli.output import plural
from elman.recipes.classifying import USUAL

KNOWN_ROWS = "  over rows of known labels"
"""Below the nats per row, where they are not over all rows: a label that is unknown has none."""

_FIGURES = (
    ("accuracy", "accuracy"),
    ("exact sets of labels", "subset_accuracy"),
    ("macro F1", "macro_f1"),
    ("micro F1", "micro_f1"),
    ("wrong share of all decisions", "hamming_loss"),
    ("nats per row", "nats_per_row"),
    (KNOWN_ROWS, "num_known_rows"),
    ("expected calibration error", "ece"),
    ("rows", "num_rows"),
)


def label_figures(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the figures of each named part, one column a part, simpler models below them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in scores:
        table.add_column(name, justify="right")
    for label, key in _FIGURES:
        if label == KNOWN_ROWS and all(
            score["num_known_rows"] == score["num_rows"] for score in scores.values()
        ):
            continue
        if any(key in _flat(score) for score in scores.values()):
            table.add_row(label, *(_cell(_flat(score), key) for score in scores.values()))
    names = _simpler_models(scores)
    if names:
        main = "accuracy" if any("accuracy" in score for score in scores.values()) else "exact sets"
        table.add_row("")
        table.add_row(f"simpler models, {main}")
        for name in names:
            cells = [_main_cell(score["baselines"].get(name, {})) for score in scores.values()]
            table.add_row(f"  {name}", *cells)
    return table


def _simpler_models(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of simpler models from the simplest on.

    The order is that of what they read, not that of a file: a manifest sorts its keys.
    """
    kinds = {
        name: (name != USUAL, not facts["is_order_blind"], name)
        for score in scores.values()
        for name, facts in score["baselines"].items()
    }
    return sorted(kinds, key=lambda name: kinds[name])


def order_sentence(score: Mapping[str, Any]) -> str:
    """Return one sentence on what reading in order adds; "" where nothing blind stands beside."""
    blind = next(
        (
            _main(other)
            for name, other in score["baselines"].items()
            if other["is_order_blind"] and name != USUAL
        ),
        None,
    )
    own = _main(score)
    if blind is None or own is None:
        return ""
    points = 100 * (own - blind)
    rows = f"{score['num_rows']:,} row{plural(score['num_rows'])}"
    if points > 0:
        return f"reading in order adds {points:.1f} points to {100 * blind:.1f} % ({rows})"
    return (
        f"reading in order adds nothing here: without it {100 * blind:.1f} % of {rows} right, "
        f"with it {100 * own:.1f} %"
    )


def _flat(score: Mapping[str, Any]) -> Mapping[str, Any]:
    measured = score.get("calibration")
    return {**score, "ece": measured["ece"]} if measured else score


def _main(score: Mapping[str, Any]) -> float | None:
    value = score.get("accuracy", score.get("subset_accuracy"))
    return value if isinstance(value, float) else None


def _main_cell(score: Mapping[str, Any]) -> str:
    key = "accuracy" if "accuracy" in score else "subset_accuracy"
    return _cell(score, key)


def _cell(score: Mapping[str, Any], key: str) -> str:
    value = score.get(key)
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    interval = score.get(f"{key}_interval")
    if key in ("accuracy", "subset_accuracy"):
        between = ""
        if interval:
            between = f" ({100 * interval['low']:.1f}–{100 * interval['high']:.1f})"
        return f"{100 * value:.2f} %{between}"
    return f"{value:.4f}"
