"""What the rows of a classifier, tagger or translating run tell."""

from elman.evaluation.units import percent
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
    known = set(evidence.rows.get("train", ()))
    for name, rows in evidence.rows.items():
        share = 0.0 if name == "train" else sum(row in known for row in rows) / max(len(rows), 1)
        if share >= LEAKED_LINES:
            return known_already(name, f"{percent(share)} of its rows", share)
    return None


def repeated_rows(evidence: Evidence) -> Fault | None:
    """Find training rows many of which are there more than once, with the same answer."""
    rows = evidence.learnt_rows
    return repeats_itself(1.0 - len(set(rows)) / max(len(rows), 1))


def few_rows(evidence: Evidence) -> Fault | None:
    """Find a held-out part of few rows."""
    for name, rows in evidence.rows.items():
        if name != "train" and len(rows) < FEW_ROWS:
            return Fault(
                "too-little-held-out",
                f"the {name} part has {len(rows):,} rows, where {FEW_ROWS} are a beginning",
                f"data.{name}_fraction higher, or more rows in data.{name}",
                {"rows": len(rows)},
            )
    return None
