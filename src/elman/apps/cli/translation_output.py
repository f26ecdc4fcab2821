"""The figures of written sequences as a table for people."""

from collections.abc import Mapping

from rich.table import Table

_ROWS = (
    ("pairs", "num_rows", "{:,}", 1.0),
    ("exact matches", "exact_match", "{:.2f} %", 100.0),
    ("BLEU", "bleu", "{:.2f}", 1.0),
    ("chrF2", "chrf", "{:.2f}", 1.0),
    ("character error rate", "character_error_rate", "{:.2f} %", 100.0),
    ("word error rate", "word_error_rate", "{:.2f} %", 100.0),
    ("phone error rate", "phone_error_rate", "{:.2f} %", 100.0),
    ("rows with a wrong phone", "rows_with_wrong_phone_percent", "{:.2f} %", 1.0),
    ("nats per token, teacher-forced", "nats_per_token", "{:.4f}", 1.0),
    ("accuracy of tokens, teacher-forced", "teacher_forced_accuracy", "{:.2f} %", 100.0),
    ("accuracy of tokens, free-running", "free_running_accuracy", "{:.2f} %", 100.0),
    ("lost without a teacher (exposure)", "exposure_gap", "{:.2f} %", 100.0),
)


def translation_figures(columns: Mapping[str, Mapping[str, object]]) -> Table:
    """Return a row for each figure that a column has, a column for each set of pairs."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for title in columns:
        table.add_column(title, justify="right")
    for name, key, form, factor in _ROWS:
        if any(key in column for column in columns.values()):
            table.add_row(
                name, *(_shown(column.get(key), form, factor) for column in columns.values())
            )
    return table


def signatures(figures: Mapping[str, object]) -> tuple[str, ...]:
    """Return how sacrebleu names what it has measured, to be quoted beside the figures.

    Each begins with the name of its figure in the table.
    """
    found = [(name, figures.get(key)) for name, key in (("BLEU", "bleu"), ("chrF2", "chrf"))]
    return tuple(f"{name}: {one['signature']}" for name, one in found if isinstance(one, Mapping))


def _shown(value: object, form: str, factor: float) -> str:
    """Return a figure as a person reads it; BLEU of answers too short for its n-grams is none."""
    if isinstance(value, Mapping):
        value = None if 0 in value.get("totals", ()) else value.get("score")
    if not isinstance(value, int | float):
        return "–"
    return form.format(value if factor == 1.0 else value * factor)
