"""Files of ONNX that other programs wrote, or hands: read exactly, or refused by name."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elman.cells.cell import Cell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.checkpoints.foreign.onnx_model import stack_from_onnx
from elman.checkpoints.foreign.onnx_nodes import RecurrentNode, node_of_cells
from elman.checkpoints.foreign.onnx_reading import layers_from_onnx
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

PLAN = KernelPlan("reference")


def randomised(cell: Cell, seed: int = 3) -> Cell:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in cell.weights:
            weight.normal_(0.0, 0.4, generator=generator)
    return cell


class Hand:
    """A file written by hand: nodes, constants, inputs, outputs."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, reads: Sequence[str], writes: Sequence[str], **attributes: Any) -> None:
        self.nodes.append(
            onnx.helper.make_node(op, reads, writes, name=f"at_{writes[0]}", **attributes)
        )

    def value(self, name: str, axes: Sequence[Any], kind: str = "FLOAT") -> Any:
        return onnx.helper.make_tensor_value_info(name, getattr(onnx.TensorProto, kind), axes)

    def recurrent(
        self,
        node: RecurrentNode,
        read: str,
        write: str,
        weights: str = "WRB",
        others: Sequence[str] = (),
    ) -> None:
        """Add `node`; `others` are the names of sequence_lens, initial_h, initial_c."""
        stored = (self.constant(f"{name}{write}", node.weights[name]) for name in weights)
        reads = [read, *stored]
        if others:
            reads += [""] * (4 - len(reads)) + list(others)
        self.node(node.op_type, reads, [write, f"{write}_h"], **node.attributes)

    def save(self, path: Path) -> Path:
        graph = onnx.helper.make_graph(
            self.nodes, "hand", self.inputs, self.outputs, initializer=self.constants
        )
        opsets = [onnx.helper.make_opsetid("", 17)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, str(path))
        return path


def hand(output: str, axes: int = 4) -> Hand:
    made = Hand()
    made.inputs = [made.value("x", ["T", "B", 3])]
    made.outputs = [made.value(output, [None] * axes)]
    return made


def two_layers() -> tuple[list[Cell], list[Cell]]:
    below = [randomised(LSTMCell(3, 4), way) for way in (1, 2)]
    return below, [randomised(LSTMCell(8, 4), way) for way in (3, 4)]


def bits(cells: Sequence[Cell]) -> list[bytes]:
    return [weight.detach().numpy().tobytes() for cell in cells for weight in cell.weights]


def test_a_node_that_reads_in_reverse_is_one_backward_layer(tmp_path: Path) -> None:
    cell = randomised(LSTMCell(3, 4))
    made = hand("y")
    made.inputs.append(made.value("lens", ["B"], "INT32"))
    made.recurrent(node_of_cells([cell], "reverse"), "x", "y", others=["lens"])
    path = made.save(tmp_path / "reverse.onnx")
    (layer,) = layers_from_onnx(path)
    assert layer.directions == ("backward",)
    assert bits(layer.cells) == bits([cell])
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    x_BTE = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(1))
    lengths_B = torch.tensor([4, 1, 3])
    feeds = {"x": x_BTE.transpose(0, 1).contiguous().numpy(), "lens": lengths_B.int().numpy()}
    (y,) = session.run(["y"], feeds)
    with torch.no_grad():
        states_BTH, _ = recur(
            layer.cells[0], x_BTE, None, lengths_B, plan=PLAN, direction=layer.directions[0]
        )
    np.testing.assert_allclose(y[:, 0].transpose(1, 0, 2), states_BTH.numpy(), rtol=0, atol=1e-6)
    with pytest.raises(ConversionError, match=r"got backward; layers_from_onnx returns the cells"):
        stack_from_onnx(path)


def test_layers_joined_in_the_right_order_of_axes_are_read_bit_for_bit(tmp_path: Path) -> None:
    below, above = two_layers()
    made = hand("top")
    made.recurrent(node_of_cells(below, "bidirectional"), "x", "y")
    made.node("Transpose", ["y"], ["y_TBDH"], perm=[0, 2, 1, 3])
    made.node("Reshape", ["y_TBDH", made.constant("to", [0, 0, -1])], ["flat"])
    made.recurrent(node_of_cells(above, "bidirectional"), "flat", "top")
    stack = stack_from_onnx(made.save(tmp_path / "two.onnx"))
    assert stack.num_directions == 2
    assert bits([stack.cell(place) for place in range(4)]) == bits(below + above)


@pytest.mark.parametrize("perm", [[0, 1, 2, 3], [0, 2, 3, 1], [2, 0, 1, 3]])
def test_directions_mixed_up_between_two_layers_are_refused(
    tmp_path: Path, perm: list[int]
) -> None:
    below, above = two_layers()
    made = hand("top")
    made.recurrent(node_of_cells(below, "bidirectional"), "x", "y")
    made.node("Transpose", ["y"], ["moved"], perm=perm)
    shape = [0, -1, 8] if perm[0] == 0 else [0, 0, 8]
    made.node("Reshape", ["moved", made.constant("to", shape)], ["flat"])
    made.recurrent(node_of_cells(above, "bidirectional"), "flat", "top")
    with pytest.raises(ConversionError, match="got a rearrangement of y; allowed: all its values"):
        stack_from_onnx(made.save(tmp_path / "mixed.onnx"))


def test_a_missing_bias_is_zero_and_zero_states_may_be_computed(tmp_path: Path) -> None:
    cell = randomised(GRUCell(3, 4, reset="before"))
    made = hand("y")
    made.node("ConstantOfShape", [made.constant("size", [1, 2, 4])], ["zeros"])
    node = node_of_cells([cell], "forward")
    made.recurrent(node, "x", "y", weights="WR", others=["", "zeros"])
    stack = stack_from_onnx(made.save(tmp_path / "bare.onnx"))
    read = stack.cell(0)
    assert read.key == "gru/before/keep"
    assert bits([read])[:2] == bits([cell])[:2]
    assert not any(bias.any() for bias in (read.bias_ih, read.bias_hh) if bias is not None)


def test_a_state_that_is_not_zero_and_stored_lengths_are_refused(tmp_path: Path) -> None:
    node = node_of_cells([randomised(GRUCell(3, 4))], "forward")
    made = hand("y")
    made.recurrent(node, "x", "y", others=["", made.constant("h", np.ones((1, 2, 4), "f"))])
    with pytest.raises(ConversionError, match=r"initial_h of node at_y cannot be.*got h; allowed"):
        stack_from_onnx(made.save(tmp_path / "h.onnx"))
    made = hand("y")
    value = onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [1], [0.5])
    made.node("ConstantOfShape", [made.constant("size", [1, 2, 4])], ["halves"], value=value)
    made.recurrent(node, "x", "y", others=["", "halves"])
    with pytest.raises(ConversionError, match="initial_h of node at_y"):
        stack_from_onnx(made.save(tmp_path / "halves.onnx"))
    made = hand("y")
    lens = made.constant("lens", np.array([1, 2], np.int32))
    made.recurrent(node, "x", "y", others=[lens])
    with pytest.raises(ConversionError, match="sequence_lens of node at_y"):
        stack_from_onnx(made.save(tmp_path / "lens.onnx"))


def test_the_final_state_of_one_node_as_input_or_state_of_another_is_refused(
    tmp_path: Path,
) -> None:
    below = node_of_cells([randomised(GRUCell(3, 4))], "forward")
    above = node_of_cells([randomised(GRUCell(4, 4), 4)], "forward")
    made = hand("top")
    made.recurrent(below, "x", "y")
    made.recurrent(above, "y_h", "top")
    with pytest.raises(ConversionError, match="is not one layer above the other; got y_h"):
        stack_from_onnx(made.save(tmp_path / "final.onnx"))
    made = hand("top")
    made.recurrent(below, "x", "y")
    made.node("Squeeze", ["y", made.constant("axis", [1])], ["flat"])
    made.recurrent(above, "flat", "top", others=["", "y_h"])
    with pytest.raises(ConversionError, match="initial_h of node at_top"):
        stack_from_onnx(made.save(tmp_path / "handed.onnx"))


def test_two_nodes_side_by_side_are_no_stack(tmp_path: Path) -> None:
    made = hand("right")
    for name in ("left", "right"):
        made.recurrent(node_of_cells([randomised(GRUCell(3, 3))], "forward"), "x", name)
    with pytest.raises(ConversionError, match="is not one layer above the other; got x; allowed"):
        stack_from_onnx(made.save(tmp_path / "side.onnx"))


@pytest.mark.parametrize("op", ["Relu", "Softmax"])
def test_what_is_computed_beside_recurrence_is_refused_by_name(tmp_path: Path, op: str) -> None:
    made = hand("out")
    made.recurrent(node_of_cells([randomised(GRUCell(3, 4))], "forward"), "x", "y")
    made.node(op, ["y"], ["out"])
    with pytest.raises(ConversionError, match=f"got the operator {op} that writes out"):
        stack_from_onnx(made.save(tmp_path / "more.onnx"))


def test_an_input_turned_around_in_time_is_refused(tmp_path: Path) -> None:
    made = hand("y")
    ends = {"last": [-1], "before": [-9999], "axis": [0], "back": [-1]}
    names = [made.constant(name, value) for name, value in ends.items()]
    made.node("Slice", ["x", *names], ["turned"])
    made.recurrent(node_of_cells([randomised(GRUCell(3, 4))], "forward"), "turned", "y")
    with pytest.raises(ConversionError, match="got a rearrangement of x"):
        stack_from_onnx(made.save(tmp_path / "turned.onnx"))


def test_clipping_and_weights_from_outside_are_refused_by_name(tmp_path: Path) -> None:
    node = node_of_cells([randomised(GRUCell(3, 4))], "forward")
    made = hand("y")
    made.recurrent(RecurrentNode("GRU", {**node.attributes, "clip": 2.0}, node.weights), "x", "y")
    with pytest.raises(ConversionError, match="the clip of node at_y"):
        stack_from_onnx(made.save(tmp_path / "clip.onnx"))
    made = hand("y")
    made.recurrent(node, "x", "y")
    made.inputs.append(made.value("Ry", [1, 12, 4]))
    made.constants = [item for item in made.constants if item.name != "Ry"]
    with pytest.raises(ConversionError, match="R of node at_y must be stored in the file"):
        stack_from_onnx(made.save(tmp_path / "outside.onnx"))


def test_a_file_without_recurrence_is_refused(tmp_path: Path) -> None:
    made = hand("y", axes=3)
    made.node("Identity", ["x"], ["y"])
    with pytest.raises(ConversionError, match="has no recurrent node; allowed: RNN, GRU, LSTM"):
        stack_from_onnx(made.save(tmp_path / "none.onnx"))


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("sizes", ["fixed", "free"])
def test_what_torch_exports_is_read_bit_for_bit(
    tmp_path: Path, kind: str, both_ways: bool, sizes: str
) -> None:
    module = getattr(torch.nn, kind)(3, 4, num_layers=2, batch_first=True, bidirectional=both_ways)
    path = tmp_path / "torch.onnx"
    axes = {"x": {0: "batch", 1: "time"}} if sizes == "free" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own exporter of this form is deprecated
        torch.onnx.export(
            module,
            (torch.zeros(2, 5, 3),),
            str(path),
            dynamo=False,
            input_names=["x"],
            dynamic_axes=axes,
        )
    stack = stack_from_onnx(path)
    assert stack.num_directions == 1 + both_ways
    want = [weight.detach().numpy().tobytes() for weight in module.parameters()]
    assert bits([stack.cell(place) for place in range(len(stack.cells))]) == want
