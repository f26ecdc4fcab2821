"""A pickle is a program; weights are not.

A pickled file names functions and orders calls of them: whoever loads it without restriction runs
what it names. Here a saved file with one harmless call in it (a fraction is built by a call) is
read as a list of orders, and offered to what loads weights: all of it must refuse the file, and
take the same weights saved alone.
"""

import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from elman.checkpoints.belonging import Belonging
from elman.checkpoints.foreign.torch_file import read_torch_file
from elman.checkpoints.weights import load_weights, save_weights
from elman.errors import ConversionError, RunError
from elman.recipes.lab.experiment import Experiment, Measured

_CALL = "REDUCE"
"""The order of a pickle to call what was named before it."""


def _run() -> Iterator[Measured]:
    """Yield whether a file orders calls, who refuses it, and that plain weights pass."""
    with TemporaryDirectory() as folder:
        loaded, plain = Path(folder, "loaded.pt"), Path(folder, "plain.pt")
        weight = torch.arange(6.0).view(2, 3)
        torch.save({"weight": weight, "scale": Fraction(1, 2)}, loaded)
        torch.save({"weight": weight}, plain)
        own = Path(folder, "own.safetensors")
        model = torch.nn.Linear(3, 2)
        save_weights(own, model, update=1, belonging=Belonging("", None, {}))
        value = [
            "fractions Fraction" in _named_calls(loaded),
            _is_refused(lambda: _load_restricted(loaded), pickle.UnpicklingError),
            _is_refused(lambda: read_torch_file(loaded), ConversionError),
            _is_refused(lambda: load_weights(loaded, model), RunError),
            torch.equal(read_torch_file(plain)["weight"], weight),
            load_weights(own, model).update == 1,
        ]
    yield Measured(
        "004-40",
        value,
        "a saved file that orders a call: whether the order is in it; refused by torch's "
        "restricted loading, by the reading of foreign weights, as weights of a run; plain weights "
        "are read, and our own",
    )


def _named_calls(path: Path) -> set[str]:
    """Return what a saved file names, if it orders calls; nothing of it is run."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("/data.pkl"))
        orders = list(pickletools.genops(archive.read(name)))
    if not any(order.name == _CALL for order, _, _ in orders):
        return set()
    return {str(argument) for order, argument, _ in orders if order.name == "GLOBAL"}


def _load_restricted(path: Path) -> object:
    return torch.load(io.BytesIO(path.read_bytes()), weights_only=True)


def _is_refused(load: Callable[[], object], error: type[Exception]) -> bool:
    try:
        load()
    except error:
        return True
    return False


SAFE_LOADING = Experiment(
    "safe-loading",
    "loading weights runs nothing that a file names",
    "seed 004, 7.4",
    _run,
)
