"""Files of Keras: written with their tokenizer, read back, and refused before any code is run."""

import json
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elman.checkpoints.foreign.keras_file import KerasImport, export_keras, import_keras
from elman.checkpoints.foreign.keras_layers import keras_module
from elman.config.checks import check_settings
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel

# Keras copies tensors of torch into arrays while it saves in a way that NumPy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SEED = 9
VOCABULARY = 11
SMALL = ModelSettings(kind="gru", embedding_size=5, hidden_size=6, num_layers=2)


@pytest.fixture(scope="module")
def keras() -> Any:
    if find_spec("keras") is None:
        pytest.skip("keras is not installed")
    return keras_module()


@pytest.fixture
def never_loaded(keras: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Keras was given the file")

    monkeypatch.setattr(keras.saving, "load_model", refuse)


def random_model(settings: ModelSettings) -> RecurrentLanguageModel:
    generator = torch.Generator().manual_seed(SEED)
    model = RecurrentLanguageModel(settings, VOCABULARY, generator)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.0, 0.3, generator=generator)
    return model


def logits_of(model: RecurrentLanguageModel) -> torch.Tensor:
    ids_BT = torch.randint(VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(SEED))
    with torch.no_grad():
        output = model(ids_BT, plan=KernelPlan("reference"))
        return output.readout.logits(output.states_BTH)


def loaded(found: KerasImport) -> RecurrentLanguageModel:
    model = RecurrentLanguageModel(found.settings, found.vocabulary_size, torch.Generator())
    model.load_state_dict(found.weights)
    return model


def saved(keras: Any, path: Path, *layers: Any, steps: int | None = None, width: int = 0) -> Path:
    shape = (steps, width) if width else (steps,)
    keras.Sequential([keras.Input(shape), *layers]).save(path)
    return path


def language_layers(keras: Any, **readout: Any) -> list[Any]:
    layers = keras.layers
    return [
        layers.Embedding(VOCABULARY, 5),
        layers.LSTM(6, return_sequences=True),
        layers.Dense(VOCABULARY, **readout),
    ]


@pytest.mark.parametrize("initial", ["zeros", "given"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": "lstm", "bias": "one"},
        {"kind": "elman", "activation": "identity", "bias": "none", "num_layers": 1},
        {"reset": "before", "bias": "one", "dropout": 0.25, "embedding_dropout": 0.5},
        {"dropout": 0.25, "dropout_kind": "locked"},
        {"input": "one-hot", "embedding_size": 64},
    ],
    ids=str,
)
def test_a_model_comes_back_bit_for_bit(
    changes: dict[str, Any], initial: Any, keras: Any, tmp_path: Path
) -> None:
    model = random_model(replace(SMALL, **changes))
    path = tmp_path / "model.keras"
    export = export_keras(model, '{"a": "ä"}', path, initial=initial)
    assert export.notices == ()
    assert (tmp_path / "model.keras.tokenizer.json").read_text(encoding="utf-8") == '{"a": "ä"}'
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "model.keras",
        "model.keras.tokenizer.json",
    ]
    found = import_keras(path)
    assert (found.settings, found.vocabulary_size) == (model.settings, VOCABULARY)
    check_settings(Settings(model=found.settings))
    ours = model.state_dict()
    assert found.weights.keys() == ours.keys()
    for name, weight in ours.items():
        assert torch.equal(found.weights[name], weight), name
    assert found.proof.largest < 1e-5
    assert found.notices == ()


@pytest.mark.parametrize("embedding_size", [5, 6])
def test_tied_matrices_come_back_untied_with_the_same_logits(
    embedding_size: int, keras: Any, tmp_path: Path
) -> None:
    model = random_model(replace(SMALL, tie_weights=True, embedding_size=embedding_size))
    path = tmp_path / "model.keras"
    assert "not tied" in export_keras(model, "{}", path).notices[0]
    found = import_keras(path)
    assert not found.settings.tie_weights
    torch.testing.assert_close(logits_of(loaded(found)), logits_of(model), rtol=0, atol=1e-5)
    assert [("one matrix" in notice) for notice in found.notices] == [True] * (embedding_size == 5)


def test_a_model_that_keras_cannot_hold_writes_nothing(keras: Any, tmp_path: Path) -> None:
    model = random_model(replace(SMALL, residual=True))
    with pytest.raises(ConversionError, match="residual"):
        export_keras(model, "{}", tmp_path / "model.keras")
    with pytest.raises(ConversionError, match=r"allowed: \.keras"):
        export_keras(random_model(SMALL), "{}", tmp_path / "model.h5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("made", ["Sequential", "Model"])
def test_a_model_that_keras_trained_is_read(made: str, keras: Any, tmp_path: Path) -> None:
    layers = keras.layers
    ids = keras.Input((None,))
    chain = [
        layers.Embedding(VOCABULARY, 5, mask_zero=True),
        layers.LSTM(6, return_sequences=True, recurrent_dropout=0.1),
        layers.Dropout(0.3),
        layers.TimeDistributed(layers.Dense(VOCABULARY)),
        layers.Activation("softmax"),
    ]
    if made == "Sequential":
        model = keras.Sequential([ids, *chain])
    else:
        x = ids
        for layer in chain:
            x = layer(x)
        model = keras.Model(ids, x)

    def own_loss(_: Any, predicted: Any) -> Any:
        return keras.ops.mean(predicted)

    model.compile("adam", own_loss)  # how it was trained is of no account
    path = tmp_path / "trained.keras"
    model.save(path)
    found = import_keras(path)
    assert found.settings == ModelSettings(
        kind="lstm", embedding_size=5, hidden_size=6, dropout=0.3, bias="one"
    )
    ids_BT = np.array([[1, 2, 3, 4, 5, 6, 7, 8, 9]])
    with torch.no_grad():
        want = model(ids_BT).detach().cpu()
        output = loaded(found)(torch.from_numpy(ids_BT), plan=KernelPlan("reference"))
        got = output.readout.logits(output.states_BTH).softmax(-1)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-6)
    said = " ".join(found.notices)
    for words in ("id 0 is padding", "probabilities", "recurrent_dropout of"):
        assert words in said


def test_the_classic_model_over_one_hot_codes_of_fixed_length_is_read(
    keras: Any, tmp_path: Path
) -> None:
    layers = keras.layers
    path = saved(
        keras,
        tmp_path / "classic.keras",
        layers.LSTM(6),
        layers.Dense(VOCABULARY, activation="softmax"),
        steps=8,
        width=VOCABULARY,
    )
    found = import_keras(path)
    assert (found.settings.input, found.settings.hidden_size) == ("one-hot", 6)
    assert any("last step alone" in notice for notice in found.notices)
    assert found.proof.num_values == 6 * VOCABULARY  # one row of logits for each of 1 + 3 + 2


def test_a_lambda_is_refused_and_never_run(keras: Any, tmp_path: Path, never_loaded: None) -> None:
    witness = str(tmp_path / "witness")
    embed, recur, read = language_layers(keras)
    code = keras.layers.Lambda(lambda x: (Path(witness).touch(), x)[1], name="surprise")
    path = saved(keras, tmp_path / "lambda.keras", embed, code, recur, read)
    Path(witness).unlink()  # building the model ran it
    with pytest.raises(ConversionError, match=r"holds code: a Lambda.*got surprise") as caught:
        import_keras(path)
    assert "\n" not in str(caught.value)
    assert not Path(witness).exists()


def test_an_object_of_ones_own_is_refused(keras: Any, tmp_path: Path, never_loaded: None) -> None:
    @keras.saving.register_keras_serializable(package="mine")
    class Doubled(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return 2 * x

    embed, recur, read = language_layers(keras)
    path = saved(keras, tmp_path / "own.keras", embed, Doubled(), recur, read)
    with pytest.raises(ConversionError, match=r"Doubled of .*never run"):
        import_keras(path)


@pytest.mark.parametrize(
    "planted",
    [
        {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"},
        {"module": "builtins", "class_name": "function", "config": "exec"},
        {"module": "keras.utils", "class_name": "get_file", "config": {}},
        {"module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {}},
        {"module": "keras.layers", "class_name": "LSTM", "registered_name": "mine>LSTM"},
        {"module": "keras.initializers", "class_name": "function", "config": "x"},
        {"class_name": ["LSTM"]},
        {"class_name": "__lambda__", "config": {"value": "4wEA"}},
        {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "mixed_float16"}},
    ],
    ids=str,
)
def test_a_planted_part_is_refused_before_keras_sees_it(
    planted: dict[str, Any], keras: Any, tmp_path: Path, never_loaded: None
) -> None:
    path = saved(keras, tmp_path / "good.keras", *language_layers(keras))
    bad = tmp_path / "bad.keras"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(bad, "w") as other:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "config.json":
                config = json.loads(content)
                config["config"]["layers"][1]["config"]["embeddings_constraint"] = planted
                content = json.dumps(config).encode()
            other.writestr(name, content)
    with pytest.raises(ConversionError, match="never run"):
        import_keras(bad)


def test_models_of_another_shape_are_refused(keras: Any, tmp_path: Path) -> None:
    layers = keras.layers
    embed, recur, read = language_layers(keras)
    both = layers.Bidirectional(layers.GRU(3, return_sequences=True))
    backward = layers.GRU(6, return_sequences=True, go_backwards=True)
    wider = layers.LSTM(7, return_sequences=True)
    cases = [
        ((embed, both, read), "must not see the tokens"),
        ((embed, backward, read), "reads backwards alone"),
        ((embed, recur, wider, layers.Dense(VOCABULARY)), "of one kind and width"),
        ((embed, recur, layers.Dense(VOCABULARY + 1)), "11 symbols read, 12 predicted"),
        ((embed, recur, layers.Dense(6, "relu", use_bias=False), read), "got relu, linear"),
        ((embed, recur, layers.Dense(6), layers.Dense(VOCABULARY)), "without a bias"),
        ((embed, layers.Dense(6), layers.Dense(VOCABULARY)), "Embedding → Dense → Dense"),
        ((embed, recur, layers.Dense(VOCABULARY, "sigmoid")), "got sigmoid"),
    ]
    for number, (chain, says) in enumerate(cases):
        path = saved(keras, tmp_path / f"{number}.keras", *chain)
        with pytest.raises(ConversionError, match=says):
            import_keras(path)


def test_an_encoder_and_decoder_is_no_chain(keras: Any, tmp_path: Path) -> None:
    layers = keras.layers
    source, target = keras.Input((None,)), keras.Input((None,))
    embed = layers.Embedding(VOCABULARY, 5)
    _, state = layers.GRU(6, return_state=True)(embed(source))
    states = layers.GRU(6, return_sequences=True)(embed(target), initial_state=[state])
    path = tmp_path / "pair.keras"
    keras.Model([target, source], layers.Dense(VOCABULARY)(states)).save(path)
    with pytest.raises(ConversionError, match="reads more than the layer below"):
        import_keras(path)


def test_a_mask_of_another_token_than_zero_is_no_chain(keras: Any, tmp_path: Path) -> None:
    embed, recur, read = language_layers(keras)
    ids = keras.Input((None,), dtype="int32")
    path = tmp_path / "masked.keras"
    states = recur(embed(ids), mask=keras.ops.not_equal(ids, 7))
    keras.Model(ids, read(states)).save(path)
    with pytest.raises(ConversionError, match="reads more than the layer below"):
        import_keras(path)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x89HDF\r\n\x1a\n" * 20])
def test_other_files_are_refused_in_one_line(content: bytes, keras: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    path.write_bytes(content)
    with pytest.raises(ConversionError, match="not a file of Keras"):
        import_keras(path)
    with pytest.raises(ConversionError, match=r"allowed: \.keras; load an older .h5"):
        import_keras(tmp_path / "model.h5")
    with pytest.raises(ConversionError, match="not a file of Keras"):
        import_keras(tmp_path / "missing.keras")


def test_a_damaged_file_is_refused_in_one_line(keras: Any, tmp_path: Path) -> None:
    path = saved(keras, tmp_path / "good.keras", *language_layers(keras))
    bad = tmp_path / "bad.keras"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(bad, "w") as other:
        other.writestr("config.json", archive.read("config.json"))
        other.writestr("metadata.json", archive.read("metadata.json"))
        other.writestr("model.weights.h5", archive.read("model.weights.h5")[:700])
    with pytest.raises(ConversionError, match="Keras cannot read"):
        import_keras(bad)
