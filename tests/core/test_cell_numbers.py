"""Single steps whose numbers can be checked by hand, and two published one-unit examples."""

import math

import pytest
import torch
from torch import Tensor

from elman.cells.cell import Cell, cell_parameter_count
from elman.cells.elman import ElmanCell, ElmanState
from elman.cells.gru import GRUCell, GRUState
from elman.cells.lstm import LSTMCell, LSTMState
from elman.cells.registry import CELLS, build_cell
from elman.config.model_settings import ModelSettings
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.readout import Readout
from elman.layers.recurrence import recur

SIX_PLACES = 5.1e-7
"""Half a unit in the last of the places printed beside it, and float64 behind it."""


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def filled(cell: Cell, ih, hh, b_ih, b_hh) -> Cell:
    cell = cell.double()
    with torch.no_grad():
        for weight, values in zip(cell.weights, (ih, hh, b_ih, b_hh), strict=True):
            weight.copy_(torch.tensor(values, dtype=torch.float64).view_as(weight))
    return cell


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def test_identity_cell_adds_two_products() -> None:
    cell = filled(ElmanCell(1, 1, activation="identity"), [2], [0.5], [0], [0])
    assert cell.step(row(3), ElmanState(row(4))).h_BH.item() == 8  # 2·3 + 0.5·4


def test_identity_readout_hands_the_state_on() -> None:
    readout = Readout(2, 2)
    with torch.no_grad():
        readout.weight.copy_(torch.eye(2))
    assert readout.logits(torch.tensor([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("activation", "want"), [("tanh", 0.9950548), ("identity", 3), ("relu", 3)]
)
def test_unit_weights_on_input_two_and_state_one(activation, want) -> None:
    cell = filled(ElmanCell(1, 1, activation=activation), [1], [1], [0], [0])
    state = ElmanState(row(1))
    assert cell.gates(row(2), state)["preactivation"].item() == 3
    assert abs(cell.step(row(2), state).h_BH.item() - want) < 5e-8


def test_lstm_keeps_four_tenths_and_adds_twelve_hundredths() -> None:
    biases = [logit(0.3), logit(0.8), math.atanh(0.4), logit(0.6)]
    cell = filled(LSTMCell(1, 1), [0] * 4, [0] * 4, biases, [0] * 4)
    state = cell.step(row(0), LSTMState(row(0), row(0.5)))
    assert abs(state.c_BH.item() - 0.52) < 1e-12  # .8·.5 + .3·.4
    assert abs(state.h_BH.item() - 0.286620) < SIX_PLACES  # .6·tanh .52


def test_lstm_with_zero_gate_weights_is_half_open() -> None:
    assert abs(math.atanh(0.38) - 0.400060) < SIX_PLACES  # ½·log(1.38 / .62)
    cell = filled(LSTMCell(1, 1), [0] * 4, [0] * 4, [0, 0, math.atanh(0.38), 0], [0] * 4)
    gates = cell.gates(row(1), LSTMState(row(0), row(0)))
    assert gates["input"].item() == gates["forget"].item() == gates["output"].item() == 0.5
    assert abs(gates["candidate"].item() - 0.38) < 1e-12
    state = cell.step(row(1), LSTMState(row(0), row(0)))
    assert abs(state.c_BH.item() - 0.19) < 1e-12
    assert abs(state.h_BH.item() - 0.093873) < SIX_PLACES  # .5·tanh .19


def test_two_unit_step_and_what_a_readout_makes_of_it() -> None:
    cell = filled(ElmanCell(2, 2), [1, 0, 0, 1], [0.2, 0, 0, 0.2], [0, 0], [0, 0])
    state = ElmanState(row(0.5, -0.5))
    a_BH = cell.gates(row(1, 0), state)["preactivation"]
    assert torch.allclose(a_BH, row(1.1, -0.1), rtol=0, atol=1e-15)
    h_BH = cell.step(row(1, 0), state).h_BH
    assert torch.allclose(h_BH, row(0.800499, -0.099668), rtol=0, atol=SIX_PLACES)
    probs = h_BH.softmax(dim=1)
    assert torch.allclose(probs, row(0.710984, 0.289016), rtol=0, atol=SIX_PLACES)
    assert abs(-math.log(probs[0, 1].item()) - 1.2413) < 5e-5


def test_split_weights_equal_one_matrix_on_the_concatenation() -> None:
    generator = torch.Generator().manual_seed(1)
    cell = ElmanCell(3, 4).double()
    cell.initialise(generator)
    x_BE = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    h_BH = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    joined = torch.cat([cell.weight_ih, cell.weight_hh], dim=1)
    want = torch.cat([x_BE, h_BH], dim=1) @ joined.t() + cell.bias_ih + cell.bias_hh
    got = cell.gates(x_BE, ElmanState(h_BH))["preactivation"]
    assert torch.allclose(got, want, rtol=0, atol=1e-14)


@pytest.mark.parametrize("path", ["reference", "torch"])
def test_published_one_unit_lstm(path: str) -> None:
    cell = filled(
        LSTMCell(1, 1),
        [0.1, 0.2, 0.3, 0.4],
        [0.5, 0.6, 0.7, 0.8],
        [0.01, 0.02, 0.03, 0.04],
        [0] * 4,
    )
    x_BTE = torch.tensor([[[1.0], [-2.0]]], dtype=torch.float64)
    states_BTH, state = recur(cell, x_BTE, None, None, plan=KernelPlan(path))
    seven_places = 5.1e-8
    assert torch.allclose(
        states_BTH.flatten(), row(0.1012433, -0.0481066), rtol=0, atol=seven_places
    )
    assert abs(state[1].item() + 0.1439551) < seven_places


@pytest.mark.parametrize(
    ("reset", "path", "want"),
    [
        ("after", "reference", (0.2303021, 0.0698170)),
        ("after", "torch", (0.2303021, 0.0698170)),
        ("before", "reference", (0.2528377, 0.1446079)),
    ],
)
def test_published_one_unit_gru_tells_reset_before_from_after(reset, path, want) -> None:
    cell = filled(
        GRUCell(1, 1, reset=reset),
        [0.1, 0.2, 0.3],
        [0.4, 0.5, 0.6],
        [0.1, 0.2, 0.3],
        [0.05, 0.15, 0.25],
    )
    x_BTE = torch.tensor([[[1.0], [-2.0]]], dtype=torch.float64)
    states_BTH, _ = recur(cell, x_BTE, None, None, plan=KernelPlan(path))
    assert torch.allclose(states_BTH.flatten(), row(*want), rtol=0, atol=5.1e-8)


def test_update_gate_points_the_way_it_says() -> None:
    for update, want in (("keep", 0.7), ("replace", 0.0)):
        cell = filled(GRUCell(1, 1, update=update), [0] * 3, [0] * 3, [0, 40, 0], [0] * 3)  # z = 1
        assert abs(cell.step(row(5), GRUState(row(0.7))).h_BH.item() - want) < 1e-12


@pytest.mark.parametrize(("weight", "want"), [(0.5, 0.0009765625), (1.5, 57.6650390625)])
def test_ten_linear_steps_multiply_the_gradient_ten_times(weight: float, want: float) -> None:
    cell = filled(ElmanCell(1, 1, activation="identity"), [0], [weight], [0], [0])
    first_BH = row(1).requires_grad_()
    x_BTE = torch.zeros(1, 10, 1, dtype=torch.float64)
    _, (h_BH,) = recur(cell, x_BTE, ElmanState(first_BH), None, plan=KernelPlan())
    assert torch.autograd.grad(h_BH, first_BH)[0].item() == want


def test_one_tanh_step_multiplies_the_gradient_by_its_slope_and_weight() -> None:
    cell = filled(ElmanCell(1, 1), [0.3], [0.7], [0.1], [0.2])
    first_BH = row(0.4).requires_grad_()
    h_BH = cell.step(row(1), ElmanState(first_BH)).h_BH
    (got,) = torch.autograd.grad(h_BH, first_BH)
    assert abs(got.item() - (1 - h_BH.item() ** 2) * 0.7) < 1e-15


def test_memory_cell_passes_gradient_through_the_forget_gate() -> None:
    cell = LSTMCell(2, 3).double()
    cell.initialise(torch.Generator().manual_seed(2))
    c_BH = row(0.1, -0.2, 0.3).requires_grad_()
    state = LSTMState(row(0.5, 0.1, -0.4), c_BH)
    (got,) = torch.autograd.grad(cell.step(row(1, 2), state).c_BH.sum(), c_BH)
    assert torch.equal(got, cell.gates(row(1, 2), state)["forget"])


@pytest.mark.parametrize(
    ("kind", "gates", "want"), [("elman", 1, 1600), ("gru", 3, 4800), ("lstm", 4, 6400)]
)
def test_parameters_of_input_16_and_hidden_32(kind, gates, want) -> None:
    cell = build_cell(ModelSettings(kind=kind, hidden_size=32), 16)
    assert sum(weight.numel() for weight in cell.parameters()) == want == cell.parameter_count()
    assert cell_parameter_count(gates, 16, 32) == want
    assert cell.num_gates == gates


@pytest.mark.parametrize("key", CELLS)
def test_registry_key_is_the_key_of_the_cell_and_gates_have_their_names(key: str) -> None:
    cell = CELLS[key](2, 3)
    assert cell.key == key.split(",")[0]
    gates = cell.gates(torch.ones(1, 2), cell.zero_state(1))
    assert tuple(gates) == cell.gate_names
    assert all(value.shape == (1, 3) for value in gates.values())


@pytest.mark.parametrize("forget_bias", [0.0, 1.0, -2.5])
def test_forget_bias_is_the_sum_over_both_vectors(forget_bias: float) -> None:
    cell = LSTMCell(2, 3, forget_bias=forget_bias)
    cell.initialise(torch.Generator().manual_seed(3))
    assert (cell.bias_ih + cell.bias_hh)[3:6].tolist() == [forget_bias] * 3
    others = torch.cat([cell.bias_ih[:3], cell.bias_ih[6:], cell.bias_hh[:3], cell.bias_hh[6:]])
    assert others.abs().max() <= 1 / math.sqrt(3)
    assert others.abs().min() > 0


def test_settings_reach_the_cell() -> None:
    settings = ModelSettings(kind="gru", reset="before", update="replace", hidden_size=5)
    assert build_cell(settings, 4).key == "gru/before/replace"
    assert build_cell(ModelSettings(kind="elman", activation="relu"), 4).key == "elman/relu"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GRUCell(3, 0), "hidden_size of GRUCell must be an int >= 1; got 0"),
        (lambda: LSTMCell(-1, 3), "input_size of LSTMCell must be an int >= 1; got -1"),
        (lambda: ElmanCell(2, 2.0), "hidden_size of ElmanCell must be an int >= 1; got 2.0"),
        (lambda: ElmanCell(2, 2, activation="sin"), "allowed: tanh, relu, identity"),
        (lambda: GRUCell(2, 2, reset="never"), "allowed: before, after"),
        (lambda: GRUCell(2, 2, update="swap"), "allowed: keep, replace"),
    ],
)
def test_impossible_cells_are_refused_in_one_line(build, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        build()
