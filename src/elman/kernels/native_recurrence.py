"""Whole batches through Elman's own kernels: float32, on a CPU, rows of any lengths, either way.

The input projection is one product over all valid steps, and so are the gradients of the weights;
the recurrence between is C++ (`elman/kernels/native/`). The twin is the readable loop over
`Cell.step`; values agree to 1e-6 of the largest, gradients to 1e-5. Sweeps give a row the same
bits in any batch and on any number of threads; the large products may not.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from elman.kernels import native_module
from elman.kernels.native_arrays import require_axes
from elman.kernels.native_module import NOT_BUILT, is_transformed
from elman.kernels.native_operator import recurrence_operator
from elman.kernels.native_passes import (
    NATIVE_CELLS,
    Kept,
    backward_pass,
    forward_pass,
    kept_for_gradients,
)
from elman.kernels.native_sweep import Course, OutputGradients
from elman.kernels.torch_fused import KernelState, KernelWeights

NO_SECOND_DERIVATIVE = (
    "native kernels have no second derivative; the readable loop has: KernelPlan('reference'), or "
    "the variable ELMAN_KERNELS=reference"
)


def why_no_native_kernel(key: str, x_BTE: Tensor) -> str:
    """Return why cells of `key` have no native kernel on inputs like x_BTE; "": they have one."""
    if native_module.native is None:
        return NOT_BUILT
    if key not in NATIVE_CELLS:
        return "no native kernel has these equations"
    if not x_BTE.is_cpu or x_BTE.dtype != torch.float32:
        return "native kernels take float32 on a CPU"
    if is_transformed(x_BTE):
        return "native kernels have a backward pass alone"
    if torch.is_autocast_enabled("cpu"):
        return "native kernels know no autocast"
    return ""


@dataclass(frozen=True)
class NativeKernel:
    """One cell's recurrence at one instruction set, as a function of inputs, state and weights."""

    key: str
    level: str
    units: int = 0

    def __call__(
        self,
        x_BTE: Tensor,
        state: KernelState,
        weights: KernelWeights,
        lengths_B: Tensor | None = None,
        direction: Literal["forward", "backward"] = "forward",
    ) -> tuple[Tensor, KernelState]:
        """Return (states_BTH, last state), as `elman.layers.recurrence.recur` promises them.

        lengths_B int64 [B], None: all rows have T steps. `state` is (h_BH,), of an LSTM (h_BH,
        c_BH); `weights` are those of `Cell.kernel_weights`. Raises `ShapeError`, `TypeError` or
        `ValueError` where an argument does not fit.
        """
        require_axes("x_BTE", x_BTE, 3)
        course = Course(self.level, x_BTE.shape[1], lengths_B, direction == "backward", self.units)
        first_c_BH = state[1] if len(state) > 1 else None
        if torch.compiler.is_compiling():
            states_BTH, last_h_BH, last_c_BH, _, _ = recurrence_operator(
                self.key, *course, x_BTE, state[0], first_c_BH, *weights
            )
        elif torch.is_grad_enabled() and any(
            part.requires_grad for part in (x_BTE, *state, *weights)
        ):
            states_BTH, last_h_BH, last_c_BH = _Recurrence.apply(  # type: ignore[no-untyped-call]
                self.key, course, x_BTE, state[0], first_c_BH, *weights
            )
        else:
            (states_BTH, last_h_BH, last_c_BH, _), _ = forward_pass(
                self.key, course, x_BTE, state[0], first_c_BH, *weights, keeps=False
            )
        return states_BTH, (last_h_BH,) if first_c_BH is None else (last_h_BH, last_c_BH)


class _Recurrence(torch.autograd.Function):
    """The recurrence outside `torch.compile`: a custom operator costs twice as much a call."""

    @staticmethod
    def forward(
        ctx: Any,
        key: str,
        course: Course,
        x_BTE: Tensor,
        first_h_BH: Tensor,
        first_c_BH: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return states_BTH and both parts of the last state."""
        swept, x_NE = forward_pass(key, course, x_BTE, first_h_BH, first_c_BH, *weights, keeps=True)
        ctx.key, ctx.course, ctx.shape = key, course, x_BTE.shape
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept_for_gradients(key, x_NE, first_c_BH, weights, swept))
        return swept[:3]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, the first state and the weights.

        Raises `RuntimeError` where they are to be differentiated again: the sweep records no graph.
        """
        if torch.is_grad_enabled():
            raise RuntimeError(NO_SECOND_DERIVATIVE)
        if all(grad is None for grad in grads):
            return (None,) * 9
        needs = ctx.needs_input_grad[2:]
        found = backward_pass(
            ctx.key,
            ctx.course,
            OutputGradients(*grads),
            Kept(*ctx.saved_tensors),
            ctx.shape,
            needs,
        )
        return (None, None, *found)
