"""Stacks and language models as graphs of ONNX: nodes, names, axes, what the file says of itself.

Inputs and outputs are batch first, as everywhere here; within, time comes first, as ONNX's nodes
want it (layout 0; onnxruntime has no other), between a Transpose at the one end and one at the
other. Every graph has

    sequence_lens [B] int32     steps of each row, from 0 to T; those beyond change nothing
    initial_h_L, initial_c_L    [D, B, H] float32: the state before, of each layer L (c: LSTM alone)
    final_h_L, final_c_L        [D, B, H]: the state after, to be given back as the next initial one
    x [B, T, E] → states [B, T, D·H], or ids [B, T] int64 → logits [B, T, V]

B ≥ 1 and T are free. onnxruntime forgets the state of a row of no steps, so that a Where keeps it.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from elman.cells.cell import Cell
from elman.checkpoints.foreign.onnx_nodes import (
    Array,
    NodeDirection,
    node_of_cells,
)
from elman.checkpoints.foreign.plain_readout import full_readout
from elman.errors import ConversionError, MissingPackageError
from elman.layers.class_split import ClassSplit, ClassSplitReadout
from elman.layers.stack import RecurrentStack
from elman.layers.tied_classes import TiedClassSplitReadout
from elman.models.recurrent import RecurrentLanguageModel

OPSET = 17
"""17 is the first with LayerNormalization; for float32 nothing used here has changed since."""
_IR_VERSION = 8
METADATA_KEY = "elman"
MOST_BYTES = 2**31 - 2**20
"""A file of ONNX is one message of less than 2 GiB; the last MiB is left to the graph."""


def onnx_package(name: Literal["onnx", "onnxruntime"]) -> Any:
    """Return the package; raises `MissingPackageError` with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(
            f"the package {name} is needed to convert from and to ONNX",
            hint="install it with: pip install 'elman[onnx]'",
        ) from None


def graph_of_stack(stack: RecurrentStack) -> Any:
    """Return the `GraphProto` x, sequence_lens, states before → states, states after.

    Raises `ConversionError` for cells that ONNX has not (`node_of_cells`), for zoneout, whose
    expectation acts in every use of a model, and for weights of 2 GiB or more.
    """
    graph = _Graph()
    graph.input("x", "FLOAT", ["batch", "time", stack.input_size])
    graph.input("sequence_lens", "INT32", ["batch"])
    graph.node("Transpose", ["x"], "x_TBE", {"perm": [1, 0, 2]})
    written = _write_stack(graph, stack, "x_TBE")
    graph.node("Transpose", [written], "states", {"perm": [1, 0, 2]})
    graph.output("states", ["batch", "time", stack.output_size])
    return graph.proto("elman_stack")


def graph_of_language_model(model: RecurrentLanguageModel) -> Any:
    """Return the `GraphProto` ids, sequence_lens, states before → logits, states after.

    A tied matrix is stored once, as `embedding.weight`. A readout split into classes gives log p as
    its logits. An id of V or more is an error in
    onnxruntime where there is an embedding; negative ids count from the end there and must not be
    given. Raises as `graph_of_stack`.
    """
    graph = _Graph()
    graph.input("ids", "INT64", ["batch", "time"])
    graph.input("sequence_lens", "INT32", ["batch"])
    graph.node("Transpose", ["ids"], "ids_TB", {"perm": [1, 0]})
    if model.embedding is None:
        graph.constant("vocabulary_size", np.array(model.vocabulary_size, np.int64))
        graph.constant("off_on", np.array([0.0, 1.0], np.float32))
        graph.node("OneHot", ["ids_TB", "vocabulary_size", "off_on"], "x_TBE", {"axis": -1})
    else:
        graph.weight("embedding.weight", model.embedding.weight)
        graph.node("Gather", ["embedding.weight", "ids_TB"], "x_TBE", {"axis": 0})
    written = _write_stack(graph, model.stack, "x_TBE")
    graph.node("Transpose", [written], "states_BTH", {"perm": [1, 0, 2]})
    if isinstance(model.readout, ClassSplitReadout):
        _write_class_split(graph, model.readout)
    elif isinstance(model.readout, TiedClassSplitReadout):
        _write_tied_classes(graph, model.readout)
    else:
        _write_plain_readout(graph, model)
    graph.output("logits", ["batch", "time", model.vocabulary_size])
    return graph.proto("elman_language_model")


def model_of_graph(graph: Any, metadata: str) -> Any:
    """Return the valid `ModelProto` of `graph` with `metadata` under the key `elman`."""
    onnx = onnx_package("onnx")
    model = onnx.helper.make_model(
        graph,
        producer_name="elman",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
    )
    onnx.helper.set_model_props(model, {METADATA_KEY: metadata})
    onnx.checker.check_model(model, full_check=True)
    return model


def names_of_states(stack: RecurrentStack) -> list[list[str]]:
    """Return, for each layer, the names of its state's parts without `initial_` and `final_`."""
    return [
        [f"{part}_{layer}" for part in stack.cell(layer * stack.num_directions).state_names]
        for layer in range(stack.num_layers)
    ]


class _Graph:
    """A graph in the making: everything in the order in which it was added."""

    def __init__(self) -> None:
        self._onnx = onnx_package("onnx")
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._num_bytes = 0

    def input(self, name: str, kind: str, axes: Sequence[str | int]) -> None:
        self._inputs.append(self._value(name, kind, axes))

    def output(self, name: str, axes: Sequence[str | int]) -> None:
        self._outputs.append(self._value(name, "FLOAT", axes))

    def node(
        self,
        op_type: str,
        reads: Sequence[str],
        writes: str | Sequence[str],
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        names = [writes] if isinstance(writes, str) else list(writes)
        node = self._onnx.helper.make_node(op_type, list(reads), names, name=f"make_{names[0]}")
        for name, value in (attributes or {}).items():
            node.attribute.append(self._onnx.helper.make_attribute(name, value))
        self._nodes.append(node)

    def constant(self, name: str, value: Array) -> None:
        if name not in self._constants:
            self._num_bytes += value.nbytes
            self._constants[name] = self._onnx.numpy_helper.from_array(
                np.ascontiguousarray(value), name
            )

    def weight(self, name: str, weight: Tensor) -> None:
        self.constant(name, weight.detach().cpu().numpy())

    def product(self, features: str, matrix: str, name: str) -> str:
        """Write features · matrixᵀ, and return its name."""
        self.node("Transpose", [matrix], f"{name}_matrix", {"perm": [1, 0]})
        self.node("MatMul", [features, f"{name}_matrix"], name)
        return name

    def proto(self, name: str) -> Any:
        if self._num_bytes > MOST_BYTES:
            raise ConversionError(
                "a file of ONNX must hold less than 2 GiB",
                got=f"{self._num_bytes} bytes of weights",
                hint="train a smaller model.hidden_size or vocabulary",
            )
        return self._onnx.helper.make_graph(
            self._nodes,
            name,
            self._inputs,
            self._outputs,
            initializer=list(self._constants.values()),
        )

    def _value(self, name: str, kind: str, axes: Sequence[str | int]) -> Any:
        types = self._onnx.TensorProto
        return self._onnx.helper.make_tensor_value_info(name, getattr(types, kind), list(axes))


def _write_plain_readout(graph: _Graph, model: RecurrentLanguageModel) -> None:
    """Write logits = W (P states_BTH) + b."""
    features, readout = "states_BTH", full_readout(model, "this graph")
    if readout.projection is not None:
        graph.weight("readout.projection", readout.projection)
        features = graph.product(features, "readout.projection", "features_BTF")
    matrix = "embedding.weight"
    if model.embedding is None or readout.weight is not model.embedding.weight:
        matrix = "readout.weight"
        graph.weight(matrix, readout.weight)
    graph.weight("readout.bias", readout.bias)
    scores = graph.product(features, matrix, "scores_BTV")
    graph.node("Add", [scores, "readout.bias"], "logits")


def _write_class_split(graph: _Graph, readout: ClassSplitReadout) -> None:
    """Write the scores of the head and of each class by matrices of their own."""
    for name, parameter in readout.named_parameters():
        graph.weight(f"readout.{name}", parameter)
    head = _write_scores(graph, "states_BTH", "readout.weight", "readout.bias", "head_scores")
    within = []
    for number in range(len(readout.cutoffs)):
        tail = f"readout.tails.{number}"
        features = graph.product("states_BTH", f"{tail}.projection", f"features_{number}")
        names = (f"{tail}.weight", f"{tail}.bias", f"scores_{number}")
        within.append(_write_scores(graph, features, *names))
    _write_by_id(graph, readout, head, within)


def _write_tied_classes(graph: _Graph, readout: TiedClassSplitReadout) -> None:
    """Write the scores of all words by the embedding, cut into classes by place."""
    features = "states_BTH"
    for name, parameter in readout.named_parameters():
        if name != "weight":
            graph.weight(f"readout.{name}", parameter)
    if readout.projection is not None:
        features = graph.product(features, "readout.projection", "features_BTF")
    words = _write_scores(graph, features, "embedding.weight", "readout.bias", "scores_BTV")
    by_place = readout.place_of_id_V.argsort().cpu().numpy()
    graph.constant("id_of_place_V", by_place)
    graph.node("Gather", [words, "id_of_place_V"], "scores_by_place_BTV", {"axis": 2})
    graph.constant("class_sizes", np.array(readout.sizes, np.int64))
    pieces = [f"scores_{number}" for number in range(len(readout.sizes))]
    graph.node("Split", ["scores_by_place_BTV", "class_sizes"], pieces, {"axis": 2})
    names = ("readout.class_weight", "readout.class_bias", "class_scores")
    classes = _write_scores(graph, features, *names)
    graph.node("Concat", [pieces[0], classes], "head_scores", {"axis": 2})
    _write_by_id(graph, readout, "head_scores", pieces[1:])


def _write_by_id(graph: _Graph, readout: ClassSplit, head: str, within: Sequence[str]) -> None:
    """Write logits = log p: head and classes by place, then each id's own."""
    graph.constant("readout.place_of_id_V", readout.place_of_id_V.cpu().numpy())
    graph.node("LogSoftmax", [head], "head_log_probs", {"axis": 2})
    graph.constant("head_sizes", np.array([readout.cutoffs[0], *(1 for _ in within)], np.int64))
    pieces = ["head_words", *(f"class_{number}" for number in range(len(within)))]
    graph.node("Split", ["head_log_probs", "head_sizes"], pieces, {"axis": 2})
    for number, scores in enumerate(within):
        graph.node("LogSoftmax", [scores], f"within_{number}", {"axis": 2})
        graph.node("Add", [f"within_{number}", pieces[number + 1]], f"words_{number}")
        pieces[number + 1] = f"words_{number}"
    graph.node("Concat", pieces, "by_place_BTV", {"axis": 2})
    graph.node("Gather", ["by_place_BTV", "readout.place_of_id_V"], "logits", {"axis": 2})


def _write_scores(graph: _Graph, features: str, weight: str, bias: str, name: str) -> str:
    """Write W features + b, and return its name."""
    graph.node("Add", [graph.product(features, weight, f"{name}_product"), bias], name)
    return name


def _write_stack(graph: _Graph, stack: RecurrentStack, x_TBE: str) -> str:
    """Write all layers of `stack`, which read x_TBE, and return the name of what the last hands on.

    Nodes whose rows have ended write 0, as `recur` does; what is normalised or added must be
    made 0 there again.
    """
    _refuse_zoneout(stack)
    graph.constant("axis_1", np.array([1], np.int64))
    graph.constant("no_steps", np.array(0, np.int32))
    graph.node("Equal", ["sequence_lens", "no_steps"], "is_empty_B")
    graph.node("Unsqueeze", ["is_empty_B", "axis_1"], "is_empty_B1")
    if stack.options.layer_norm or stack.options.residual:
        _write_mask(graph, x_TBE)
    read, width = x_TBE, stack.input_size
    for layer in range(stack.num_layers):
        first = layer * stack.num_directions
        cells = [stack.cell(first + way) for way in range(stack.num_directions)]
        written = _write_layer(graph, layer, cells, read)
        wide = sum(cell.output_size for cell in cells)
        read = _write_joining(graph, layer, stack, (read, width), (written, wide))
        width = wide
    return read


def _write_layer(graph: _Graph, layer: int, cells: Sequence[Cell], read: str) -> str:
    """Write the node of one layer and its states; return the name of its outputs [T, B, D · H]."""
    direction: NodeDirection = "forward" if len(cells) == 1 else "bidirectional"
    node = node_of_cells(cells, direction)
    for name, weight in node.weights.items():
        graph.constant(f"{name}_{layer}", weight)
    parts = cells[0].state_names
    units = cells[0].hidden_size
    reads = [read, *(f"{name}_{layer}" for name in "WRB"), "sequence_lens"]
    for part in parts:
        graph.input(f"initial_{part}_{layer}", "FLOAT", [len(cells), "batch", units])
        graph.output(f"final_{part}_{layer}", [len(cells), "batch", units])
        reads.append(f"initial_{part}_{layer}")
    if "P" in node.weights:
        reads.append(f"P_{layer}")
    writes = [f"Y_{layer}", *(f"Y_{part}_{layer}" for part in parts)]
    graph.node(node.op_type, reads, writes, node.attributes)
    for part in parts:
        kept = [f"initial_{part}_{layer}", f"Y_{part}_{layer}"]
        graph.node("Where", ["is_empty_B1", *kept], f"final_{part}_{layer}")
    # Y is [T, D, B, H]: the directions must stand beside the units before both become one axis.
    graph.node("Transpose", [f"Y_{layer}"], f"Y_{layer}_TBDH", {"perm": [0, 2, 1, 3]})
    graph.constant(f"shape_{layer}", np.array([0, 0, len(cells) * units], np.int64))
    graph.node("Reshape", [f"Y_{layer}_TBDH", f"shape_{layer}"], f"y_{layer}")
    return f"y_{layer}"


def _write_joining(
    graph: _Graph,
    layer: int,
    stack: RecurrentStack,
    read: tuple[str, int],
    written: tuple[str, int],
) -> str:
    """Write normalisation and residual of a layer, which are given by name and width."""
    whole = written[0]
    if stack.options.layer_norm:
        norm = stack.norms[layer]
        assert isinstance(norm, nn.LayerNorm)
        names = [f"norm_{layer}.weight", f"norm_{layer}.bias"]
        for name, weight in zip(names, norm.parameters(), strict=True):
            graph.weight(name, weight)
        attributes = {"axis": -1, "epsilon": norm.eps}
        graph.node("LayerNormalization", [whole, *names], f"normed_{layer}", attributes)
        whole = f"normed_{layer}"
    if stack.options.residual and read[1] == written[1]:
        graph.node("Add", [whole, read[0]], f"added_{layer}")
        whole = f"added_{layer}"
    if whole == written[0]:
        return whole
    graph.node("Where", ["is_inside_TB1", whole, "zero"], f"joined_{layer}")
    return f"joined_{layer}"


def _write_mask(graph: _Graph, x_TBE: str) -> None:
    """Write is_inside_TB1: whether each step is one of its row's own."""
    graph.constant("axis_2", np.array([2], np.int64))
    graph.constant("first_step", np.array(0, np.int64))
    graph.constant("one_step", np.array(1, np.int64))
    graph.constant("zero", np.array(0.0, np.float32))
    graph.node("Shape", [x_TBE], "shape_T", {"start": 0, "end": 1})
    graph.node("Squeeze", ["shape_T"], "num_steps")
    graph.node("Range", ["first_step", "num_steps", "one_step"], "steps_T")
    graph.node("Unsqueeze", ["steps_T", "axis_1"], "steps_T1")
    graph.node("Cast", ["sequence_lens"], "lengths_B", {"to": 7})  # to int64
    graph.node("Less", ["steps_T1", "lengths_B"], "is_inside_TB")
    graph.node("Unsqueeze", ["is_inside_TB", "axis_2"], "is_inside_TB1")


def _refuse_zoneout(stack: RecurrentStack) -> None:
    noise = stack.options.noise
    has_memory = any(len(cell.state_names) > 1 for cell in stack.cells if isinstance(cell, Cell))
    if noise.zoneout or (noise.zoneout_cell and has_memory):
        raise ConversionError(
            "the nodes of ONNX have no place for zoneout, which mixes states in every use",
            got=f"zoneout {noise.zoneout:g}, zoneout_cell {noise.zoneout_cell:g}",
            hint="train with model.recurrent_dropout, which acts in training alone",
        )
