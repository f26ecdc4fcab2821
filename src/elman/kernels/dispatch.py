"""Which implementation runs a recurrence: a fast kernel, or None and why there is none."""

import os
from collections.abc import Mapping
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from elman.errors import RunError, SettingError
from elman.kernels.native_choice import (
    is_bfloat16_faster,
    is_loop_faster,
    why_torch_is_faster,
)
from elman.kernels.native_module import NO_LEVEL, NOT_BUILT, native_level, native_levels
from elman.kernels.native_recurrence import NativeKernel, why_no_native_kernel
from elman.kernels.products import ProductPlan
from elman.kernels.scan import SCANS
from elman.kernels.torch_fused import (
    TORCH_KERNELS,
    Kernel,
    KernelState,
    KernelWeights,
    why_no_torch_kernel,
)

KernelChoice = Literal["auto", "native", "torch", "reference"]
Precision = Literal["float32", "bfloat16"]

FORCE_VARIABLE = "ELMAN_KERNELS"
"""The environment variable that overrides the choice of plans; `reference` forces the twin."""


class KernelPlan:
    """The choice among implementations, made once, written down, and repeated on resume.

    `choice` "reference" runs the readable loop over `Cell.step`; "torch" runs torch's fused
    recurrence where the cell has one; "native" runs Elman's own kernel where the cell has one, on
    float32 on a CPU. "auto" runs the native kernel unless torch's is faster for the shape
    (`why_torch_is_faster`), else torch's, but for inputs of a single step, where the loop is
    faster, as operators prepare their weights at every call. What has no kernel runs the loop.
    `precision` "bfloat16" makes the products of torch's fused recurrences in bfloat16 while
    gradients are enabled, that is in training: weights, inputs and state are cast around the
    operator, and everything handed back is float32 again. Without gradients (validation, scoring,
    generation) the weights' own type is used. The choice is a function of the plan, the key and the
    input's shape and type alone. `level` is the instruction set of native kernels, "": none is
    used. `products` has the libraries of large products.
    """

    def __init__(
        self,
        choice: KernelChoice = "auto",
        precision: Precision = "float32",
        *,
        level: str | None = None,
    ) -> None:
        forced = os.environ.get(FORCE_VARIABLE, "")
        _require_choice("the setting training.kernels", choice, get_args(KernelChoice))
        _require_choice("the setting training.precision", precision, get_args(Precision))
        if forced:
            _require_choice(f"the variable {FORCE_VARIABLE}", forced, get_args(KernelChoice))
        self.choice: str = forced or choice
        self.precision: str = precision
        self.products = ProductPlan(measures=self.choice != "reference")
        self.level: str = native_level() if level is None else level
        self._found: dict[str, str] = {}
        self._why_not_native: dict[str, str] = {}

    def find_native(
        self,
        key: str,
        x_BTE: Tensor,
        hidden_size: int,
        *,
        is_ragged: bool = False,
        needs_loop: str = "",
    ) -> NativeKernel | None:
        """Return the native kernel for cells of `key` on inputs like x_BTE; None: ask `find`.

        It takes rows of any lengths in either direction, all at once. Raises `RunError` where the
        plan's instruction set is not offered here, as other sets give other bits.
        """
        if needs_loop or self.choice not in ("auto", "native"):
            return None
        reason = self._why_not(key, x_BTE, hidden_size, is_ragged)
        if reason:
            self._why_not_native[key] = reason
            return None
        if self.level not in native_levels():
            raise RunError(
                "the kernels of the run need an instruction set that is not offered here",
                got=self.level,
                allowed=", ".join(native_levels()),
                hint=f"go on where there is {self.level}, or set {FORCE_VARIABLE}=torch, which "
                "rounds differently",
            )
        self._found[key] = f"native: {self.level}"
        return NativeKernel(key, self.level)

    def find(self, key: str, x_BTE: Tensor, *, needs_loop: str = "") -> Kernel | None:
        """Return torch's kernel for cells of `key` on inputs like x_BTE; None: the readable loop.

        It takes rows of full length, forward in time. `needs_loop` says why only the loop will do,
        where that is so.
        """
        if needs_loop:
            self._found[key] = f"reference: {needs_loop}"
            return None
        if self.choice == "auto" and x_BTE.shape[1] == 1 and is_loop_faster(key, x_BTE.shape[0]):
            self._found[f"{key}, one step"] = (
                "reference: torch's operator prepares its weights anew"
            )
            return None
        kernel, reason = self._choose(key, x_BTE)
        why_not_native = self._why_not_native.get(key, "")
        self._found[key] = f"{reason}; not native: {why_not_native}" if why_not_native else reason
        return kernel

    def note(self, what: str, kernel: str) -> None:
        """Record that `what`, a part that is not a recurrence, was run by `kernel`."""
        self._found[what] = kernel

    def record(self) -> dict[str, str]:
        """Return the choice, the precision, and for each key seen the kernel that ran and why.

        The instruction set of native kernels and the number of threads decide on bits as well, and
        so do the libraries of large products.
        """
        return {
            "choice": self.choice,
            "precision": self.precision,
            "level": self.level,
            "threads": str(torch.get_num_threads()),
            **self._found,
            **self.products.record(),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> Self:
        """Return the plan that makes the same choices as the one that wrote `record`.

        A record without a level is of a plan that knew no native kernels. The number of threads is
        a setting of the run, and whoever resumes it sets it.
        """
        choice, precision = record.get("choice", "missing"), record.get("precision", "missing")
        if choice not in get_args(KernelChoice) or precision not in get_args(Precision):
            raise RunError(
                "the record of kernels must name a choice and a precision",
                got=f"{choice}, {precision}",
                allowed=f"{_listed(KernelChoice)}; {_listed(Precision)}",
            )
        level = record.get("level", "")
        plan = cls(choice, precision, level=level)  # type: ignore[arg-type]  # checked just above
        plan.products = ProductPlan.from_record(record, measures=plan.choice != "reference")
        return plan

    def _why_not(self, key: str, x_BTE: Tensor, hidden_size: int, is_ragged: bool) -> str:
        """Return why the native kernel is not to run; "": it is."""
        if not self.level:
            return NOT_BUILT if not native_level() else NO_LEVEL
        reason = why_no_native_kernel(key, x_BTE)
        if reason or self.choice == "native":
            return reason
        wants_bfloat16 = self.precision == "bfloat16" and torch.is_grad_enabled()
        if wants_bfloat16 and key in TORCH_KERNELS and is_bfloat16_faster(key, hidden_size):
            return "products in bfloat16 were asked for"
        return why_torch_is_faster(key, x_BTE, hidden_size, is_ragged=is_ragged)

    def _choose(self, key: str, x_BTE: Tensor) -> tuple[Kernel | None, str]:
        if self.choice == "reference":
            return None, "reference: asked for"
        if key in SCANS:
            return SCANS[key], "scan: no gate sees the state, so that all steps go at once"
        if self.choice == "native":
            return None, "reference"
        kernel = TORCH_KERNELS.get(key)
        if kernel is None:
            return None, f"reference: {why_no_torch_kernel(key)}"
        if (
            self.precision == "bfloat16"
            and torch.is_grad_enabled()
            and x_BTE.dtype == torch.float32
        ):
            return _in_bfloat16(kernel), "torch: the fused operator, products in bfloat16"
        return kernel, "torch: the fused operator"


def _in_bfloat16(kernel: Kernel) -> Kernel:
    """Return `kernel` between a cast of everything to bfloat16 and a cast of all results back."""

    def cast_kernel(
        x_BTE: Tensor, state: KernelState, weights: KernelWeights
    ) -> tuple[Tensor, KernelState]:
        states_BTH, last = kernel(
            x_BTE.bfloat16(),
            tuple(part.bfloat16() for part in state),
            tuple(weight.bfloat16() for weight in weights),
        )
        return states_BTH.float(), tuple(part.float() for part in last)

    return cast_kernel


def _require_choice(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingError(f"{what} is unknown", got=repr(value), allowed=", ".join(allowed))


def _listed(choices: object) -> str:
    return ", ".join(get_args(choices))
