"""What came of a benchmark: its rows, the machine, and geometric means over the rows that count."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from elman.recipes.benchmark.kernel_use import KernelUse
from elman.recipes.benchmark.machine import MachineFacts, MatrixPeak
from elman.recipes.benchmark.rows import Family, Mode
from elman.recipes.benchmark.timing import Comparison

SCHEMA = 1
"""The version of the JSON object that a report becomes."""

Figure = float | int | str | None

NEVER_SLOWER_KEY = "lstm"
"""The cell whose shapes may be given to torch, where that is faster, and then count as 1.0."""


@dataclass(frozen=True)
class BenchRow:
    """One row: Elman's time for some work beside torch's, the kernel, and whether values agree.

    `subject` is a cell's key or a model's sizes, `sizes` the numbers behind it. `difference` is how
    far the values of both sides are apart, in the unit that `docs/bench.md` gives for the family;
    beyond `tolerance` the row has no ratio. `figures` are the family's own.
    """

    family: Family
    subject: str
    mode: Mode
    sizes: Mapping[str, int]
    comparison: Comparison
    kernel: KernelUse
    difference: float
    tolerance: float
    figures: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether both sides gave the same values within the tolerance."""
        return self.difference <= self.tolerance

    @property
    def ratio(self) -> float | None:
        """How many times as fast as torch Elman was; None where the values are not the same."""
        return self.comparison.ratio if self.agrees else None

    @property
    def counted_ratio(self) -> float | None:
        """What enters a geometric mean.

        The ratio of a row that ran natively; 1.0 where an LSTM was given to torch; None for every
        other fallback, and where the values are not the same.
        """
        if not self.agrees:
            return None
        if self.kernel.standing == "native":
            return self.comparison.ratio
        given = self.kernel.standing == "given to torch" and self.subject == NEVER_SLOWER_KEY
        return 1.0 if given else None

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; null for a difference that is no number."""
        return {
            "family": self.family,
            "subject": self.subject,
            "mode": self.mode,
            **self.sizes,
            **self.comparison.to_json(),
            "ratio": self.ratio,
            "counted_ratio": self.counted_ratio,
            "standing": self.kernel.standing if self.agrees else "wrong values",
            "kernel": self.kernel.told,
            "kernels": dict(self.kernel.reasons),
            "difference": self.difference if math.isfinite(self.difference) else None,
            "tolerance": self.tolerance,
            **self.figures,
        }


@dataclass(frozen=True)
class Mean:
    """The geometric mean of the counted ratios of one cell in one mode, and what it leaves out."""

    family: Family
    subject: str
    mode: Mode
    ratio: float | None
    least: float | None
    num_counted: int
    num_native: int
    num_given: int
    num_missed: int
    num_wrong: int

    @property
    def num_rows(self) -> int:
        """All rows, counted or not; a row given to torch may be counted as well."""
        return self.num_native + self.num_given + self.num_missed + self.num_wrong

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; null where no row counts."""
        return {
            "family": self.family,
            "subject": self.subject,
            "mode": self.mode,
            "geometric_mean": self.ratio,
            "least": self.least,
            "num_rows": self.num_rows,
            "num_counted": self.num_counted,
            "num_native": self.num_native,
            "num_given_to_torch": self.num_given,
            "num_missed": self.num_missed,
            "num_wrong_values": self.num_wrong,
        }


def means(rows: Sequence[BenchRow]) -> list[Mean]:
    """Return the mean of each family, cell and mode, in the order in which rows bring them."""
    groups: dict[tuple[Family, str, Mode], list[BenchRow]] = {}
    for row in rows:
        groups.setdefault((row.family, row.subject, row.mode), []).append(row)
    return [_mean(place, group) for place, group in groups.items()]


def _mean(place: tuple[Family, str, Mode], group: Sequence[BenchRow]) -> Mean:
    counted = [row.counted_ratio for row in group if row.counted_ratio is not None]
    right = [row for row in group if row.agrees]
    return Mean(
        *place,
        ratio=math.exp(math.fsum(map(math.log, counted)) / len(counted)) if counted else None,
        least=min(counted, default=None),
        num_counted=len(counted),
        num_native=sum(row.kernel.standing == "native" for row in right),
        num_given=sum(row.kernel.standing == "given to torch" for row in right),
        num_missed=sum(row.kernel.standing == "miss" for row in right),
        num_wrong=len(group) - len(right),
    )


@dataclass(frozen=True)
class SkippedFamily:
    """A family of which no row was measured, and why."""

    family: Family
    reason: str


@dataclass(frozen=True)
class BenchReport:
    """All of one run. `complete` is False where it was interrupted: later rows are missing."""

    quick: bool
    complete: bool
    started_at: str
    elapsed_seconds: float
    machine: MachineFacts
    peaks: Sequence[MatrixPeak]
    rows: Sequence[BenchRow]
    skipped: Sequence[SkippedFamily]

    @property
    def wrong(self) -> list[BenchRow]:
        """Rows whose values are not those of torch."""
        return [row for row in self.rows if not row.agrees]

    @property
    def means(self) -> list[Mean]:
        """The geometric means of the families of recurrences."""
        return means([row for row in self.rows if row.family in _WITH_MEANS])

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; docs/bench.md lists the fields."""
        return {
            "schema": SCHEMA,
            "quick": self.quick,
            "complete": self.complete,
            "started_at": self.started_at,
            "elapsed_seconds": self.elapsed_seconds,
            "machine": self.machine.to_json(),
            "matrix_product_peaks": [peak.to_json() for peak in self.peaks],
            "rows": [row.to_json() for row in self.rows],
            "means": [mean.to_json() for mean in self.means],
            "skipped": [{"family": s.family, "reason": s.reason} for s in self.skipped],
        }


_WITH_MEANS: tuple[Family, ...] = ("recurrences", "bfloat16", "gpu")


def largest_difference(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """Return max over the pairs of max |a − b| / max |b|; infinite for NaN or unlike shapes.

    Where b is all zeros the difference is absolute.
    """
    return _apart(ours, theirs, lambda tensor: float(tensor.abs().max()))


def relative_distance(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """Return max over the pairs of ‖a − b‖ / ‖b‖, with the root of the sum of squares as ‖·‖.

    For values that may rightly differ much in a few places. Otherwise as `largest_difference`.
    """
    return _apart(ours, theirs, lambda tensor: float(tensor.norm()))


def _apart(
    ours: Sequence[Tensor], theirs: Sequence[Tensor], size_of: Callable[[Tensor], float]
) -> float:
    if len(ours) != len(theirs):
        return math.inf
    largest = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return math.inf
        if a.numel() == 0:
            continue
        with torch.no_grad():
            apart, size = size_of(a.double() - b.double()), size_of(b.double())
        apart = apart / size if size > 0.0 else apart
        largest = max(largest, apart) if math.isfinite(apart) else math.inf
    return largest
