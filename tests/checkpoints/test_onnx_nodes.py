"""One layer's cells and one node of ONNX hold the same numbers, in both directions."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.mgu import MGUCell
from elman.cells.registry import CELLS
from elman.checkpoints.foreign.onnx_nodes import (
    RecurrentNode,
    cells_of_node,
    node_of_cells,
    plain_cell,
    restored_cell,
)
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

PLAN = KernelPlan("reference")
SAME = ("elman/tanh", "elman/relu", "elman/identity", "gru/after/keep", "gru/before/keep", "lstm")
SAME += ("lstm+peepholes",)
REFUSED = [
    name for name in CELLS if "layer_norm" in name or "projection" in name or name.startswith("min")
]


def randomised(cell: Cell, seed: int = 5) -> Cell:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in cell.weights:
            weight.normal_(0.0, 0.5, generator=generator)
    return cell


def run_node(node: RecurrentNode, feeds: dict[str, Any]) -> list[np.ndarray]:
    """Every output of `node`, alone in a graph; feeds are X and any of sequence_lens, initial_*."""
    order = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
    given = {**node.weights, **feeds}
    last = max(order.index(name) for name in given)
    outputs = ["Y", "Y_h", "Y_c"][: 3 if node.op_type == "LSTM" else 2]
    helper = onnx.helper
    made = helper.make_node(
        node.op_type,
        [name if name in given else "" for name in order[: last + 1]],
        outputs,
        **node.attributes,
    )
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in given.items()}
    graph = helper.make_graph(
        [made],
        "one",
        [helper.make_tensor_value_info(name, kinds[name], given[name].shape) for name in given],
        [helper.make_tensor_value_info(name, kinds["X"], None) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, given)


def step_by_step(op: str, one: dict[str, np.ndarray], x: list[float]) -> list[np.ndarray]:
    """The node of one unit on the numbers x."""
    attributes = {"hidden_size": 1, "direction": "forward"}
    attributes |= {"linear_before_reset": int(one.pop("after").item())} if "after" in one else {}
    return run_node(
        RecurrentNode(op, attributes, one), {"X": np.array(x, np.float32).reshape(-1, 1, 1)}
    )


def column(values: list[float]) -> torch.Tensor:
    return torch.tensor(values).reshape(-1, 1)


def toy_lstm() -> LSTMCell:
    cell = LSTMCell(1, 1, bias="one")
    weights = {"weight_ih": [0.1, 0.2, 0.3, 0.4], "weight_hh": [0.5, 0.6, 0.7, 0.8]}
    with torch.no_grad():
        for name, values in weights.items():
            cell.get_parameter(name).copy_(column(values))
        assert cell.bias_ih is not None
        cell.bias_ih.copy_(torch.tensor([0.01, 0.02, 0.03, 0.04]))
    return cell


def toy_gru(reset: str) -> GRUCell:
    cell = GRUCell(1, 1, reset=reset)  # type: ignore[arg-type]
    with torch.no_grad():
        cell.weight_ih.copy_(column([0.1, 0.2, 0.3]))
        cell.weight_hh.copy_(column([0.4, 0.5, 0.6]))
        assert cell.bias_ih is not None
        assert cell.bias_hh is not None
        cell.bias_ih.copy_(torch.tensor([0.1, 0.2, 0.3]))
        cell.bias_hh.copy_(torch.tensor([0.05, 0.15, 0.25]))
    return cell


def toy_outputs(node: RecurrentNode) -> list[np.ndarray]:
    return run_node(node, {"X": np.array([1.0, -2.0], np.float32).reshape(2, 1, 1)})


def test_an_lstm_of_one_unit_gives_the_known_values_and_not_those_of_permuted_gates() -> None:
    node = node_of_cells([toy_lstm()], "forward")
    assert node.weights["W"].ravel().tolist() == pytest.approx([0.1, 0.4, 0.2, 0.3])  # i, o, f, c
    assert node.weights["B"].ravel()[4:].tolist() == [0.0, 0.0, 0.0, 0.0]
    y, _, c = toy_outputs(node)
    # Of seven digits given, the last is rounded.
    np.testing.assert_allclose(y.ravel(), [0.1012433, -0.0481066], rtol=0, atol=1e-6)
    np.testing.assert_allclose(c.ravel(), [-0.1439551], rtol=0, atol=1e-6)
    doubled = np.concatenate([node.weights["B"][:, :4]] * 2, axis=1)
    wrong = RecurrentNode("LSTM", node.attributes, {**node.weights, "B": doubled})
    np.testing.assert_allclose(toy_outputs(wrong)[0].ravel(), [0.1117733, -0.0429287], atol=1e-6)
    torch_order = dict(node.weights)
    for name in ("W", "R"):
        torch_order[name] = node.weights[name][:, [0, 2, 3, 1]]
    torch_order["B"] = node.weights["B"][:, [0, 2, 3, 1, 4, 6, 7, 5]]
    wrong = RecurrentNode("LSTM", node.attributes, torch_order)
    np.testing.assert_allclose(toy_outputs(wrong)[0].ravel(), [0.119160, -0.078991], atol=1e-6)


@pytest.mark.parametrize(
    ("reset", "known"), [("after", [0.2303021, 0.0698170]), ("before", [0.2528377, 0.1446079])]
)
def test_a_gru_of_one_unit_gives_the_known_values_of_either_reset(
    reset: str, known: list[float]
) -> None:
    node = node_of_cells([toy_gru(reset)], "forward")
    assert node.attributes["linear_before_reset"] == int(reset == "after")
    assert node.weights["W"].ravel().tolist() == pytest.approx([0.2, 0.1, 0.3])  # z, r, h
    y, y_h = toy_outputs(node)
    np.testing.assert_allclose(y.ravel(), known, rtol=0, atol=1e-6)
    np.testing.assert_allclose(y_h.ravel(), known[1:], rtol=0, atol=1e-6)


def test_the_known_values_of_a_gru_with_r_and_z_exchanged_are_those_of_torchs_order() -> None:
    node = node_of_cells([toy_gru("after")], "forward")
    swapped = {
        "W": node.weights["W"][:, [1, 0, 2]],
        "R": node.weights["R"][:, [1, 0, 2]],
        "B": node.weights["B"][:, [1, 0, 2, 4, 3, 5]],
    }
    wrong = RecurrentNode("GRU", node.attributes, swapped)
    np.testing.assert_allclose(toy_outputs(wrong)[0].ravel(), [0.2803001, 0.1051082], atol=1e-6)


@pytest.mark.parametrize("name", [name for name in CELLS if name not in REFUSED])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_node_reads_ragged_rows_as_its_cells_do(name: str, direction: Any) -> None:
    seed = 11
    ways = {"forward": ["forward"], "reverse": ["backward"]}.get(direction, ["forward", "backward"])
    cells = [randomised(CELLS[name](3, 4), seed + way) for way in range(len(ways))]
    node = node_of_cells(cells, direction)
    generator = torch.Generator().manual_seed(seed)
    x_BTE = torch.randn(3, 5, 3, generator=generator)
    lengths_B = torch.tensor([5, 2, 3])
    states = [
        cell.pack_state([torch.randn(3, size, generator=generator) for size in cell.state_sizes])
        for cell in cells
    ]
    feeds = {
        "X": x_BTE.transpose(0, 1).contiguous().numpy(),
        "sequence_lens": lengths_B.int().numpy(),
    }
    for place, part in enumerate(cells[0].state_names):
        feeds[f"initial_{part}"] = torch.stack([state[place] for state in states]).numpy()
    y, *finals = run_node(node, feeds)
    with torch.no_grad():
        for way, (cell, state) in enumerate(zip(cells, states, strict=True)):
            want_BTH, after = recur(
                cell,
                x_BTE,
                state,
                lengths_B,
                plan=PLAN,
                direction=ways[way],  # type: ignore[arg-type]
            )
            got = torch.tensor(y[:, way]).transpose(0, 1)
            # Five steps of float32 in another order of summing; onnxruntime approximates σ, tanh.
            torch.testing.assert_close(got, want_BTH, rtol=1e-5, atol=1e-5, msg=f"seed {seed}")
            for final, part in zip(finals, after, strict=True):
                torch.testing.assert_close(torch.tensor(final[way]), part, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "ways"), [*product(SAME, [1, 2])])
def test_cells_come_back_bit_for_bit(name: str, ways: int) -> None:
    cells = [randomised(CELLS[name](3, 4), way) for way in range(ways)]
    back = cells_of_node(node_of_cells(cells, "forward" if ways == 1 else "bidirectional"))
    for cell, twin in zip(cells, back, strict=True):
        assert twin.key == cell.key
        for (name, want), (other, got) in zip(
            cell.named_parameters(), twin.named_parameters(), strict=True
        ):
            assert name == other
            assert got.detach().numpy().tobytes() == want.detach().numpy().tobytes()


@pytest.mark.parametrize("name", [name for name in CELLS if name not in REFUSED])
def test_what_was_rewritten_for_onnx_is_turned_back_exactly(name: str) -> None:
    cell = randomised(CELLS[name](3, 4))
    back = restored_cell(CELLS[name](3, 4), plain_cell(cell))
    assert back.key == cell.key
    for want, got in zip(cell.weights, back.weights, strict=True):
        assert torch.equal(got, want)


def test_two_directions_may_have_different_functions_of_their_elman_cells() -> None:
    cells = [ElmanCell(2, 3, activation="identity"), ElmanCell(2, 3, activation="relu")]
    back = cells_of_node(node_of_cells([randomised(cell) for cell in cells], "bidirectional"))
    assert [cell.key for cell in back] == ["elman/identity", "elman/relu"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_cell_that_onnx_has_not_is_refused_with_the_nearest_that_it_has(name: str) -> None:
    with pytest.raises(ConversionError, match="the nearest that ONNX has"):
        node_of_cells([CELLS[name](3, 4)], "forward")


def test_unlike_cells_are_no_pair_and_weights_of_float64_are_refused() -> None:
    with pytest.raises(ConversionError, match=r"of one kind and width.*got gru.*lstm of 4"):
        node_of_cells([GRUCell(3, 4), LSTMCell(3, 4)], "bidirectional")
    with pytest.raises(ConversionError, match="gru/before/keep of 4"):
        node_of_cells([GRUCell(3, 4), GRUCell(3, 4, reset="before")], "bidirectional")
    with pytest.raises(ConversionError, match=r"float32.*got float64.*\.float\(\)"):
        node_of_cells([MGUCell(3, 4).double()], "forward")


def test_a_coupled_node_is_read_as_onnxruntime_runs_it() -> None:
    """onnxruntime keeps the input gate, f = 1 − i, whatever the rows of f hold."""
    cell = randomised(LSTMCell(3, 4, options=LSTMOptions(peepholes=True)))
    node = node_of_cells([cell], "forward")
    node = RecurrentNode("LSTM", {**node.attributes, "input_forget": 1}, node.weights)
    (read,) = cells_of_node(node)
    assert read.key == "lstm+peepholes+coupled"
    x_BTE = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    y, y_h, y_c = run_node(node, {"X": x_BTE.transpose(0, 1).contiguous().numpy()})
    with torch.no_grad():
        want_BTH, (h_BH, c_BH) = recur(read, x_BTE, None, None, plan=PLAN)
    torch.testing.assert_close(torch.tensor(y[:, 0]).transpose(0, 1), want_BTH, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.tensor(y_h[0]), h_BH, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.tensor(y_c[0]), c_BH, rtol=0, atol=1e-5)


def test_a_missing_bias_is_zero_and_a_missing_list_of_functions_the_usual_one() -> None:
    node = node_of_cells([randomised(GRUCell(2, 3))], "forward")
    bare = RecurrentNode("GRU", {}, {name: node.weights[name] for name in "WR"})
    (cell,) = cells_of_node(bare)
    assert cell.key == "gru/before/keep"  # linear_before_reset is 0 unless given
    for bias in (cell.bias_ih, cell.bias_hh):
        assert bias is not None
        assert not bias.any()


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"clip": 3.0}, "clip"),
        ({"layout": 1}, "layout"),
        ({"output_sequence": 1}, "output_sequence"),
        ({"hidden_size": 9}, "hidden_size"),
        ({"direction": "sideways"}, "direction"),
        ({"activations": ["HardSigmoid", "Tanh", "Tanh"]}, "activations"),
        ({"activations": ["Sigmoid", "Tanh"]}, "activations"),
        ({"activation_alpha": [0.2]}, "activation_alpha"),
        ({"input_forget": 2}, "input_forget"),
        ({"linear_before_reset": 1}, "linear_before_reset"),
    ],
)
def test_an_attribute_that_no_cell_has_is_refused_by_name(
    attributes: dict[str, Any], told: str
) -> None:
    node = node_of_cells([randomised(LSTMCell(2, 3))], "forward")
    odd = RecurrentNode("LSTM", {**node.attributes, **attributes}, node.weights, "node upper")
    with pytest.raises(ConversionError, match=f"the {told} of node upper"):
        cells_of_node(odd)


def test_an_affine_function_other_than_the_identity_is_refused() -> None:
    node = node_of_cells([randomised(ElmanCell(2, 3, activation="identity"))], "forward")
    for change in ({"activation_alpha": [2.0]}, {"activation_beta": []}):
        odd = RecurrentNode("RNN", {**node.attributes, **change}, node.weights)
        with pytest.raises(ConversionError, match="for each Affine"):
            cells_of_node(odd)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("W", np.zeros((1, 12, 2), np.float16)),
        ("W", np.zeros((1, 11, 2), np.float32)),
        ("R", np.zeros((12, 3), np.float32)),
        ("B", np.zeros((1, 12), np.float32)),
        ("P", np.zeros((2, 9), np.float32)),
    ],
)
def test_weights_of_another_shape_or_type_are_refused_by_name(name: str, value: Any) -> None:
    node = node_of_cells([randomised(LSTMCell(2, 3))], "forward")
    odd = RecurrentNode("LSTM", node.attributes, {**node.weights, name: value})
    with pytest.raises(ConversionError, match=f"{name}|type"):
        cells_of_node(odd)
