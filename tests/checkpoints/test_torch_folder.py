"""An exported folder runs by itself, gives the same logits, and comes back whole or not at all."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from elman.checkpoints.foreign.torch_folder import export_torch, import_torch_folder
from elman.config.model_settings import ModelSettings
from elman.config.text_settings import TextSettings
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.text.building import build_tokenizer

TOKENIZER = build_tokenizer(["the cat sat\n"], TextSettings())
V = len(TOKENIZER.vocabulary)
SEED = 11
FILES = ["model.py", "settings.json", "tokenizer.json", "weights.safetensors"]

CHOICES: dict[str, dict[str, Any]] = {
    "tied lstm": {"tie_weights": True, "embedding_size": 6, "num_layers": 2},
    "projected lstm": {"projection_size": 3, "bias": "none"},
    "gru that replaces": {"kind": "gru", "update": "replace"},
    "relu": {"kind": "elman", "activation": "relu"},
    "one-hot tanh": {"kind": "elman", "input": "one-hot"},
}

# Run where nothing but torch can be imported beside the folder's own file.
DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
known = set(sys.modules)
import model
made = model.load(sys.argv[1])
ids = torch.tensor(json.loads(sys.argv[2]))
with torch.no_grad():
    whole, _ = made(ids)
    first, state = made(ids[:, :2])
    rest, _ = made(ids[:, 2:], state)
new = {name.partition(".")[0] for name in set(sys.modules) - known} - sys.stdlib_module_names
assert not {"elman", "safetensors"} & {name.partition(".")[0] for name in sys.modules}
print(json.dumps({"whole": whole.tolist(), "parts": torch.cat([first, rest], 1).tolist(),
                  "new": sorted(new), "tied": made.encoder.weight is made.decoder.weight}))
"""


def model_of(choice: dict[str, Any]) -> RecurrentLanguageModel:
    sizes = {"hidden_size": 6} if "input" in choice else {"hidden_size": 6, "embedding_size": 5}
    generator = torch.Generator().manual_seed(SEED)
    model = RecurrentLanguageModel(ModelSettings(**{**sizes, **choice}), V, generator)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.0, 0.6, generator=generator)
    return model


def logits(model: RecurrentLanguageModel, ids_BT: Tensor) -> Tensor:
    output = model(ids_BT, plan=KernelPlan("reference"))
    return output.readout.logits(output.states_BTH).detach()


def exported(tmp_path: Path, name: str) -> tuple[RecurrentLanguageModel, Path]:
    model, folder = model_of(CHOICES[name]), tmp_path / "out" / "folder"
    export_torch(model, TOKENIZER.to_json(), folder)
    return model, folder


def alone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python without the environment, the user's packages, and the folder it is started in."""
    command = [sys.executable, "-I", "-W", "ignore", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["tied lstm", "one-hot tanh"])
def test_the_program_of_a_folder_needs_torch_alone_and_gives_the_same_logits(
    tmp_path: Path, name: str
) -> None:
    model, folder = exported(tmp_path, name)
    ids_BT = torch.randint(V, (2, 5), generator=torch.Generator().manual_seed(SEED))
    run = alone("-c", DRIVER, str(folder), json.dumps(ids_BT.tolist()))
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    want = logits(model, ids_BT)
    # float32: our readable loop against torch's operator, five steps
    torch.testing.assert_close(torch.tensor(told["whole"]), want, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.tensor(told["parts"]), want, rtol=0, atol=1e-5)
    assert told["new"] == ["model"]
    assert told["tied"] == (name == "tied lstm")


def test_the_program_prints_the_probabilities_of_the_next_token(tmp_path: Path) -> None:
    model, folder = exported(tmp_path, "gru that replaces")
    run = alone(str(folder / "model.py"), "--top", "99", "t", "h")
    assert run.returncode == 0, run.stderr
    rows = [line.split(maxsplit=2) for line in run.stdout.splitlines()]
    assert len(rows) == V
    ids_BT = torch.tensor([TOKENIZER.encode("th").tolist()])
    probs_V = torch.softmax(logits(model, ids_BT)[0, -1], dim=0)
    for probability, number, symbol in rows:
        assert float(probability) == pytest.approx(probs_V[int(number)].item(), abs=2e-6)
        assert ast.literal_eval(symbol) == TOKENIZER.vocabulary.symbols[int(number)]
    shown = [float(row[0]) for row in rows]
    assert shown == sorted(shown, reverse=True)


def test_the_program_refuses_what_is_not_in_the_vocabulary(tmp_path: Path) -> None:
    _, folder = exported(tmp_path, "relu")
    run = alone(str(folder / "model.py"), "q")
    assert run.returncode == 1
    assert run.stderr == "'q' is no token of the vocabulary\n"


@pytest.mark.parametrize("name", CHOICES)
def test_a_folder_comes_back_as_the_model_it_was(tmp_path: Path, name: str) -> None:
    model, folder = exported(tmp_path, name)
    found = import_torch_folder(folder)
    assert found.tokenizer_json == TOKENIZER.to_json()
    back = RecurrentLanguageModel(found.settings, found.vocabulary_size, torch.Generator())
    back.load_state_dict(found.weights)
    if name == "gru that replaces":
        assert found.settings.update == "keep"
        ids_BT = torch.randint(V, (2, 5), generator=torch.Generator().manual_seed(SEED))
        torch.testing.assert_close(logits(back, ids_BT), logits(model, ids_BT), rtol=0, atol=1e-5)
        return
    own = model.state_dict()
    assert list(back.state_dict()) == list(own)
    for key, weight in back.state_dict().items():
        assert torch.equal(weight, own[key]), key
    assert found.settings == model.settings


def test_a_tied_matrix_is_stored_once_and_is_one_tensor_again(tmp_path: Path) -> None:
    model, folder = exported(tmp_path, "tied lstm")
    stored = load_file(folder / "weights.safetensors")
    assert "decoder.weight" not in stored
    numbers = sum(weight.numel() for weight in model.parameters())
    assert sum(tensor.numel() for tensor in stored.values()) == numbers
    size = (folder / "weights.safetensors").stat().st_size
    assert 4 * numbers < size < 4 * numbers + 2048  # the header; the matrix itself has 4 · V · 6
    found = import_torch_folder(folder)
    back = RecurrentLanguageModel(found.settings, V, torch.Generator())
    back.load_state_dict(found.weights)
    ids_BT = torch.arange(V).unsqueeze(0)
    assert torch.equal(logits(back, ids_BT), logits(model, ids_BT))
    assert back.embedding is not None
    with torch.no_grad():
        back.embedding.weight.add_(1.0)
    assert torch.equal(back.readout.weight, model.readout.weight + 1.0)


def test_equal_models_give_equal_files_and_the_proof_is_returned(tmp_path: Path) -> None:
    for name in ("one", "two"):
        proof = export_torch(model_of(CHOICES["tied lstm"]), TOKENIZER.to_json(), tmp_path / name)
        assert proof.num_values > 0
        assert proof.largest < 1e-10
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == FILES
    for file in FILES:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize("file", ["weights.safetensors", "tokenizer.json", "settings.json"])
def test_a_folder_without_a_file_is_refused_by_its_name(tmp_path: Path, file: str) -> None:
    _, folder = exported(tmp_path, "relu")
    (folder / file).unlink()
    with pytest.raises(ConversionError, match=f"got no {file};"):
        import_torch_folder(folder)


def test_another_tokenizer_of_the_same_size_is_noticed(tmp_path: Path) -> None:
    _, folder = exported(tmp_path, "relu")
    other = build_tokenizer(["the dog did\n"], TextSettings(vocabulary_size=V))
    (folder / "tokenizer.json").write_text(other.to_json())
    with pytest.raises(ConversionError, match="not the one that was exported with the weights"):
        import_torch_folder(folder)


def test_weights_of_another_model_are_noticed(tmp_path: Path) -> None:
    _, folder = exported(tmp_path, "relu")
    model = model_of({"kind": "elman", "activation": "relu", "num_layers": 2})
    export_torch(model, TOKENIZER.to_json(), tmp_path / "other")
    (tmp_path / "other" / "weights.safetensors").replace(folder / "weights.safetensors")
    with pytest.raises(ConversionError, match="do not belong together; got num_layers 1 and 2"):
        import_torch_folder(folder)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", "got no table"),
        ('{"version": 2}', "got version 2; allowed: 1"),
        ('{"version": 1, "model": {"kind": "Net"}}', "was altered"),
    ],
)
def test_altered_settings_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    _, folder = exported(tmp_path, "relu")
    (folder / "settings.json").write_text(text)
    with pytest.raises(ConversionError, match=reason):
        import_torch_folder(folder)


def test_one_hot_inputs_that_were_trained_further_are_not_dropped(tmp_path: Path) -> None:
    _, folder = exported(tmp_path, "relu")
    table = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps({**table, "one_hot_inputs": True}))
    with pytest.raises(ConversionError, match="is not the identity"):
        import_torch_folder(folder)


def test_an_export_writes_nothing_where_it_must_not(tmp_path: Path) -> None:
    model, text = model_of(CHOICES["relu"]), TOKENIZER.to_json()
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(ConversionError, match="must be a new or empty folder; got a folder"):
        export_torch(model, text, tmp_path)
    with pytest.raises(ConversionError, match="got a file"):
        export_torch(model, text, tmp_path / "kept")
    longer = build_tokenizer(["the cat sat up\n"], TextSettings()).to_json()
    with pytest.raises(ConversionError, match=f"got {V + 2} symbols in the tokenizer, {V} in the"):
        export_torch(model, longer, tmp_path / "new")
    refused = model_of({"kind": "mgu"})
    with pytest.raises(ConversionError, match="no minimal gated unit"):
        export_torch(refused, text, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
