"""Weights come back to the bit and tied as they were, or the reason stands on one line."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from elman.checkpoints.belonging import Belonging
from elman.checkpoints.tensor_file import HEADER_KEY
from elman.checkpoints.weights import load_weights, read_weights_record, save_weights, tied_names
from elman.errors import RunError

BELONGING = Belonging("d" * 64, 11, {"kind": "lstm", "hidden_size": 5})
IDS_BT = torch.tensor([[1, 2, 3, 10], [4, 0, 0, 7]])
MakeModel = Callable[..., nn.Module]


def save(path: Path, model: nn.Module) -> Path:
    save_weights(path, model, update=3, belonging=BELONGING)
    return path


def bits_of(model: nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in model.state_dict().values()]


def refusal(path: Path, model: nn.Module) -> str:
    """The one line that loading ends in; the model must be as it was."""
    before = bits_of(model)
    with pytest.raises(RunError) as caught:
        load_weights(path, model)
    assert bits_of(model) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rewrite_tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the tensors of a file with the library alone, its header left as it is."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {HEADER_KEY: metadata[HEADER_KEY]})


@pytest.mark.parametrize("tied", [False, True])
def test_a_loaded_model_has_the_same_bits_and_logits(
    tmp_path: Path, small_model: MakeModel, tied: bool
) -> None:
    saved, loaded = small_model(tied=tied, seed=1), small_model(tied=tied, seed=2)
    assert bits_of(saved) != bits_of(loaded)
    load_weights(save(tmp_path / "w", saved), loaded)
    assert bits_of(loaded) == bits_of(saved)
    with torch.no_grad():
        assert loaded(IDS_BT).equal(saved(IDS_BT))


def test_the_header_tells_what_the_weights_belong_to(
    tmp_path: Path, small_model: MakeModel
) -> None:
    record = read_weights_record(save(tmp_path / "w", small_model(tied=True)))
    assert (record.update, record.belonging) == (3, BELONGING)
    assert record.aliases == {"readout.weight": "embedding.weight"}
    assert record.shapes["embedding.weight"] == (11, 5)


def test_a_tied_matrix_is_stored_once(tmp_path: Path, small_model: MakeModel) -> None:
    model = small_model(tied=True, entries=1000)
    tied = save(tmp_path / "tied", model)
    untied = save(tmp_path / "untied", small_model(entries=1000))
    matrix_bytes = 1000 * 5 * 4
    # The headers differ by the entry of the second matrix and the alias: less than 200 bytes.
    saved = untied.stat().st_size - tied.stat().st_size
    assert abs(saved - matrix_bytes) < 200
    assert "readout.weight" not in load_file(tied)


def test_a_tied_matrix_is_one_tensor_after_loading(tmp_path: Path, small_model: MakeModel) -> None:
    path = save(tmp_path / "w", small_model(tied=True, seed=1))
    loaded = small_model(tied=True, seed=2)
    load_weights(path, loaded)
    before = loaded.get_parameter("readout.weight").clone()
    with torch.no_grad():
        loaded.get_parameter("embedding.weight").add_(1)
    assert loaded.get_parameter("readout.weight") is loaded.get_parameter("embedding.weight")
    assert loaded.get_parameter("readout.weight").equal(before + 1)


def test_equal_values_are_no_tie(tmp_path: Path, small_model: MakeModel) -> None:
    model = small_model(seed=1)
    with torch.no_grad():
        model.get_parameter("readout.weight").copy_(model.get_parameter("embedding.weight"))
    assert tied_names(model) == {}
    loaded = small_model(seed=2)
    load_weights(save(tmp_path / "w", model), loaded)
    with torch.no_grad():
        loaded.get_parameter("embedding.weight").add_(1)
    assert loaded.get_parameter("readout.weight").equal(model.get_parameter("readout.weight"))


def test_empty_tensors_are_no_tie() -> None:
    model = nn.ParameterList([torch.zeros(0, 2), torch.zeros(0, 2)])
    assert tied_names(model) == {}


def test_training_goes_on_unchanged_after_a_save(tmp_path: Path, small_model: MakeModel) -> None:
    model = small_model(tied=True, seed=1)
    before = bits_of(model)
    save(tmp_path / "w", model)
    assert bits_of(model) == before
    model(IDS_BT).sum().backward()
    assert model.get_parameter("embedding.weight").grad is not None
    with torch.no_grad():
        model.get_parameter("embedding.weight").zero_()
    assert load_file(tmp_path / "w")["embedding.weight"].numpy().tobytes() == before[0]


def test_loading_keeps_the_very_parameters(tmp_path: Path, small_model: MakeModel) -> None:
    path = save(tmp_path / "w", small_model(seed=1))
    model = small_model(seed=2)
    parameters = list(model.parameters())
    load_weights(path, model)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(parameter.requires_grad for parameter in parameters)


def test_a_missing_weight_is_named(tmp_path: Path, small_model: MakeModel) -> None:
    path = save(tmp_path / "w", small_model())
    rewrite_tensors(path, lambda tensors: tensors.pop("recurrence.weight_hh_l0"))
    assert "got missing recurrence.weight_hh_l0;" in refusal(path, small_model())


def test_the_tensor_of_a_tie_is_named_when_it_is_missing(
    tmp_path: Path, small_model: MakeModel
) -> None:
    path = save(tmp_path / "w", small_model(tied=True))
    rewrite_tensors(path, lambda tensors: tensors.pop("embedding.weight"))
    message = refusal(path, small_model(tied=True))
    assert "got missing embedding.weight, readout.weight;" in message


def test_an_unexpected_weight_is_named(tmp_path: Path, small_model: MakeModel) -> None:
    path = save(tmp_path / "w", small_model())
    rewrite_tensors(path, lambda tensors: tensors.update(stranger=torch.ones(1)))
    assert "got unexpected stranger;" in refusal(path, small_model())


def test_both_sizes_are_told(tmp_path: Path, small_model: MakeModel) -> None:
    path = save(tmp_path / "w", small_model(entries=465))
    message = refusal(path, small_model(entries=91))
    assert "embedding.weight has another size in" in message
    assert "got 465 × 5 in the file, 91 × 5 in the model" in message


def test_another_number_type_is_told(tmp_path: Path, small_model: MakeModel) -> None:
    path = save(tmp_path / "w", small_model())
    message = refusal(path, small_model().double())
    assert "got torch.float32 in the file, torch.float64 in the model" in message


@pytest.mark.parametrize("tied_in_file", [False, True])
def test_a_tie_in_one_of_the_two_only_is_refused(
    tmp_path: Path, small_model: MakeModel, tied_in_file: bool
) -> None:
    path = save(tmp_path / "w", small_model(tied=tied_in_file))
    message = refusal(path, small_model(tied=not tied_in_file))
    one, two = ("file", "model") if tied_in_file else ("model", "file")
    assert f"got one tensor with embedding.weight in the {one}, two in the {two}" in message


def test_altered_numbers_are_refused(tmp_path: Path, small_model: MakeModel) -> None:
    path = save(tmp_path / "w", small_model())
    rewrite_tensors(path, lambda tensors: tensors["readout.bias"].mul_(1.0001))
    assert "was altered after it was written" in refusal(path, small_model())
