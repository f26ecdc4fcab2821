"""Files of torch and safetensors give their tensors; whatever else they hold is refused unread."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from elman.checkpoints.foreign.torch_file import read_torch_file
from elman.checkpoints.foreign.torch_state import from_torch
from elman.errors import ConversionError, RunError

NAMES = ("encoder.weight", "rnn.weight_hh_l0")


def tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {name: torch.randn(4, 3, generator=generator) for name in NAMES}


class Trap:
    """An object that leaves a file behind when it is loaded as Python objects are."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(4, 3)


def saved(folder: Path, value: object, *, zipped: bool = True) -> Path:
    path = folder / "model.pt"
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    return path


@pytest.mark.parametrize("zipped", [True, False])
def test_a_saved_state_dict_is_read_as_it_is(tmp_path: Path, zipped: bool) -> None:
    notices: list[str] = []
    path = saved(tmp_path, tensors(), zipped=zipped)
    found = read_torch_file(path, notify=notices.append)
    assert list(found) == list(NAMES)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors().items())
    assert notices == []


def test_parameters_come_as_tensors_and_tied_ones_stay_one(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.ones(4, 3))
    found = read_torch_file(saved(tmp_path, {"encoder.weight": weight, "decoder.weight": weight}))
    assert not found["encoder.weight"].requires_grad
    assert found["encoder.weight"].data_ptr() == found["decoder.weight"].data_ptr()


def test_safetensors_are_read_and_a_name_in_the_metadata_is_the_tensor_it_names(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.safetensors"
    save_file(tensors(), path, {"decoder.weight": "encoder.weight"})
    found = read_torch_file(path)
    assert set(found) == {*NAMES, "decoder.weight"}
    assert found["decoder.weight"] is found["encoder.weight"]
    save_file(tensors(), path, {"format": "pt", "rnn.weight_hh_l0": "encoder.weight"})
    assert set(read_torch_file(path)) == set(NAMES)
    assert torch.equal(read_torch_file(path)[NAMES[1]], tensors()[NAMES[1]])


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_a_state_dict_within_a_dict_is_taken_out_with_a_notice(tmp_path: Path, key: str) -> None:
    notices: list[str] = []
    value = {"epoch": 3, key: tensors(), "optimizer": {"lr": 0.1}}
    found = read_torch_file(saved(tmp_path, value), notify=notices.append)
    assert list(found) == list(NAMES)
    (notice,) = notices
    assert repr(key) in notice
    assert notice.endswith("left aside: epoch, optimizer")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_whole_module_is_refused_and_nothing_in_it_is_executed(
    tmp_path: Path, zipped: bool
) -> None:
    trapped = tmp_path / "executed"
    net = Net()
    net.trap = Trap(trapped)  # type: ignore[assignment]
    for value in (net, {"state_dict": tensors(), "trap": Trap(trapped)}, Trap(trapped)):
        with pytest.raises(ConversionError) as caught:
            read_torch_file(saved(tmp_path, value, zipped=zipped))
        message = str(caught.value)
        assert "\n" not in message
        assert "torch.save(model.state_dict(), path)" in message
        assert "would execute code; got an object of " in message
        assert not trapped.exists()
    torch.load(tmp_path / "model.pt", weights_only=False)
    assert trapped.exists()  # so the trap works where it is sprung


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch has given up TorchScript
def test_a_program_is_refused_and_no_advice_to_run_it_is_handed_on(tmp_path: Path) -> None:
    torch.jit.script(nn.Linear(2, 3)).save(str(tmp_path / "program.pt"))
    with pytest.raises(ConversionError, match="got a TorchScript program; save the") as caught:
        read_torch_file(tmp_path / "program.pt")
    assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ({"epoch": 3, "weight": torch.ones(1)}, "epoch (int)"),
        ({3: torch.ones(1)}, "3 (tensor on cpu, strided)"),
        ({"a": {"b": torch.ones(1)}}, "a (dict)"),
        ({"a": torch.ones(2, 2).to_sparse()}, "a (tensor on cpu, sparse_coo)"),
        ({"a": torch.ones(2, device="meta")}, "a (tensor on meta, strided)"),
        ({"state_dict": {"a": 1}}, "a (int)"),
        ({"state_dict": {"a": torch.ones(1)}, "model": {"b": torch.ones(1)}}, "state_dict (dict)"),
        ([torch.ones(1)], "got list"),
        (torch.ones(1), "got Tensor"),
        ({}, "got nothing"),
    ],
)
def test_anything_but_named_tensors_is_refused(tmp_path: Path, value: object, got: str) -> None:
    with pytest.raises(ConversionError, match=r"torch\.save\(model\.state_dict\(\), path\)") as c:
        read_torch_file(saved(tmp_path, value))
    assert got in str(c.value)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"text\nof lines\n", bytes(100), b"\x80\x02."]
)
@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConversionError) as caught:
        read_torch_file(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, zipped: bool) -> None:
    path = saved(tmp_path, tensors(), zipped=zipped)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ConversionError):
            read_torch_file(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot read"):
        read_torch_file(tmp_path / "none.pt")


def test_a_header_of_safetensors_that_is_no_table_of_texts_is_refused(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"a": ["b"]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ConversionError):
        read_torch_file(path)


def test_weights_without_a_real_one_are_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(tensors(), path)
    with pytest.raises(ConversionError, match=r"missing: decoder\.weight, decoder\.bias, rnn\.w"):
        from_torch(read_torch_file(path), kind="LSTM")
