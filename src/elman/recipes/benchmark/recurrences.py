"""Rows of recurrences: one layer over a whole sequence, forward alone and with all gradients."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.registry import CELLS
from elman.kernels.dispatch import KernelPlan, Precision
from elman.layers.recurrence import recur
from elman.recipes.benchmark.kernel_use import kernel_use
from elman.recipes.benchmark.machine import wait_for
from elman.recipes.benchmark.report import BenchRow, largest_difference, relative_distance
from elman.recipes.benchmark.rows import RECURRENT_KEYS, SEED, Family, Mode, Shape
from elman.recipes.benchmark.timing import Contender
from elman.recipes.benchmark.torch_recurrences import (
    TorchRecurrence,
    contender,
    settings_of_torch,
)
from elman.recipes.benchmark.workbench import PlannedRow, Workbench
from elman.seeding import generator

FLOAT32_TOLERANCE = 1e-4
"""Largest difference of any value or gradient, as a share of the largest of its tensor: float32
sums of some thousand products differ by 1e-6 when their order does; a wrong equation by 1e-2."""

RELU_TOLERANCE = 0.01
"""Distance of gradients through ReLU as a share of their norm. Its slope jumps at 0: where rounding
takes a sum across, one step of one row has another gradient, and both are right."""

BFLOAT16_TOLERANCE = 0.1
"""The same for products in bfloat16, which keeps 8 bits: 0.4 % a product, more through time."""


@dataclass(frozen=True)
class Problem:
    """A cell with random weights, its input, and the gradient that arrives at its states."""

    cell: Cell
    x_BTE: Tensor
    gradient_BTH: Tensor

    @classmethod
    def drawn(cls, key: str, shape: Shape, device: torch.device) -> Self:
        """Return the problem of `shape` for cells of `key`, the same at every call."""
        drawn = generator(SEED, "initialisation")
        cell = CELLS[key](shape.hidden_size, shape.hidden_size)
        cell.initialise(drawn)
        size = (shape.batch_size, shape.num_steps, shape.hidden_size)
        x_BTE = torch.randn(size, generator=drawn).to(device).requires_grad_()
        gradient_BTH = torch.randn(size, generator=drawn).to(device)
        return cls(cell.to(device), x_BTE, gradient_BTH)

    def values(self, mode: Mode, plan: KernelPlan, lengths_B: Tensor | None = None) -> list[Tensor]:
        """Return states, final state, and in training the gradients of input and weights."""
        states_BTH, state = recur(self.cell, self.x_BTE, None, lengths_B, plan=plan)
        if mode == "forward":
            return [states_BTH, *state]
        return [states_BTH, *state, *self._gradients(states_BTH)]

    def contender(self, mode: Mode, plan: KernelPlan, lengths_B: Tensor | None = None) -> Contender:
        """Return Elman's side: `recur` under `plan`, and in training all gradients."""
        device = self.x_BTE.device

        def forward() -> object:
            made = recur(self.cell, self.x_BTE, None, lengths_B, plan=plan)
            wait_for(device)
            return made

        def training() -> object:
            states_BTH, _ = recur(self.cell, self.x_BTE, None, lengths_B, plan=plan)
            made = self._gradients(states_BTH)
            wait_for(device)
            return made

        if mode == "training":
            return Contender(training, nullcontext)
        return Contender(forward, torch.no_grad)

    def difference(
        self,
        mode: Mode,
        plan: KernelPlan,
        theirs: TorchRecurrence,
        lengths_B: Tensor | None = None,
    ) -> tuple[float, float]:
        """Return how far Elman's values are from torch's, and how far they may be."""
        with nullcontext() if mode == "training" else torch.no_grad():
            ours, others = self.values(mode, plan, lengths_B), theirs.values(mode)
        if plan.precision == "bfloat16":
            return relative_distance(ours, others), BFLOAT16_TOLERANCE
        if mode == "training" and self.cell.key == "elman/relu":
            return relative_distance(ours, others), RELU_TOLERANCE
        return largest_difference(ours, others), FLOAT32_TOLERANCE

    def _gradients(self, states_BTH: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(states_BTH, [self.x_BTE, *self.cell.weights], self.gradient_BTH)


def operations(key: str, shape: Shape, mode: Mode, *, num_steps: int | None = None) -> float:
    """Return the floating-point operations of the products alone, additions counted as well.

        forward   2 · T · B · gates · H · (E + H),  E = H
        training  three times that: the gradients of inputs, states and weights are as much again,
                  twice

    `num_steps` stands for T · B where rows are not all full.
    """
    gates = CELLS[key](1, 1).num_gates
    steps = shape.num_steps * shape.batch_size if num_steps is None else num_steps
    forward = 2.0 * steps * gates * shape.hidden_size * 2 * shape.hidden_size
    return 3.0 * forward if mode == "training" else forward


def recurrence_row(
    bench: Workbench,
    family: Family,
    key: str,
    shape: Shape,
    mode: Mode,
    device: torch.device,
    *,
    precision: Precision = "float32",
) -> BenchRow:
    """Measure one cell on one shape beside torch's module in its best setting."""
    problem = Problem.drawn(key, shape, device)
    plan = KernelPlan("auto", precision)
    x_BTE, gradient_BTH = problem.x_BTE, problem.gradient_BTH
    reference = TorchRecurrence(problem.cell, x_BTE, gradient_BTH)
    difference, tolerance = problem.difference(mode, plan, reference)
    settings = settings_of_torch(problem.cell, x_BTE, gradient_BTH, mode)
    if precision == "bfloat16":
        settings = _with_bfloat16(problem, mode, settings)
    comparison = bench.stopwatch.compare(problem.contender(mode, plan), settings)
    rate = operations(key, shape, mode) / comparison.ours.median_seconds / 1e9
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    peak = bench.peak(dtype, device)
    return BenchRow(
        family=family,
        subject=key,
        mode=mode,
        sizes={"T": shape.num_steps, "B": shape.batch_size, "H": shape.hidden_size},
        comparison=comparison,
        kernel=kernel_use(plan.record(), key),
        difference=difference,
        tolerance=tolerance,
        figures={
            "gflops_per_second": rate,
            "share_of_peak": rate / peak.gflops_per_second,
        },
    )


def _with_bfloat16(
    problem: Problem, mode: Mode, float32: Mapping[str, Contender]
) -> dict[str, Contender]:
    """Return torch's float32 settings and its module in bfloat16, cast before it is timed."""
    module = TorchRecurrence(
        problem.cell, problem.x_BTE, problem.gradient_BTH, dtype=torch.bfloat16
    )
    named = {f"float32, {name}": setting for name, setting in float32.items()}
    return {**named, "bfloat16, batch first": contender(module, mode, onednn=True)}


def planned_recurrences(bench: Workbench) -> list[PlannedRow]:
    """Return the rows of float32 on the CPU: each cell, forward and training, every shape."""
    return _planned(bench, "recurrences", bench.programme.shapes, torch.device("cpu"))


def planned_gpu(bench: Workbench) -> list[PlannedRow]:
    """Return the same rows on the GPU, where cuDNN runs both sides."""
    return _planned(bench, "gpu", bench.programme.shapes, torch.device("cuda"))


def planned_bfloat16(bench: Workbench) -> list[PlannedRow]:
    """Return the rows of products in bfloat16, which training alone has, on the CPU."""
    cpu = torch.device("cpu")

    def measured(key: str, shape: Shape) -> Callable[[], BenchRow]:
        return lambda: recurrence_row(
            bench, "bfloat16", key, shape, "training", cpu, precision="bfloat16"
        )

    return [
        PlannedRow("bfloat16", f"{key} in bfloat16 {shape.label}", measured(key, shape))
        for key in RECURRENT_KEYS
        for shape in bench.programme.bfloat16
    ]


def _planned(
    bench: Workbench, family: Family, shapes: tuple[Shape, ...], device: torch.device
) -> list[PlannedRow]:
    def measured(key: str, shape: Shape, mode: Mode) -> Callable[[], BenchRow]:
        return lambda: recurrence_row(bench, family, key, shape, mode, device)

    modes: tuple[Mode, Mode] = ("forward", "training")
    return [
        PlannedRow(family, f"{key} {mode} {shape.label}", measured(key, shape, mode))
        for key in RECURRENT_KEYS
        for mode in modes
        for shape in shapes
    ]
