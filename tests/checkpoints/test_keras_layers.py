"""Cells as layers of Keras: the same numbers, known numbers, and what the mistakes would give."""

import os
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.cells.registry import CELLS
from elman.checkpoints.foreign.keras_layers import (
    cell_from_layer,
    cell_from_weights,
    keras_layer_arrays,
    keras_module,
    layer_from_cell,
    layer_weights,
)
from elman.errors import ConversionError, MissingPackageError
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import Direction, recur

Array = npt.NDArray[np.floating]
SEED = 5
FLOAT32 = 2e-6  # Keras multiplies in 32 bits whatever the weights are; values are of order 1
REFUSED = [name for name in CELLS if name.startswith("lstm+") and name != "lstm+coupled"]
REFUSED += ["mingru", "minlstm"]
EXPRESSIBLE = [name for name in CELLS if name not in REFUSED]

# E05: one unit, gates i, f, g, o, one bias; two inputs.
LSTM_INPUT, LSTM_STATE = [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]
LSTM_BIAS = [0.01, 0.02, 0.03, 0.04]
# E06: one unit, gates r, z, n, two biases; the same two inputs.
GRU_INPUT, GRU_STATE = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
GRU_BIASES = [0.1, 0.2, 0.3], [0.05, 0.15, 0.25]
INPUTS = [1.0, -2.0]


@pytest.fixture(scope="module")
def keras() -> Any:
    if find_spec("keras") is None:
        pytest.skip("keras is not installed")
    return keras_module()


def random_cell(name: str, dtype: torch.dtype = torch.float32) -> Cell:
    cell = CELLS[name](3, 4).to(dtype)
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for weight in cell.weights:
            weight.normal_(0.0, 0.5, generator=generator)
    return cell


def column(numbers: list[float]) -> torch.Tensor:
    return torch.tensor(numbers).unsqueeze(1)


def toy_lstm() -> LSTMCell:
    cell = LSTMCell(1, 1, bias="one")
    with torch.no_grad():
        cell.weight_ih.copy_(column(LSTM_INPUT))
        cell.weight_hh.copy_(column(LSTM_STATE))
        assert cell.bias_ih is not None
        cell.bias_ih.copy_(torch.tensor(LSTM_BIAS))
    return cell


def toy_gru(reset: Any) -> GRUCell:
    cell = GRUCell(1, 1, reset=reset)
    with torch.no_grad():
        cell.weight_ih.copy_(column(GRU_INPUT))
        cell.weight_hh.copy_(column(GRU_STATE))
        for bias, numbers in zip((cell.bias_ih, cell.bias_hh), GRU_BIASES, strict=True):
            assert bias is not None
            bias.copy_(torch.tensor(numbers))
    return cell


def values(tensor: Any) -> Array:
    array: Array = tensor.detach().cpu().numpy()
    return array


def run_layer(layer: Any, x_BTE: torch.Tensor) -> list[Array]:
    return [values(output) for output in layer(values(x_BTE))]


def run_toy(layer: Any) -> list[Array]:
    return [output.reshape(-1) for output in run_layer(layer, torch.tensor([INPUTS]).unsqueeze(2))]


def layer_of(keras: Any, kind: str, weights: list[Array], **options: Any) -> Any:
    layer = getattr(keras.layers, kind)(1, return_sequences=True, return_state=True, **options)
    layer.build((None, None, 1))
    layer.set_weights([np.asarray(weight, np.float32) for weight in weights])
    return layer


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_a_layer_computes_what_its_cell_does(name: str, direction: Direction, keras: Any) -> None:
    cell = random_cell(name)
    x_BTE = torch.randn(5, 6, 3, generator=torch.Generator().manual_seed(SEED))
    layer = layer_from_cell(cell, name="layer", direction=direction)
    outputs, *finals = run_layer(layer, x_BTE)
    if direction == "backward":  # Keras gives them in the order in which it read
        outputs = outputs[:, ::-1]
    with torch.no_grad():
        want_BTH, want = recur(
            cell, x_BTE, None, None, plan=KernelPlan("reference"), direction=direction
        )
    np.testing.assert_allclose(outputs, values(want_BTH), rtol=0, atol=FLOAT32)
    assert len(finals) == len(want)
    for got, part in zip(finals, want, strict=True):
        np.testing.assert_allclose(got, values(part), rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("name", ["lstm", "lstm+coupled", "gru/after/keep", "gru/after/replace"])
def test_weights_of_64_bits_keep_them(name: str, keras: Any) -> None:
    """The layers that Keras hands to torch's own operator, which multiplies in 64 bits."""
    cell = random_cell(name, torch.float64)
    generator = torch.Generator().manual_seed(SEED)
    x_BTE = torch.randn(5, 6, 3, dtype=torch.float64, generator=generator)
    layer = layer_from_cell(cell, name="layer")
    got_BTH = layer(keras.ops.convert_to_tensor(values(x_BTE), dtype="float64"))[0]
    with torch.no_grad():
        want_BTH, _ = recur(cell, x_BTE, None, None, plan=KernelPlan("reference"))
    np.testing.assert_allclose(values(got_BTH), values(want_BTH), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_there_and_back_keeps_every_matrix_and_the_sum_of_the_biases(name: str, keras: Any) -> None:
    cell = random_cell(name)
    back, direction = cell_from_layer(layer_from_cell(cell, name="layer"))
    assert direction == "forward"
    again = layer_weights(back)
    for left, right in zip(layer_weights(cell), again, strict=True):
        np.testing.assert_array_equal(left, right)
    if name.startswith(("mgu", "lstm+")) or "replace" in name:
        return  # those are rewritten
    assert torch.equal(back.weight_ih, cell.weight_ih)
    assert torch.equal(back.weight_hh, cell.weight_hh)
    if back.bias == cell.bias:
        for left, right in zip(back.weights, cell.weights, strict=True):
            assert torch.equal(left, right)
    elif back.bias == "one":
        assert back.bias_ih is not None
        assert cell.bias_ih is not None
        assert cell.bias_hh is not None
        assert torch.equal(back.bias_ih, cell.bias_ih + cell.bias_hh)
    else:  # "one" of a GRU that resets after has zeros for its second row
        assert back.bias_hh is not None
        assert not back.bias_hh.any()


@pytest.mark.parametrize(
    ("name", "kernels", "bias"),
    [
        ("elman/tanh", [(3, 4), (4, 4)], (4,)),
        ("lstm", [(3, 16), (4, 16)], (16,)),
        ("gru/after/keep", [(3, 12), (4, 12)], (2, 12)),
        ("gru/before/keep", [(3, 12), (4, 12)], (12,)),
        ("gru/after/keep, one bias", [(3, 12), (4, 12)], (2, 12)),
        ("lstm, no bias", [(3, 16), (4, 16)], None),
    ],
)
def test_arrays_have_keras_own_shapes(
    name: str, kernels: list[tuple[int, ...]], bias: tuple[int, ...] | None, keras: Any
) -> None:
    shapes = [weight.shape for weight in layer_weights(random_cell(name))]
    assert shapes == kernels + ([] if bias is None else [bias])


def test_the_lstm_of_known_values_gives_them_in_keras(keras: Any) -> None:
    layer = layer_from_cell(toy_lstm(), name="toy")
    kernel, recurrent, bias = keras_layer_arrays(layer)
    np.testing.assert_allclose(kernel, [LSTM_INPUT], rtol=1e-7)
    np.testing.assert_allclose(recurrent, [LSTM_STATE], rtol=1e-7)
    np.testing.assert_allclose(bias, LSTM_BIAS, rtol=1e-7)
    outputs, _, memory = run_toy(layer)
    np.testing.assert_allclose(outputs, [0.1012433, -0.0481066], atol=1e-7)
    np.testing.assert_allclose(memory, [-0.1439551], atol=1e-7)


@pytest.mark.parametrize(
    ("blocks", "copies", "wrong"),
    [
        ((0, 2, 3, 1), 1, [0.119160, -0.078991]),  # i, f, c, o read as if it were i, o, f, c
        ((0, 2, 1, 3), 1, [0.0691671, -0.0355473]),  # i, c, f, o
        ((0, 1, 2, 3), 2, [0.1117733, -0.0429287]),  # the one bias put into both vectors
    ],
)
def test_mistakes_with_an_lstm_have_known_signatures(
    blocks: tuple[int, ...], copies: int, wrong: list[float], keras: Any
) -> None:
    take = list(blocks)
    weights = [np.array([LSTM_INPUT]), np.array([LSTM_STATE]), copies * np.array(LSTM_BIAS)]
    permuted = [weight[..., take] for weight in weights]
    outputs, *_ = run_toy(layer_of(keras, "LSTM", permuted))
    np.testing.assert_allclose(outputs, wrong, atol=2e-7)
    ours, *_ = run_toy(layer_from_cell(toy_lstm(), name="toy"))
    assert np.abs(ours - wrong).max() > 5e-3


@pytest.mark.parametrize(
    ("reset", "right"),
    [("after", [0.2303021, 0.0698170]), ("before", [0.2528377, 0.1446079])],
)
def test_the_gru_of_known_values_gives_them_in_keras(
    reset: str, right: list[float], keras: Any
) -> None:
    layer = layer_from_cell(toy_gru(reset), name="toy")
    assert layer.reset_after is (reset == "after")
    outputs, _ = run_toy(layer)
    np.testing.assert_allclose(outputs, right, atol=1e-7)
    back, _ = cell_from_layer(layer)
    assert isinstance(back, GRUCell)
    assert (back.reset, back.update) == (reset, "keep")
    with torch.no_grad():
        x_BTE = torch.tensor([INPUTS]).unsqueeze(2)
        again, _ = recur(back, x_BTE, None, None, plan=KernelPlan("reference"))
    np.testing.assert_allclose(values(again).reshape(-1), right, atol=1e-7)


def test_gates_of_a_gru_left_in_torch_order_have_a_known_signature(keras: Any) -> None:
    biases = np.array(GRU_BIASES)
    layer = layer_of(keras, "GRU", [np.array([GRU_INPUT]), np.array([GRU_STATE]), biases])
    outputs, _ = run_toy(layer)
    np.testing.assert_allclose(outputs, [0.2803001, 0.1051082], atol=1e-7)


def test_two_biases_of_a_gru_that_resets_after_are_never_summed(keras: Any) -> None:
    right = layer_weights(toy_gru("after"))
    summed = [*right[:2], np.stack([right[2].sum(0), np.zeros(3)])]
    outputs, _ = run_toy(layer_of(keras, "GRU", summed))
    assert np.abs(outputs - [0.2303021, 0.0698170]).max() > 5e-3


def test_a_forget_bias_is_what_is_written_and_nothing_is_added(keras: Any) -> None:
    layer = keras.layers.LSTM(2, unit_forget_bias=True)
    layer.build((None, None, 1))
    cell, _ = cell_from_layer(layer)
    assert cell.bias_ih is not None
    assert cell.bias_ih.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    np.testing.assert_array_equal(layer_weights(cell)[2], keras_layer_arrays(layer)[2])


@pytest.mark.parametrize("activation", ["tanh", "relu", "linear"])
def test_the_function_of_a_simple_layer_comes_along(activation: str, keras: Any) -> None:
    layer = keras.layers.SimpleRNN(2, activation=activation)
    layer.build((None, None, 3))
    cell, _ = cell_from_layer(layer)
    assert isinstance(cell, ElmanCell)
    assert cell.activation == {"linear": "identity"}.get(activation, activation)


def test_a_layer_that_goes_backwards_is_a_backward_reader(keras: Any) -> None:
    layer = keras.layers.GRU(2, go_backwards=True, reset_after=False)
    layer.build((None, None, 3))
    cell, direction = cell_from_layer(layer)
    assert (cell.key, direction) == ("gru/before/keep", "backward")


@pytest.mark.parametrize("name", REFUSED)
def test_what_keras_cannot_express_is_refused_with_the_nearest(name: str) -> None:
    with pytest.raises(ConversionError, match=r"Keras has no .*(train|gru and lstm)"):
        layer_weights(random_cell(name))


@pytest.mark.parametrize(
    ("reset", "shape", "says"),
    [
        ("after", (6,), 'reset="before"'),
        ("before", (2, 6), 'reset="after"'),
        ("after", (12,), "CuDNNGRU"),
        ("after", (5,), r"\[2, 6\]"),
    ],
)
def test_a_bias_of_the_other_convention_is_never_converted_silently(
    reset: Any, shape: tuple[int, ...], says: str
) -> None:
    weights = [np.zeros((3, 6), np.float32), np.zeros((2, 6), np.float32)]
    with pytest.raises(ConversionError, match=says):
        cell_from_weights("GRU", [*weights, np.zeros(shape, np.float32)], reset=reset)


def test_kernels_in_torch_layout_are_refused() -> None:
    weights = [np.zeros((8, 3), np.float32), np.zeros((8, 2), np.float32)]
    with pytest.raises(ConversionError, match="transposed"):
        cell_from_weights("LSTM", weights)
    with pytest.raises(ConversionError, match="4 arrays"):
        cell_from_weights("LSTM", weights * 2)


def test_layers_that_no_cell_computes_are_refused(keras: Any) -> None:
    cases = [
        (keras.layers.LSTM(2, recurrent_activation="hard_sigmoid"), "hard_sigmoid"),
        (keras.layers.GRU(2, activation="relu"), "got relu"),
        (keras.layers.SimpleRNN(2, activation="gelu"), "got gelu"),
        (keras.layers.Dense(2), "got Dense"),
    ]
    for layer, says in cases:
        layer.build((None, None, 3))
        with pytest.raises(ConversionError, match=says):
            cell_from_layer(layer)
    stateful = keras.layers.LSTM(2, stateful=True)
    stateful.build((1, None, 3))
    with pytest.raises(ConversionError, match="stateful=False"):
        cell_from_layer(stateful)
    with pytest.raises(ConversionError, match="build it first"):
        cell_from_layer(keras.layers.LSTM(2))


def test_weights_of_16_bits_are_refused() -> None:
    with pytest.raises(ConversionError, match="bfloat16"):
        layer_weights(LSTMCell(3, 4).bfloat16())


def test_keras_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    before = dict(os.environ)
    with pytest.raises(MissingPackageError, match=r"pip install .elman.keras"):
        keras_module()
    assert dict(os.environ) == before
