"""Every registered cell to every format and back."""

import importlib.util
from pathlib import Path

import pytest
from conversion_promises import FORMATS, REFUSED, Format, converted

from elman.cells.registry import CELLS

NEEDS = {"torch": (), "keras": ("keras", "h5py"), "onnx": ("onnx", "onnxruntime"), "py": ()}


# Keras hands its own tensors to NumPy in a way that NumPy 2 deprecates.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("key", CELLS)
def test_a_cell_is_there_and_back_the_same_or_refused(
    key: str, target: Format, tmp_path: Path
) -> None:
    missing = [name for name in NEEDS[target] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    reason = converted(key, target, tmp_path)
    assert bool(reason) == (key in REFUSED[target]), reason
