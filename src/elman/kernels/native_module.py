"""The compiled module `_native`: whether it is there, which instruction set it uses, or why not."""

import importlib
import os
from types import ModuleType
from typing import Any

import torch  # noqa: F401  # first, so that both share one OpenMP runtime

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
    """Return the instruction set in use, such as "avx512"; "": there is no native module."""
    levels = native_levels()
    forced = os.environ.get(LEVEL_VARIABLE, "")
    return forced if forced in levels else levels[0] if levels else ""
