"""What the rows of a classifier, tagger or translating run tell."""

from elman.recipes.diagnosing.evidence import Evidence
from elman.recipes.diagnosing.fault import Fault
from elman.recipes.diagnosing.text_faults import (
    LEAKED_LINES,
    known_already,
    repeats_itself,
)

FEW_ROWS = 100
"""Held-out rows of which fewer say little."""


def rows_in_training(evidence: Evidence) -> Fault | None:
    """Find held-out rows that are learnt from."""
    known = set(evidence.rows.parts.get("train", ()))
    shares: dict[str, float] = {
        name: sum(row in known for row in rows) / max(len(rows), 1)
        for name, rows in evidence.rows.parts.items()
        if name != "train"
    }
    return known_already(evidence, shares, "rows", LEAKED_LINES)


def repeated_rows(evidence: Evidence) -> Fault | None:
    """Find training rows many of which are there more than once, with the same answer."""
    rows = evidence.rows.learnt
    return repeats_itself(evidence, 1.0 - len(set(rows)) / max(len(rows), 1))


def few_rows(evidence: Evidence) -> Fault | None:
    """Find a held-out part of few rows."""
    for name, rows in evidence.rows.parts.items():
        if name != "train" and len(rows) < FEW_ROWS:
            return Fault(
                "too-little-held-out",
                f"the {name} part has {len(rows):,} rows: a figure of fewer than {FEW_ROWS} is "
                "mostly chance",
                f"data.{name}_fraction higher, or more rows in data.{name}",
                {"rows": len(rows)},
            )
    return None
