"""One-unit cells of known numbers, read by hand from the layouts of torch, Keras and ONNX."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from elman.cells.cell import Cell
from elman.checkpoints.foreign.keras_file import import_keras
from elman.checkpoints.foreign.keras_layers import cell_from_weights, keras_module
from elman.checkpoints.foreign.keras_model import stack_from_keras
from elman.checkpoints.foreign.onnx_nodes import RecurrentNode, cells_of_node
from elman.checkpoints.foreign.torch_rebuild import stack_from_torch
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur

# Keras copies tensors of torch into arrays while it saves in a way that NumPy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

Numbers = Sequence[float]
SEVEN = 6e-8
"""Values are known to seven places."""
IFGO, IFCO, IOFC = (0, 1, 2, 3), (0, 1, 2, 3), (0, 3, 1, 2)
RZN, ZRH = (0, 1, 2), (1, 0, 2)
LSTM = (0.1, 0.2, 0.3, 0.4), (0.5, 0.6, 0.7, 0.8), (0.01, 0.02, 0.03, 0.04)
GRU = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), (0.1, 0.2, 0.3), (0.05, 0.15, 0.25)


@pytest.fixture(scope="module")
def keras() -> Any:
    if find_spec("keras") is None:
        pytest.skip("keras is not installed")
    return keras_module()


def rows(values: Numbers, order: Sequence[int]) -> npt.NDArray[np.float64]:
    return np.array([values[place] for place in order])


def outputs(cell: Cell) -> tuple[list[float], list[float]]:
    """h of both steps, and all parts of the final state, for the inputs 1 and -2."""
    x_BTE = torch.tensor([[[1.0], [-2.0]]], dtype=torch.float64)
    with torch.no_grad():
        states_BTH, state = recur(cell.double(), x_BTE, None, None, plan=KernelPlan("reference"))
    return states_BTH.flatten().tolist(), [part.item() for part in state]


def lstm_from(layout: str, order: Sequence[int], copies: int = 1) -> Cell:
    """The cell of a file in `layout` whose gates stand in `order`, of i, f, g, o."""
    w_ih, w_hh, bias = (rows(values, order) for values in LSTM)
    none = np.zeros(4) if copies == 1 else bias
    if layout == "keras":
        return cell_from_weights("LSTM", [w_ih[None], w_hh[None], copies * bias])
    if layout == "onnx":
        weights = {"W": w_ih[None, :, None], "R": w_hh[None, :, None]}
        weights["B"] = np.concatenate([bias, none])[None]
        (cell,) = cells_of_node(
            RecurrentNode("LSTM", {"hidden_size": 1, "direction": "forward"}, weights)
        )
        return cell
    module = nn.LSTM(1, 1, batch_first=True).double()
    with torch.no_grad():
        for parameter, values in zip(
            module.parameters(), (w_ih[:, None], w_hh[:, None], bias, none), strict=True
        ):
            parameter.copy_(torch.from_numpy(values))
    return stack_from_torch(module).cell(0)


@pytest.mark.parametrize(("layout", "order"), [("torch", IFGO), ("keras", IFCO), ("onnx", IOFC)])
def test_an_lstm_is_read_from_each_layout_with_the_known_values(  # case E05
    layout: str, order: tuple[int, ...]
) -> None:
    states, (_, memory) = outputs(lstm_from(layout, order))
    assert states == pytest.approx([0.1012433, -0.0481066], abs=SEVEN)
    assert memory == pytest.approx(-0.1439551, abs=SEVEN)
    states, _ = outputs(lstm_from(layout, order, copies=2))
    assert states == pytest.approx([0.1117733, -0.0429287], abs=SEVEN)  # one bias put in twice


def gru_from(layout: str, order: Sequence[int], reset: str) -> Cell:
    w_ih, w_hh, b_ih, b_hh = (rows(values, order) for values in GRU)
    if layout == "keras":
        bias = np.stack([b_ih, b_hh])
        return cell_from_weights("GRU", [w_ih[None], w_hh[None], bias], reset="after")
    if layout == "onnx":
        weights = {"W": w_ih[None, :, None], "R": w_hh[None, :, None]}
        weights["B"] = np.concatenate([b_ih, b_hh])[None]
        attributes = {"hidden_size": 1, "direction": "forward"}
        attributes |= {"linear_before_reset": 1} if reset == "after" else {}
        (cell,) = cells_of_node(RecurrentNode("GRU", attributes, weights))
        return cell
    module = nn.GRU(1, 1, batch_first=True).double()
    with torch.no_grad():
        for parameter, values in zip(
            module.parameters(), (w_ih[:, None], w_hh[:, None], b_ih, b_hh), strict=True
        ):
            parameter.copy_(torch.from_numpy(values))
    return stack_from_torch(module).cell(0)


@pytest.mark.parametrize(
    ("layout", "order", "reset", "known"),
    [
        ("torch", RZN, "after", [0.2303021, 0.0698170]),
        ("keras", ZRH, "after", [0.2303021, 0.0698170]),
        ("onnx", ZRH, "after", [0.2303021, 0.0698170]),
        ("onnx", ZRH, "before", [0.2528377, 0.1446079]),
        ("onnx", RZN, "after", [0.2803001, 0.1051082]),  # what r and z exchanged would give
    ],
)
def test_a_gru_is_read_from_each_layout_with_the_known_values(  # case E06
    layout: str, order: tuple[int, ...], reset: str, known: list[float]
) -> None:
    states, _ = outputs(gru_from(layout, order, reset))
    assert states == pytest.approx(known, abs=SEVEN)


def test_a_gru_that_resets_before_has_one_bias_and_keeps_its_convention() -> None:  # case E06
    w_ih, w_hh, b_ih, b_hh = (rows(values, ZRH) for values in GRU)
    weights = [w_ih[None], w_hh[None], b_ih + b_hh]
    states, _ = outputs(cell_from_weights("GRU", weights, reset="before"))
    assert states == pytest.approx([0.2528377, 0.1446079], abs=SEVEN)
    with pytest.raises(ConversionError, match='reset="before"'):
        cell_from_weights("GRU", weights, reset="after")


@pytest.mark.parametrize("reset_after", [False, True])
def test_wrapped_layers_keep_the_reset_of_those_within(  # case E06
    keras: Any, tmp_path: Path, reset_after: bool
) -> None:
    layers, reset = keras.layers, "after" if reset_after else "before"

    def gru() -> Any:
        return layers.GRU(3, reset_after=reset_after, return_sequences=True)

    both = layers.Bidirectional(gru())
    both.build((None, None, 2))
    stack = stack_from_keras([both])
    keys = [f"gru/{reset}/keep"] * 2
    assert [stack.cell(0).key, stack.cell(1).key] == keys
    path = tmp_path / "model.keras"
    chain = [layers.Embedding(7, 4), gru(), layers.TimeDistributed(layers.Dense(7))]
    keras.Sequential([keras.Input((None,)), *chain]).save(path)
    found = import_keras(path)
    assert (found.settings.kind, found.settings.reset) == ("gru", reset)
    assert found.proof.largest < 1e-5


@pytest.mark.parametrize("wrapper", ["nested", "Bidirectional"])
def test_layers_that_no_language_model_has_are_refused_by_name(  # case E06
    keras: Any, tmp_path: Path, wrapper: str
) -> None:
    layers = keras.layers
    within = layers.GRU(3, reset_after=False, return_sequences=True)
    if wrapper == "nested":
        within = keras.Sequential([keras.Input((None, 4)), within], name="inner")
    else:
        within = layers.Bidirectional(within)
    path = tmp_path / "model.keras"
    ids = keras.Input((None,))
    keras.Sequential([ids, layers.Embedding(7, 4), within, layers.Dense(7)]).save(path)
    with pytest.raises(ConversionError, match=r"Sequential|Bidirectional|inner"):
        import_keras(path)
