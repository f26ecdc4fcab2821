"""Stacks and language models through files of ONNX: the same values and bits, or a refusal."""

import json
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.cells.registry import CELLS
from elman.checkpoints.foreign.onnx_model import (
    language_model_from_onnx,
    language_model_to_onnx,
    stack_from_onnx,
    stack_to_onnx,
    tokenizer_beside,
)
from elman.checkpoints.foreign.onnx_proof import prove_onnx
from elman.config.model_settings import ModelSettings
from elman.config.text_settings import TextSettings
from elman.errors import ConversionError, MissingPackageError, RunError
from elman.kernels.dispatch import KernelPlan
from elman.layers.noise import NoiseRates
from elman.layers.stack import RecurrentStack, StackOptions
from elman.models.recurrent import RecurrentLanguageModel
from elman.text.building import build_tokenizer
from elman.text.tokenizer import Tokenizer

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

PLAN = KernelPlan("reference")
EXPRESSIBLE = [
    name
    for name in CELLS
    if "layer_norm" not in name and "projection" not in name and not name.startswith("min")
]
SAME = ["elman/tanh", "elman/relu", "gru/after/keep", "gru/before/keep", "lstm", "lstm+peepholes"]


def randomise(module: nn.Module, seed: int = 3, std: float = 0.4) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(0.0, std, generator=generator)


def stack_of(name: str, layers: int = 1, ways: int = 1, **options: Any) -> RecurrentStack:
    sizes = [3] + [4 * ways] * (layers - 1)
    stack = RecurrentStack(
        [CELLS[name](size, 4) for size in sizes for _ in range(ways)],
        num_directions=ways,
        options=StackOptions(**options),
    )
    # An Elman cell of the identity must not grow over 33 steps: deviation below 1 / √4.
    randomise(stack, std=0.3)
    return stack


def bits(module: nn.Module) -> dict[str, bytes]:
    return {name: value.detach().numpy().tobytes() for name, value in module.named_parameters()}


def session_of(path: Path) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(session: Any, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def zeros_for(session: Any, rows: int) -> dict[str, np.ndarray]:
    return {
        value.name: np.zeros((value.shape[0], rows, value.shape[2]), np.float32)
        for value in session.get_inputs()
        if value.name.startswith("initial_")
    }


@pytest.mark.parametrize(("name", "layers", "ways"), [*product(EXPRESSIBLE, [1, 2], [1, 2])])
def test_a_stack_in_onnx_gives_the_same_values(
    tmp_path: Path, name: str, layers: int, ways: int
) -> None:
    stack, path = stack_of(name, layers, ways), tmp_path / "stack.onnx"
    stack_to_onnx(stack, path)
    proof = prove_onnx(stack, path)
    assert proof.num_values >= (1 + 21 + 132) * 4 * ways
    assert proof.largest < 1e-5  # float32, 33 steps, σ and tanh approximated by onnxruntime


@pytest.mark.parametrize(("name", "layers", "ways"), [*product(SAME, [1, 2], [1, 2])])
def test_a_stack_comes_back_bit_for_bit(tmp_path: Path, name: str, layers: int, ways: int) -> None:
    stack, path = stack_of(name, layers, ways), tmp_path / "stack.onnx"
    stack_to_onnx(stack, path)
    back = stack_from_onnx(path)
    assert back.num_directions == ways
    assert [back.cell(place).key for place in range(len(back.cells))] == [name] * layers * ways
    assert bits(back) == bits(stack)


@pytest.mark.parametrize(("norm", "residual"), [(True, False), (False, True), (True, True)])
def test_normalised_and_residual_layers_give_the_same_values_and_come_back(
    tmp_path: Path, norm: bool, residual: bool
) -> None:
    for ways in (1, 2):
        stack = stack_of("gru/after/keep", 3, ways, layer_norm=norm, residual=residual)
        path = tmp_path / f"stack{ways}.onnx"
        stack_to_onnx(stack, path)
        prove_onnx(stack, path)
        back = stack_from_onnx(path)
        assert (back.options.layer_norm, back.options.residual) == (norm, residual)
        assert bits(back) == bits(stack)


def test_layers_of_different_kinds_stand_above_one_another(tmp_path: Path) -> None:
    stack = RecurrentStack([GRUCell(3, 5, reset="before"), LSTMCell(5, 2), ElmanCell(2, 4)])
    randomise(stack)
    stack_to_onnx(stack, tmp_path / "mixed.onnx")
    prove_onnx(stack, tmp_path / "mixed.onnx")
    assert bits(stack_from_onnx(tmp_path / "mixed.onnx")) == bits(stack)


def test_the_proof_finds_a_weight_that_differs(tmp_path: Path) -> None:
    stack, path = stack_of("lstm", 2, 2), tmp_path / "stack.onnx"
    stack_to_onnx(stack, path)
    with torch.no_grad():
        stack.cell(3).weight_hh[0, 0] += 0.01
    with pytest.raises(ConversionError, match="the other side computes other values"):
        prove_onnx(stack, path)
    with pytest.raises(ConversionError, match="onnxruntime cannot run"):
        prove_onnx(stack_of("gru/after/keep"), path)


def test_both_halves_of_a_bidirectional_lstm_are_onnxs_two_directions(tmp_path: Path) -> None:
    stack, path = RecurrentStack([LSTMCell(3, 2), LSTMCell(3, 2)], num_directions=2), tmp_path / "b"
    randomise(stack)
    stack_to_onnx(stack, path)
    model = onnx.load(str(path))
    node = next(node for node in model.graph.node if node.op_type == "LSTM")
    model.graph.output.append(
        onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
    )
    onnx.save(model, str(tmp_path / "y.onnx"))
    session = session_of(tmp_path / "y.onnx")
    x_BTE = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(1))
    lens = np.array([4, 2, 3], np.int32)
    feeds = {"x": x_BTE.numpy(), "sequence_lens": lens, **zeros_for(session, 3)}
    got = run(session, feeds)
    with torch.no_grad():
        states_BTH, state = stack(x_BTE, None, torch.tensor(lens), plan=PLAN)
    y = got[node.output[0]]  # T, D, B, H
    for row, step in product(range(3), range(4)):
        ours = states_BTH[row, step].numpy()
        np.testing.assert_allclose(ours[:2], y[step, 0, row], rtol=0, atol=1e-6)
        np.testing.assert_allclose(ours[2:], y[step, 1, row], rtol=0, atol=1e-6)
    np.testing.assert_allclose(got["states"], states_BTH.numpy(), rtol=0, atol=1e-6)
    for way, (h_BH, c_BH) in enumerate(state):
        np.testing.assert_allclose(got["final_h_0"][way], h_BH.numpy(), rtol=0, atol=1e-6)
        np.testing.assert_allclose(got["final_c_0"][way], c_BH.numpy(), rtol=0, atol=1e-6)
    assert bits(stack_from_onnx(path)) == bits(stack)


@pytest.mark.parametrize("name", ["lstm+peepholes", "gru/before/keep", "elman/relu"])
def test_chunks_with_the_states_handed_on_are_one_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / "stack.onnx"
    stack_to_onnx(stack_of(name, 2), path)
    session = session_of(path)
    x = np.random.default_rng(2).normal(size=(3, 9, 3)).astype(np.float32)
    lens = np.array([9, 4, 6], np.int32)
    whole = run(session, {"x": x, "sequence_lens": lens, **zeros_for(session, 3)})
    before = zeros_for(session, 3)
    pieces = []
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        part = np.clip(lens - start, 0, stop - start).astype(np.int32)  # 0 for a row that ended
        got = run(session, {"x": x[:, start:stop], "sequence_lens": part, **before})
        before = {name: got[name.replace("initial", "final")] for name in before}
        pieces.append(got["states"])
    # The products of fewer steps at a time may be summed in another order: the last place.
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole["states"], rtol=0, atol=1e-6)
    for name, value in before.items():
        final = whole[name.replace("initial", "final")]
        np.testing.assert_allclose(value, final, rtol=0, atol=1e-6)


LANGUAGE_MODELS = {
    "lstm": ModelSettings(embedding_size=5, hidden_size=6, num_layers=2, dropout=0.3),
    "tied": ModelSettings(embedding_size=6, hidden_size=6, tie_weights=True),
    "tied through a projection": ModelSettings(embedding_size=5, hidden_size=6, tie_weights=True),
    "one-hot elman": ModelSettings(kind="elman", input="one-hot", hidden_size=6, bias="one"),
    "gru replace": ModelSettings(kind="gru", update="replace", embedding_size=5, hidden_size=6),
    "mgu, one bias": ModelSettings(kind="mgu", embedding_size=5, hidden_size=6, bias="one"),
    "lstm coupled with peepholes": ModelSettings(
        embedding_size=5, hidden_size=6, coupled=True, peepholes=True, bias="none"
    ),
    "gru before, normalised, residual": ModelSettings(
        kind="gru",
        reset="before",
        embedding_size=6,
        hidden_size=6,
        num_layers=3,
        layer_norm="layers",
        residual=True,
    ),
}


def language_model(settings: ModelSettings, size: int = 7) -> RecurrentLanguageModel:
    model = RecurrentLanguageModel(settings, size, torch.Generator().manual_seed(1))
    randomise(model)
    return model


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_language_model_in_onnx_gives_the_same_logits_and_comes_back_bit_for_bit(
    tmp_path: Path, name: str
) -> None:
    model, path = language_model(LANGUAGE_MODELS[name]), tmp_path / "model.onnx"
    language_model_to_onnx(model, path)
    prove_onnx(model, path)
    back = language_model_from_onnx(path)
    assert back.model.settings == model.settings
    assert back.tokenizer is None
    assert bits(back.model) == bits(model)
    embedding = back.model.embedding
    tied = embedding is not None and back.model.readout.weight is embedding.weight
    assert tied == model.settings.tie_weights


def test_a_tied_matrix_is_stored_once(tmp_path: Path) -> None:
    settings = ModelSettings(embedding_size=32, hidden_size=32, tie_weights=True)
    path = tmp_path / "model.onnx"
    language_model_to_onnx(language_model(settings, 500), path)
    names = [item.name for item in onnx.load(str(path)).graph.initializer]
    assert "embedding.weight" in names
    assert "readout.weight" not in names
    matrix, cell = 500 * 32 * 4, 4 * 4 * 32 * (32 + 32 + 2)
    assert path.stat().st_size < 1.5 * matrix + cell


@pytest.fixture
def tokenizer() -> Tokenizer:
    return build_tokenizer(["abc abc"], TextSettings())


def test_an_exported_model_carries_its_tokenizer_and_its_settings(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    path = tmp_path / "names.onnx"
    model = language_model(LANGUAGE_MODELS["lstm"], len(tokenizer))
    language_model_to_onnx(model, path, tokenizer)
    assert tokenizer_beside(path).name == "names.onnx.tokenizer.json"
    assert tokenizer_beside(path).read_text(encoding="utf-8") == tokenizer.to_json()
    proto = onnx.load(str(path))
    record = json.loads({item.key: item.value for item in proto.metadata_props}["elman"])
    assert record["tokenizer_sha256"] == tokenizer.digest()
    assert record["settings"]["num_layers"] == 2
    assert record["opset"] == proto.opset_import[0].version == 17
    back = language_model_from_onnx(path)
    assert back.tokenizer is not None
    assert back.tokenizer.to_json() == tokenizer.to_json()
    tokenizer_beside(path).write_text("{}", encoding="utf-8")
    with pytest.raises(ConversionError, match="is not the tokenizer of"):
        language_model_from_onnx(path)
    tokenizer_beside(path).unlink()
    with pytest.raises(RunError, match=r"names\.onnx\.tokenizer\.json"):
        language_model_from_onnx(path)
    with pytest.raises(ConversionError, match="the tokenizer must be that of the model; got"):
        language_model_to_onnx(language_model(LANGUAGE_MODELS["lstm"], 70), path, tokenizer)


def _other_axes(model: Any) -> None:
    node = next(n for n in model.graph.node if n.output[0] == "Y_0_TBDH")
    node.attribute[0].ints[:] = [0, 2, 3, 1]


def _extra_node(model: Any) -> None:
    node = next(n for n in model.graph.node if n.op_type == "Add")
    relu = onnx.helper.make_node("Relu", ["scored"], [node.output[0]])
    node.output[0] = "scored"
    model.graph.node.append(relu)


def _no_bias(model: Any) -> None:
    kept = [item for item in model.graph.initializer if item.name != "readout.bias"]
    value = onnx.helper.make_tensor_value_info("readout.bias", onnx.TensorProto.FLOAT, [7])
    model.graph.input.append(value)
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def _change_record(name: str, value: object) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        record = json.loads(model.metadata_props[0].value)
        record["settings"][name] = value
        model.metadata_props[0].value = json.dumps(record)

    return change


@pytest.mark.parametrize(
    ("alter", "told"),
    [
        (_other_axes, "altered since Elman wrote it; got a difference in Y_0_TBDH"),
        (_extra_node, "altered since Elman wrote it; got a difference in"),
        (_no_bias, "has lost a weight; got no initializer readout.bias"),
        (_change_record("hidden_size", 10**9), "other sizes than the settings say"),
        (_change_record("embedding_size", 10**9), "other sizes than the settings say"),
        (_change_record("num_layers", 1), "other sizes than the settings say"),
        (_change_record("kind", "perceptron"), "does not fit together; got model.kind must be"),
        (_change_record("odd", 1), "other settings than the model has"),
        (_change_record("kind", "gru"), "weight_ih of gru/after/keep has another size"),
        (_change_record("coupled", True), "altered since Elman wrote it"),
    ],
)
def test_an_altered_file_is_refused(
    tmp_path: Path, alter: Callable[[Any], None], told: str
) -> None:
    path = tmp_path / "model.onnx"
    language_model_to_onnx(language_model(LANGUAGE_MODELS["lstm"]), path)
    model = onnx.load(str(path))
    alter(model)
    onnx.save(model, str(path))
    with pytest.raises(ConversionError, match=told):
        language_model_from_onnx(path)


def test_what_onnx_cannot_express_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    for name in ("mingru", "minlstm", "lstm+layer_norm", "lstm+projection"):
        with pytest.raises(ConversionError, match="the nearest that ONNX has"):
            stack_to_onnx(stack_of(name), path)
    for rates in (NoiseRates(zoneout=0.1), NoiseRates(zoneout_cell=0.1)):
        with pytest.raises(ConversionError, match=r"zoneout.*mixes states in every use"):
            stack_to_onnx(stack_of("lstm", noise=rates), path)
    with pytest.raises(ConversionError, match="float32"):
        stack_to_onnx(stack_of("lstm").double(), path)
    assert not path.exists()


def test_noise_that_acts_in_training_alone_is_left_out(tmp_path: Path) -> None:
    rates = NoiseRates(recurrent_dropout=0.5, weight_dropout=0.5, zoneout_cell=0.5)
    stack = stack_of("gru/after/keep", 2, dropout=0.5, noise=rates)  # a GRU has no memory cell
    stack_to_onnx(stack, tmp_path / "noisy.onnx")
    prove_onnx(stack, tmp_path / "noisy.onnx")


def test_files_read_as_what_they_are_not_are_refused_with_the_reader_to_use(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    stack_to_onnx(stack_of("lstm"), path)
    with pytest.raises(ConversionError, match="read it with stack_from_onnx"):
        language_model_from_onnx(path)
    language_model_to_onnx(language_model(LANGUAGE_MODELS["lstm"]), path)
    with pytest.raises(ConversionError, match="read it with language_model_from_onnx"):
        stack_from_onnx(path)
    path.write_bytes(b"not a model")
    with pytest.raises(ConversionError, match="is no valid file of ONNX"):
        stack_from_onnx(path)
    with pytest.raises(ConversionError, match="cannot read"):
        stack_from_onnx(tmp_path / "missing.onnx")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_one_line_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    stack, path = stack_of("lstm"), tmp_path / "a.onnx"
    stack_to_onnx(stack, path)
    monkeypatch.setitem(sys.modules, package, None)
    use: Callable[[], object] = lambda: stack_from_onnx(path)  # noqa: E731 — one of two
    if package == "onnxruntime":
        use = lambda: prove_onnx(stack, path)  # noqa: E731
    with pytest.raises(MissingPackageError, match=f"{package} is needed.*pip install .elman.onnx"):
        use()
