"""What every row needs to be measured: the programme, the stopwatch, and limits measured once."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from elman.recipes.benchmark.machine import MatrixPeak, matrix_peak
from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import Family, Programme
from elman.recipes.benchmark.timing import Stopwatch


@dataclass(frozen=True)
class PlannedRow:
    """A row that is still to be measured: its title for the progress line, and how."""

    family: Family
    title: str
    measure: Callable[[], BenchRow]


@dataclass
class Workbench:
    """The means of one run. Peaks of products are measured when first asked for, then kept.

    `tell` is called with what a long row is doing.
    """

    programme: Programme
    stopwatch: Stopwatch
    tell: Callable[[str], None] = lambda stage: None
    _peaks: dict[tuple[torch.dtype, str], MatrixPeak] = field(default_factory=dict)

    def peak(self, dtype: torch.dtype, device: torch.device) -> MatrixPeak:
        """Return the best rate of products of `dtype` on `device` in this run."""
        place = (dtype, device.type)
        if place not in self._peaks:
            self._peaks[place] = matrix_peak(
                self.stopwatch, dtype, device, size=self.programme.peak_size
            )
        return self._peaks[place]

    @property
    def peaks(self) -> list[MatrixPeak]:
        """All peaks measured so far."""
        return list(self._peaks.values())
