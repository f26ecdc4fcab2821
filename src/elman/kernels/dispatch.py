"""Which implementation runs a recurrence: a fast kernel, or None and why there is none."""

import os
from collections.abc import Mapping
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from elman.errors import RunError, SettingError
from elman.kernels.products import ProductPlan
from elman.kernels.scan import SCANS
from elman.kernels.torch_fused import (
    TORCH_KERNELS,
    Kernel,
    KernelState,
    KernelWeights,
    why_no_torch_kernel,
)

KernelChoice = Literal["auto", "torch", "reference"]
Precision = Literal["float32", "bfloat16"]

FORCE_VARIABLE = "ELMAN_KERNELS"
"""The environment variable that overrides the choice of plans; `reference` forces the twin."""


class KernelPlan:
    """The choice among implementations, made once, written down, and repeated on resume.

    `choice` "reference" runs the readable loop over `Cell.step`; "torch" runs torch's fused
    recurrence where the cell has one; "auto" does too, but for inputs of a single step, where the
    loop is faster, as the operator prepares its weights at every call. `precision` "bfloat16" makes
    the products of fused recurrences in bfloat16 while gradients are enabled, that is in training:
    weights, inputs and state are cast around the operator, and everything handed back is float32
    again. Without gradients (validation, scoring, generation) the weights' own type is used. The
    choice is a function of the plan, the key and the input's shape and type alone. `products` has
    the libraries of large products.
    """

    def __init__(self, choice: KernelChoice = "auto", precision: Precision = "float32") -> None:
        forced = os.environ.get(FORCE_VARIABLE, "")
        _require_choice("the setting training.kernels", choice, get_args(KernelChoice))
        _require_choice("the setting training.precision", precision, get_args(Precision))
        if forced:
            _require_choice(f"the variable {FORCE_VARIABLE}", forced, get_args(KernelChoice))
        self.choice: str = forced or choice
        self.precision: str = precision
        self.products = ProductPlan(measures=self.choice != "reference")
        self._found: dict[str, str] = {}

    def find(self, key: str, x_BTE: Tensor, *, needs_loop: str = "") -> Kernel | None:
        """Return the kernel for cells of `key` on inputs like x_BTE; None: the readable loop.

        `needs_loop` says why only the loop will do, where that is so.
        """
        if needs_loop:
            self._found[key] = f"reference: {needs_loop}"
            return None
        if self.choice == "auto" and x_BTE.shape[1] == 1:
            self._found[f"{key}, one step"] = (
                "reference: torch's operator prepares its weights anew"
            )
            return None
        kernel, reason = self._choose(key, x_BTE)
        self._found[key] = reason
        return kernel

    def note(self, what: str, kernel: str) -> None:
        """Record that `what`, a part that is not a recurrence, was run by `kernel`."""
        self._found[what] = kernel

    def record(self) -> dict[str, str]:
        """Return the choice, the precision, and for each key seen the kernel that ran and why."""
        return {
            "choice": self.choice,
            "precision": self.precision,
            **self._found,
            **self.products.record(),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> Self:
        """Return the plan that makes the same choices as the one that wrote `record`."""
        choice, precision = record.get("choice", "missing"), record.get("precision", "missing")
        if choice not in get_args(KernelChoice) or precision not in get_args(Precision):
            raise RunError(
                "the record of kernels must name a choice and a precision",
                got=f"{choice}, {precision}",
                allowed=f"{_listed(KernelChoice)}; {_listed(Precision)}",
            )
        plan = cls(choice, precision)  # type: ignore[arg-type]  # checked just above
        plan.products = ProductPlan.from_record(record, measures=plan.choice != "reference")
        return plan

    def _choose(self, key: str, x_BTE: Tensor) -> tuple[Kernel | None, str]:
        if self.choice == "reference":
            return None, "reference: asked for"
        if key in SCANS:
            return SCANS[key], "scan: no gate sees the state, so that all steps go at once"
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
