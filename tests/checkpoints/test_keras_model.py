"""Stacks and language models in Keras: the same numbers on both sides, there and back."""

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from elman.cells.registry import CELLS
from elman.checkpoints.foreign.keras_layers import (
    keras_array,
    keras_layer_arrays,
    keras_module,
    right_padding_mask,
)
from elman.checkpoints.foreign.keras_model import (
    Initial,
    language_model_to_keras,
    prove_keras,
    prove_keras_stack,
    stack_from_keras,
    stack_to_keras,
    what_is_left_out,
)
from elman.config.model_settings import ModelSettings
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack, StackOptions
from elman.models.recurrent import RecurrentLanguageModel

SEED = 7
FLOAT32 = 2e-6  # Keras multiplies in 32 bits; values are of order 1
PLAN = KernelPlan("reference")
VOCABULARY = 11
SMALL = ModelSettings(kind="lstm", embedding_size=5, hidden_size=6, num_layers=2)


@pytest.fixture(scope="module")
def keras() -> Any:
    if find_spec("keras") is None:
        pytest.skip("keras is not installed")
    return keras_module()


def random_stack(name: str, num_directions: int, num_layers: int, units: int = 4) -> RecurrentStack:
    cells = [
        CELLS[name](units * num_directions if layer else 3, units)
        for layer in range(num_layers)
        for _ in range(num_directions)
    ]
    stack = RecurrentStack(cells, num_directions=num_directions)
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for weight in stack.parameters():
            weight.normal_(0.0, 0.5, generator=generator)
    return stack


def random_model(settings: ModelSettings) -> RecurrentLanguageModel:
    generator = torch.Generator().manual_seed(SEED)
    model = RecurrentLanguageModel(settings, VOCABULARY, generator)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.0, 0.5, generator=generator)
    return model


@pytest.mark.parametrize("initial", ["zeros", "given"])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize(
    "name", ["elman/tanh", "gru/after/keep", "gru/before/replace", "lstm", "lstm, no bias"]
)
def test_a_stack_in_keras_computes_the_same(
    name: str, num_directions: int, num_layers: int, initial: Initial, keras: Any
) -> None:
    stack = random_stack(name, num_directions, num_layers)
    proof = prove_keras_stack(stack, stack_to_keras(stack, initial=initial))
    assert proof.largest < FLOAT32
    parts = num_layers * num_directions * (2 if name.startswith("lstm") else 1)
    # Rows times steps of outputs, and rows of states: (1 + 21 + 80) and (1 + 3 + 2).
    assert proof.num_values == 102 * 4 * num_directions + 6 * 4 * parts


def test_halves_of_two_directions_are_neither_mixed_nor_turned(keras: Any) -> None:
    stack = random_stack("lstm", 2, 1, units=2)
    model = stack_to_keras(stack)
    x_BTE = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(SEED))
    outputs, *finals = [keras_array(part) for part in model(keras_array(x_BTE))]
    with torch.no_grad():
        alone = [
            RecurrentStack([stack.cell(0)])(x_BTE, None, None, plan=PLAN),
            RecurrentStack([stack.cell(1)])(x_BTE.flip(1), None, None, plan=PLAN),
        ]
    forward, backward = keras_array(alone[0][0]), keras_array(alone[1][0].flip(1))
    np.testing.assert_allclose(outputs[..., :2], forward, rtol=0, atol=1e-6)
    np.testing.assert_allclose(outputs[..., 2:], backward, rtol=0, atol=1e-6)
    want = [*alone[0][1][0], *alone[1][1][0]]
    for got, part in zip(finals, want, strict=True):
        np.testing.assert_allclose(got, keras_array(part), rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Layer 'functional:UserWarning")  # the mask ends in the model
@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize("name", ["elman/relu", "gru/after/keep", "gru/before/keep", "lstm"])
def test_lengths_are_a_mask_in_keras(name: str, num_directions: int, keras: Any) -> None:
    stack = random_stack(name, num_directions, 2)
    x_BTE = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(SEED))
    lengths_B = torch.tensor([6, 2, 0, 1])
    with torch.no_grad():
        want_BTH, state = stack(x_BTE, None, lengths_B, plan=PLAN)
    mask_BT = right_padding_mask(lengths_B, 6)
    outputs, *finals = stack_to_keras(stack)(keras_array(x_BTE), mask=mask_BT)
    inside = keras_array(mask_BT).astype(bool)
    np.testing.assert_allclose(
        keras_array(outputs)[inside], keras_array(want_BTH)[inside], rtol=0, atol=FLOAT32
    )
    parts = [part for cell_state in state for part in cell_state]
    for got, part in zip(finals, parts, strict=True):
        np.testing.assert_allclose(keras_array(got), keras_array(part), rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize("name", ["elman/tanh, one bias", "gru/after/keep", "lstm, one bias"])
def test_a_stack_comes_back_bit_for_bit(name: str, num_directions: int, keras: Any) -> None:
    stack = random_stack(name, num_directions, 2)
    layers = [layer for layer in stack_to_keras(stack).layers if layer.weights]
    back = stack_from_keras(layers)
    assert back.num_directions == num_directions
    ours, theirs = dict(stack.named_parameters()), dict(back.named_parameters())
    assert ours.keys() == theirs.keys()
    for key, weight in ours.items():
        assert torch.equal(theirs[key], weight), key


@pytest.mark.parametrize("mode", ["sum", "mul", "ave", None])
def test_directions_joined_otherwise_are_refused(mode: str | None, keras: Any) -> None:
    layer = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True), merge_mode=mode)
    layer.build((None, None, 3))
    with pytest.raises(ConversionError, match=r"merge_mode = .*no weights can undo"):
        stack_from_keras([layer])


def test_layers_that_make_no_stack_are_refused(keras: Any) -> None:
    def built(layer: Any, width: int = 3) -> Any:
        layer.build((None, None, width))
        return layer

    one = built(keras.layers.GRU(2, return_sequences=True))
    backward = built(keras.layers.GRU(2, return_sequences=True, go_backwards=True))
    both = built(keras.layers.Bidirectional(keras.layers.GRU(2)), 2)
    last = built(keras.layers.GRU(2))
    above = built(keras.layers.GRU(2), 2)
    with pytest.raises(ConversionError, match="reads backwards alone"):
        stack_from_keras([backward])
    with pytest.raises(ConversionError, match="all in both"):
        stack_from_keras([one, both])
    with pytest.raises(ConversionError, match="return_sequences=True"):
        stack_from_keras([last, above])
    with pytest.raises(ConversionError, match="at least one layer"):
        stack_from_keras([])
    assert stack_from_keras([one, above]).num_layers == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [(StackOptions(residual=True), "residual"), (StackOptions(layer_norm=True), "layer_norm")],
)
def test_what_a_plain_chain_cannot_hold_is_refused(
    options: StackOptions, says: str, keras: Any
) -> None:
    stack = RecurrentStack([CELLS["lstm"](3, 3)], options=options)
    with pytest.raises(ConversionError, match=says):
        stack_to_keras(stack)


@pytest.mark.parametrize("initial", ["zeros", "given"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": "elman", "activation": "relu", "num_layers": 1},
        {"kind": "gru"},
        {"kind": "gru", "reset": "before", "update": "replace", "bias": "one"},
        {"kind": "mgu"},
        {"coupled": True},
        {"input": "one-hot"},
        {"tie_weights": True},
        {"tie_weights": True, "embedding_size": 6},
        {"dropout": 0.2, "embedding_dropout": 0.1},
    ],
    ids=str,
)
def test_a_language_model_in_keras_computes_the_same(
    changes: dict[str, Any], initial: Initial, keras: Any
) -> None:
    model = random_model(replace(SMALL, **changes))
    keras_model = language_model_to_keras(model, initial=initial)
    proof = prove_keras(model, keras_model)
    assert proof.largest < 1e-5  # logits are sums of six products, and larger than states
    assert proof.num_values >= 102 * VOCABULARY
    ids_BT = np.array([[3, 1, 4]])
    if initial == "zeros":
        assert tuple(keras_model(ids_BT).shape) == (1, 3, VOCABULARY)


def test_the_proof_finds_a_swapped_gate(keras: Any) -> None:
    model = random_model(SMALL)
    keras_model = language_model_to_keras(model)
    layer = keras_model.get_layer("layer_1")
    arrays = keras_layer_arrays(layer)
    units = SMALL.hidden_size
    blocks = np.split(arrays[0], range(units, 4 * units, units), axis=1)
    layer.set_weights([np.concatenate([blocks[i] for i in (0, 2, 1, 3)], axis=1), *arrays[1:]])
    with pytest.raises(ConversionError, match="computes other values of logits"):
        prove_keras(model, keras_model)


def test_the_proof_refuses_a_model_of_other_inputs(keras: Any) -> None:
    ids, more = keras.Input((None,), dtype="int32"), keras.Input((6,))
    x = keras.layers.Embedding(VOCABULARY, 5)(ids)
    y = keras.layers.GRU(6, return_sequences=True)(x, initial_state=[more])
    keras_model = keras.Model([ids, more], keras.layers.Dense(VOCABULARY)(y))
    with pytest.raises(ConversionError, match="1 inputs beside the first; allowed: 0 or 4"):
        prove_keras(random_model(SMALL), keras_model)


def test_what_is_not_in_the_model_of_keras_is_said(keras: Any) -> None:
    assert what_is_left_out(random_model(SMALL)) == ()
    tied, noisy, rewritten = what_is_left_out(
        random_model(
            ModelSettings(
                kind="gru",
                update="replace",
                embedding_size=5,
                hidden_size=6,
                tie_weights=True,
                zoneout=0.1,
            )
        )
    )
    assert "not tied" in tied
    assert "zoneout" in noisy
    assert "gru/after/replace is written as gru/after/keep" in rewritten
