"""Loading runs nothing: a file that would set a flag does not, however it is offered."""

import pickle
from pathlib import Path

import pytest
import torch

from elman.checkpoints.foreign.torch_file import read_torch_file
from elman.checkpoints.weights import load_weights
from elman.errors import ConversionError, RunError
from elman.recipes.lab import safe_loading

CALLED: list[str] = []


def note(who: str) -> str:
    CALLED.append(who)
    return who


class Order:
    """An object whose pickle orders a call of `note`."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return note, ("a file",)


def test_a_file_that_calls_when_it_is_unpickled_calls_nothing_here(tmp_path: Path) -> None:
    path = tmp_path / "calls.pt"
    torch.save({"weight": torch.ones(2), "order": Order()}, path)
    assert any("note" in name for name in safe_loading._named_calls(path))
    CALLED.clear()
    with pytest.raises(ConversionError, match="would execute code"):
        read_torch_file(path)
    with pytest.raises(RunError):
        load_weights(path, torch.nn.Linear(2, 2))
    assert CALLED == []
    assert pickle.loads(pickle.dumps(Order())) == "a file"  # without restriction it does
    assert CALLED == ["a file"]


def test_a_file_of_tensors_alone_names_nothing_but_how_tensors_are_built(tmp_path: Path) -> None:
    path = tmp_path / "plain.pt"
    torch.save({"weight": torch.ones(2)}, path)
    assert all("torch" in name or "collections" in name for name in safe_loading._named_calls(path))
