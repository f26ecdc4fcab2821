"""The machine that was measured, and what it can do at best: products and reading."""

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from elman.kernels.dispatch import FORCE_VARIABLE
from elman.kernels.native_module import NOT_BUILT, native_level, native_levels
from elman.kernels.products import has_onednn
from elman.processes import usable_cores
from elman.recipes.benchmark.timing import Contender, Stopwatch


@dataclass(frozen=True)
class NativeFacts:
    """Whether the native kernels are there, and at which instruction level, or why not."""

    present: bool
    told: str


def native_facts() -> NativeFacts:
    """Return the instruction set of the native kernels, or why there are none."""
    levels = native_levels()
    if not levels:
        return NativeFacts(False, NOT_BUILT)
    others = ", ".join(level for level in levels if level != native_level())
    return NativeFacts(True, native_level() + (f" (offered as well: {others})" if others else ""))


@dataclass(frozen=True)
class MachineFacts:
    """Processor, cores, threads, system and versions, as a figure needs them beside it."""

    processor: str
    cores: int
    threads: int
    capability: str
    system: str
    python: str
    torch: str
    elman: str
    gpu: str
    load_average: float | None
    kernels_forced: str
    native_present: bool
    native: str

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return asdict(self)


def machine_facts() -> MachineFacts:
    """Return the facts of this machine and process as they are now."""
    from elman import __version__

    native = native_facts()
    return MachineFacts(
        processor=_processor(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        capability=torch.backends.cpu.get_cpu_capability(),
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        python=platform.python_version(),
        torch=torch.__version__,
        elman=__version__,
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        load_average=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        kernels_forced=os.environ.get(FORCE_VARIABLE, ""),
        native_present=native.present,
        native=native.told,
    )


@dataclass(frozen=True)
class MatrixPeak:
    """The best product of two square matrices of `size` that torch has here, in GFLOP/s."""

    dtype: str
    device: str
    size: int
    gflops_per_second: float
    by: str
    tried: dict[str, float]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return asdict(self)


def matrix_peak(
    stopwatch: Stopwatch, dtype: torch.dtype, device: torch.device, *, size: int
) -> MatrixPeak:
    """Return the largest rate of 2 n³ operations, at their least time, of torch's two products."""
    drawn = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, size, generator=drawn).to(device, dtype) for _ in range(2))
    ways = {"mm": Contender(lambda: _finished(torch.mm(a, b), device), torch.no_grad)}
    if device.type == "cpu" and has_onednn(dtype):
        ways["oneDNN"] = Contender(
            lambda: torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], ""), torch.no_grad
        )
    operations = 2.0 * size**3
    tried = {
        name: operations / timing.least_seconds / 1e9
        for name, timing in stopwatch.interleaved(ways).items()
    }
    by = max(tried, key=lambda name: tried[name])
    name = str(dtype).removeprefix("torch.")
    return MatrixPeak(name, device.type, size, tried[by], by, tried)


def read_bandwidth(stopwatch: Stopwatch, num_bytes: int) -> float:
    """Return bytes per second of reading one float32 array of `num_bytes` again and again.

    The best of a sum by torch, a product of a matrix and a vector by torch and by NumPy, and a
    scalar product by NumPy, each at its least time: what the cache or memory that such an array
    fits into gives to this many threads.
    """
    columns = 256
    rows = max(1, num_bytes // (4 * columns))
    matrix = torch.ones(rows, columns)
    vector, flat = torch.ones(columns), matrix.numpy().reshape(-1)
    ways = {
        "sum": Contender(matrix.sum),
        "mv": Contender(lambda: torch.mv(matrix, vector)),
        "numpy mv": Contender(lambda: matrix.numpy() @ vector.numpy()),
        "numpy dot": Contender(lambda: np.dot(flat, flat)),
    }
    timings = stopwatch.interleaved(ways)
    return 4.0 * rows * columns / min(timing.least_seconds for timing in timings.values())


def wait_for(device: torch.device) -> None:
    """Wait until all work given to a GPU is done; a CPU has done it already."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _finished(result: torch.Tensor, device: torch.device) -> torch.Tensor:
    wait_for(device)
    return result


def _processor() -> str:
    """Return the name of the processor as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"
