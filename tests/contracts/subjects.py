"""What the promises are made about: a cell run over time on one path, random parameters in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.registry import CELLS
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_recurrence import why_no_native_kernel
from elman.kernels.scan import SCANS
from elman.kernels.torch_fused import TORCH_KERNELS, why_no_torch_kernel
from elman.layers.recurrence import recur

PATHS = ("reference", "torch", "native")
SIZES = ((1, 1, 1, 1), (1, 7, 3, 5), (5, 1, 2, 3), (4, 6, 5, 7))
"""(B, T, E, H): one of everything, one row, one step, and odd sizes throughout."""

EXACT_64 = 1e-12
"""float64, the same sums cut differently: a few hundred roundings of 1e-16, with room to spare."""
PARITY_64 = 1e-10
"""float64 against another implementation: another order of sums, another exp and tanh."""
EXACT_32 = 1e-6
"""float32, the same sums cut differently: what the design promises for values of order 1."""
PARITY_32 = 1e-5
"""float32 against float64: some hundred roundings of 6e-8, which a recurrence may enlarge."""
GRADIENT_32 = 1e-5
"""float32, gradients cut differently: sums over rows and steps of terms larger than the sum."""


@dataclass(frozen=True)
class Subject:
    """One registered cell on one path, and the function that runs it over time."""

    key: str
    path: str
    build: Callable[[int, int], Cell]
    recur: Callable[..., Any] = recur
    plan: Callable[[], KernelPlan] | None = None

    @property
    def dtype(self) -> torch.dtype:
        """What promises are checked in: float64, but for native kernels, which take float32."""
        return torch.float32 if self.path == "native" else torch.float64

    @property
    def exact(self) -> float:
        return EXACT_32 if self.path == "native" else EXACT_64

    @property
    def exact_gradient(self) -> float:
        return GRADIENT_32 if self.path == "native" else EXACT_64

    @property
    def parity(self) -> float:
        return PARITY_32 if self.path == "native" else PARITY_64

    @property
    def tolerances(self) -> dict[torch.dtype, float]:
        """Of the same sums cut differently, in each type that the path has."""
        exact = {torch.float64: EXACT_64, torch.float32: EXACT_32}
        return {torch.float32: EXACT_32} if self.path == "native" else exact

    def new_plan(self) -> KernelPlan:
        return KernelPlan(self.path) if self.plan is None else self.plan()

    def cell(self, input_size: int, hidden_size: int, *, seed: int, dtype=None) -> Cell:
        """A cell whose parameters, biases too, are normal with deviation 0.7."""
        generator = torch.Generator().manual_seed(seed)
        cell = self.build(input_size, hidden_size)
        with torch.no_grad():
            for weight in cell.weights:
                weight.normal_(0.0, 0.7, generator=generator)
                if self.key in ("elman/identity", "elman/relu"):
                    weight.mul_(0.5)  # unbounded states grow with T otherwise
        return cell.to(self.dtype if dtype is None else dtype)

    def normal(self, *shape: int, seed: int) -> Tensor:
        return normal(*shape, seed=seed, dtype=self.dtype)

    def run(
        self,
        cell: Cell,
        x_BTE: Tensor,
        state: Any = None,
        lengths_B: Tensor | None = None,
        direction: str = "forward",
    ) -> tuple[Tensor, Any]:
        return self.recur(cell, x_BTE, state, lengths_B, plan=self.new_plan(), direction=direction)


def why_not_applicable(key: str, path: str) -> str | None:
    equations = key.split(",")[0]
    if path == "torch" and equations not in {**TORCH_KERNELS, **SCANS}:
        return f"there is no fast path: {why_no_torch_kernel(equations)}"
    if path == "native":
        return why_no_native_kernel(equations, torch.zeros(1, 1, 1)) or None
    return None


def all_subjects() -> list[Subject]:
    """Every registered cell on every path; those that cannot be are skipped with the reason."""
    return [Subject(key, path, build) for key, build in CELLS.items() for path in PATHS]


def normal(*shape: int, seed: int, dtype=torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_state(cell: Cell, batch_size: int, *, seed: int) -> Any:
    dtype = cell.weight_ih.dtype
    parts = [
        normal(batch_size, size, seed=seed + place, dtype=dtype)
        for place, size in enumerate(cell.state_sizes)
    ]
    return cell.pack_state(parts)


def assert_close(got: Tensor, want: Tensor, tolerance: float, what: str) -> None:
    """|got − want| ≤ tolerance · max(1, |want|), element by element, NaN never."""
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, not {tuple(want.shape)}"
    if got.numel() == 0:
        return
    got, want = got.double(), want.double()
    excess = ((got - want).abs() / want.abs().clamp(min=1.0)).max().item()
    assert excess <= tolerance, f"{what}: off by {excess:.3g}, more than {tolerance:.3g}"


def gradients_of(subject: Subject, cell: Cell, total: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Gradients of `total` with respect to inputs and all parameters."""
    return list(torch.autograd.grad(total, [*inputs, *cell.weights], materialize_grads=True))
