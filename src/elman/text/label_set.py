"""The labels that a classifier gives: their order, which is that of their ids, and their file."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from elman.errors import DataError, RunError

Answers = Literal["one", "several"]
"""Whether a text has exactly one label, or any number of them."""

LABEL_SCHEMA = 1


@dataclass(frozen=True)
class LabelSet:
    """Labels in the order of their ids 0 … C-1, and in how many training rows each occurs.

    Whole numbers stand in the order of their values, all else in that of code points: the order
    depends on the labels alone, not on how often or where they occur. Raises `DataError` for no
    label, or one given twice.
    """

    labels: tuple[str, ...]
    counts: tuple[int, ...]
    answers: Answers = "one"
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", {label: n for n, label in enumerate(self.labels)})
        if not self.labels:
            raise DataError("there is no label to learn", got="no row with a label")
        if len(self._ids) != len(self.labels) or len(self.counts) != len(self.labels):
            raise DataError("a set of labels has each label once, and a count for it")

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]], answers: Answers) -> Self:
        """Return the labels of these rows of training."""
        counts: Counter[str] = Counter()
        for labels in rows:
            counts.update(labels)
        ordered = sorted(counts, key=_place)
        return cls(tuple(ordered), tuple(counts[label] for label in ordered), answers)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the labels that `to_json` wrote. Raises `RunError` for anything else."""
        try:
            whole = json.loads(text)
            if whole["schema"] != LABEL_SCHEMA or whole["answers"] not in ("one", "several"):
                raise ValueError("a schema of another version")
            labels = [str(entry["label"]) for entry in whole["labels"]]
            counts = [int(entry["rows"]) for entry in whole["labels"]]
            return cls(tuple(labels), tuple(counts), whole["answers"])
        except (ValueError, KeyError, TypeError, RecursionError, DataError) as error:
            raise RunError(
                "labels.json cannot be used",
                got=str(error),
                hint="restore the file that the run was saved with",
            ) from None

    def to_json(self) -> str:
        """Return the labels as the file `labels.json`, in plain ASCII."""
        entries = [
            {"label": label, "rows": count}
            for label, count in zip(self.labels, self.counts, strict=True)
        ]
        whole = {"schema": LABEL_SCHEMA, "answers": self.answers, "labels": entries}
        return json.dumps(whole, indent=1) + "\n"

    def id_of(self, label: str) -> int | None:
        """Return the id of `label`, or None where training did not have it."""
        return self._ids.get(label)

    def ids(self, labels: Sequence[str]) -> list[int]:
        """Return the ids of those of `labels` that training had, in ascending order."""
        return sorted(self._ids[label] for label in labels if label in self._ids)


def _place(label: str) -> tuple[int, int, str]:
    whole = label.lstrip("+-").isdecimal() and label.isascii() and len(label) < 16
    try:
        return (0, int(label), label) if whole else (1, 0, label)
    except ValueError:  # +-1
        return (1, 0, label)
