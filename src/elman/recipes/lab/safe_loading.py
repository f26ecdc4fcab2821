"""A serialised object is a program; weights are not.

A file of Python objects names functions and orders calls of them: whoever loads it without
restriction runs what it names. Here such a file with one harmless call in it (a fraction is built
by a call) is read as a list of orders, and offered to what loads weights: all of it must refuse the
file, and take weights of our own.
"""

import pickletools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from elman.checkpoints.belonging import Belonging
from elman.checkpoints.foreign.torch_file import read_torch_file
from elman.checkpoints.weights import load_weights, save_weights
from elman.errors import ConversionError, RunError
from elman.recipes.lab.experiment import Experiment, Measured

_CALL = "REDUCE"
"""The order to call what was named before it."""

_ORDERS = b"\x80\x02cfractions\nFraction\nK\x01K\x02\x86R."
"""Name fractions.Fraction, make the pair (1, 2), call the one with the other, stop."""


def _run() -> Iterator[Measured]:
    """Yield whether a file orders calls, who refuses it, and that our own weights pass."""
    with TemporaryDirectory() as folder:
        loaded, own = Path(folder, "loaded.pt"), Path(folder, "own.safetensors")
        _write_loaded(loaded)
        model = torch.nn.Linear(3, 2)
        save_weights(own, model, update=1, belonging=Belonging("", None, {}))
        value = [
            "fractions Fraction" in _named_calls(loaded),
            _is_refused(lambda: read_torch_file(loaded), ConversionError, "would execute code"),
            _is_refused(lambda: load_weights(loaded, model), RunError),
            load_weights(own, model).update == 1,
        ]
    yield Measured(
        "004-40",
        value,
        "a file of torch's form that orders a call: whether the order is in it; refused by the "
        "reading of foreign weights for that, and as weights of a run; our own weights are read",
    )


def _write_loaded(path: Path) -> None:
    """Write a file as torch's archives are, whose one object is made by a call."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in (("data.pkl", _ORDERS), ("byteorder", b"little"), ("version", b"3\n")):
            archive.writestr(f"archive/{name}", content)


def _named_calls(path: Path) -> set[str]:
    """Return what a saved file names, if it orders calls; nothing of it is run."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("/data.pkl"))
        orders = list(pickletools.genops(archive.read(name)))
    if not any(order.name == _CALL for order, _, _ in orders):
        return set()
    return {str(argument) for order, argument, _ in orders if order.name == "GLOBAL"}


def _is_refused(load: Callable[[], object], error: type[Exception], reason: str = "") -> bool:
    try:
        load()
    except error as refusal:
        return reason in str(refusal)
    return False


SAFE_LOADING = Experiment(
    "safe-loading",
    "loading weights runs nothing that a file names",
    "document 004, 7.4",
    _run,
)
