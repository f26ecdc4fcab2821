"""The compiled module `_native`: whether it is there, which instruction set it uses, or why not."""

import importlib
import os
from types import ModuleType
from typing import Any

import torch  # before the module, so that both share one OpenMP runtime
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from elman.errors import SettingError

LEVEL_VARIABLE = "ELMAN_LEVEL"
"""The environment variable that forces an instruction set, such as `avx2` or `baseline`."""

NOT_BUILT = "the native module is not built: it needs a C++ compiler when elman is installed"

NO_LEVEL = "the run began without native kernels"


def _load() -> ModuleType | None:
    try:
        return importlib.import_module("elman.kernels._native")
    except ImportError:
        return None


native: Any = _load()
"""The module, or None. Its functions take C-contiguous CPU tensors and check types and shapes."""


_LEVELS: tuple[str, ...] = () if native is None else tuple(native.levels())


def native_levels() -> tuple[str, ...]:
    """Return the instruction sets offered by this processor, the fastest first; (): not built."""
    return () if native is None else _LEVELS


def native_level() -> str:
    """Return the instruction set in use, such as "avx512"; "": there is no native module.

    Raises `SettingError` where ELMAN_LEVEL names none that this processor has.
    """
    levels = native_levels()
    forced = os.environ.get(LEVEL_VARIABLE, "")
    if levels and forced and forced not in levels:
        raise SettingError(
            f"the variable {LEVEL_VARIABLE} must name an instruction set of this processor",
            got=repr(forced),
            allowed=", ".join(levels),
        )
    return forced or levels[0] if levels else ""


def is_transformed(tensor: Tensor) -> bool:
    """Return whether `tensor` is a dual number or within a transform of `torch.func`.

    Native kernels have a backward pass alone; the readable loop can be differentiated in every way.
    """
    if torch.compiler.is_compiling():
        return False
    within: object = torch._C._functorch.peek_interpreter_stack()
    if within is not None:
        return True
    return unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]
