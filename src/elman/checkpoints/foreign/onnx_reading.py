"""Recurrent nodes out of a file of ONNX that any program may have written.

What stands between two recurrent nodes is tried out: it may move values, and must hand every value
of the one node to the right place of the other. Whatever else the graph computes is refused by
name; nothing is passed over.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elman.cells.cell import Cell
from elman.checkpoints.foreign.onnx_graph import onnx_package
from elman.checkpoints.foreign.onnx_nodes import (
    RECURRENT_OPS,
    Array,
    RecurrentNode,
    cells_of_node,
    directions_of_node,
)
from elman.errors import ConversionError
from elman.layers.recurrence import Direction

_RESHAPING_OPS = frozenset(("Expand", "Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
_FOLLOWED_OPS = _RESHAPING_OPS | {"Cast", "Gather", "Identity", "Slice", "Split"}
"""Operators whose first input is where all their values come from."""
_MOVING_OPS = _FOLLOWED_OPS | {"Concat", "Constant", "ConstantOfShape", "Shape"}
_STEPS, _ROWS_TRIED = 3, 2
"""Lengths of time and batch while moves are tried out, where the graph has none of its own."""


class OnnxLayer(NamedTuple):
    """The cells of one recurrent node, and the way in which each of them reads."""

    cells: tuple[Cell, ...]
    directions: tuple[Direction, ...]


class GraphView:
    """A graph with its constants, and which node writes what."""

    def __init__(self, path: Path, model: Any) -> None:
        self.path, self.graph = path, model.graph
        self.opsets = list(model.opset_import)
        self.inputs = [value.name for value in self.graph.input]
        to_array = onnx_package("onnx").numpy_helper.to_array
        # A stored constant may be larger than the file is: nothing is unpacked before it is asked.
        self._stored = {item.name: item for item in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self._stored[node.output[0]] = node.attribute[0].t
        self._to_array = to_array
        self.writers = {name: node for node in self.graph.node for name in node.output if name}
        self.inputs = [name for name in self.inputs if name not in self._stored]

    def constant(self, name: str) -> Array | None:
        """Return the constant of that name, None where there is none."""
        stored = self._stored.get(name)
        return None if stored is None else np.asarray(self._to_array(stored))

    def recurrent_nodes(self) -> list[Any]:
        """Return the recurrent nodes, in the order of the graph, which is one of computation."""
        return [node for node in self.graph.node if node.op_type in RECURRENT_OPS]

    def origin(self, name: str) -> str:
        """Return the name that `name` is only moved from: of an input, a constant, a node's output.

        A name that is not there is its own origin.
        """
        while (node := self.writers.get(name)) is not None:
            if node.op_type not in _FOLLOWED_OPS:
                return name
            name = node.input[0]
        return name


def read_onnx(path: Path) -> Any:
    """Return the `ModelProto` at `path`; raises `ConversionError` where it is no valid one."""
    onnx = onnx_package("onnx")
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except OSError as error:
        raise ConversionError(
            f"cannot read {path}", got=error.strerror or type(error).__name__
        ) from None
    except Exception as error:  # protobuf and the checker have errors of many classes
        raise ConversionError(
            f"{path} is no valid file of ONNX", got=str(error).split("\n")[0] or repr(error)
        ) from None
    return model


def layers_from_onnx(path: Path) -> tuple[OnnxLayer, ...]:
    """Return the cells of every recurrent node of the file at `path`, the lowest layer first.

    The nodes RNN, GRU and LSTM must stand one above the other; initial states are zeros or inputs.
    A node of direction reverse gives one cell that reads backward. Raises `ConversionError` for
    anything else the file computes, by the name of the operator, and as `cells_of_node`.
    """
    return layers_of_graph(GraphView(path, read_onnx(path)))


def layers_of_graph(view: GraphView) -> tuple[OnnxLayer, ...]:
    """Return what `layers_from_onnx` does, of a graph that is read already."""
    _refuse_other_operators(view)
    found = view.recurrent_nodes()
    if not found:
        raise ConversionError(
            f"{view.path} has no recurrent node", allowed=", ".join(RECURRENT_OPS)
        )
    layers: list[OnnxLayer] = []
    below: Any = None
    for node in found:
        layer = layer_of_node(view, node)
        _refuse_other_sources(view, node)
        _require_moved_well(view, below, node, layers[-1:] or [layer])
        layers.append(layer)
        below = node
    return tuple(layers)


def layer_of_node(view: GraphView, node: Any) -> OnnxLayer:
    """Return the cells of `node`, whose weights must be constants of the file."""
    onnx = onnx_package("onnx")
    name = f"node {node.name or node.output[0]}"
    attributes = {
        item.name: _text(onnx.helper.get_attribute_value(item)) for item in node.attribute
    }
    weights: dict[str, Array] = {}
    for key, place in (("W", 1), ("R", 2), ("B", 3), ("P", 7)):
        source = _input(node, place)
        if not source:
            continue
        weight = view.constant(source)
        if weight is None:
            raise ConversionError(
                f"{key} of {name} must be stored in the file",
                got=f"{source}, which is computed or given from outside",
                hint="export the model with its weights as initializers, without further passes",
            )
        weights[key] = weight
    read = RecurrentNode(node.op_type, attributes, weights, name)
    return OnnxLayer(cells_of_node(read), directions_of_node(read))


def _refuse_other_operators(view: GraphView) -> None:
    for node in view.graph.node:
        foreign = node.domain not in ("", "ai.onnx")
        if foreign or node.op_type not in {*RECURRENT_OPS, *_MOVING_OPS}:
            raise ConversionError(
                f"{view.path} computes more than recurrent layers",
                got=f"the operator {node.domain + '.' if foreign else ''}{node.op_type}"
                f" that writes {node.output[0]}",
                allowed=", ".join(RECURRENT_OPS) + " and what moves values between them",
                hint="cut the recurrent layers out of it, as onnx.utils.extract_model does",
            )


def _refuse_other_sources(view: GraphView, node: Any) -> None:
    """Refuse initial states and lengths that are neither given from outside nor, states, zero."""
    for what, place in (("sequence_lens", 4), ("initial_h", 5), ("initial_c", 6)):
        name = _input(node, place)
        source = view.origin(name)
        given = source in view.inputs and source != view.origin(node.input[0])
        if not name or given or (what != "sequence_lens" and _is_zero(view, source)):
            continue
        raise ConversionError(
            f"{what} of node {node.name or node.output[0]} cannot be converted",
            got=name if name == source else f"{name}, made of {source}",
            allowed="an input of the graph" + (", zeros" if what != "sequence_lens" else ""),
        )


def _is_zero(view: GraphView, source: str) -> bool:
    node = view.writers.get(source)
    if node is not None and node.op_type == "ConstantOfShape":
        to_array = onnx_package("onnx").numpy_helper.to_array
        return not any(to_array(item.t).any() for item in node.attribute)
    constant = view.constant(source)
    return constant is not None and not constant.any()


def _require_moved_well(
    view: GraphView, below: Any, node: Any, layer_below: list[OnnxLayer]
) -> None:
    """Try out what moves the outputs of the node below, or the graph's input, to `node`.

    Y [T, D, B, H] of the node below must come as [T, B, D · H], each direction's units together;
    an input of the graph as it is, or with time and batch exchanged.
    """
    source = view.origin(node.input[0])
    if below is None:
        sizes = _input_sizes(view, source, layer_below[0].cells[0].input_size)
        given = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
        wanted = [given, given.transpose(1, 0, 2)] if given.ndim == 3 else []
    else:
        if source != below.output[0]:
            raise _badly_moved(
                view, node, source, f"{below.output[0]}, the outputs of the node below"
            )
        cells = layer_below[0].cells
        given = _numbered(view, cells)
        wanted = [np.concatenate(list(given.transpose(1, 0, 2, 3)), axis=2)]
    moved = _moved(view, source, node.input[0], given)
    if moved is None or not any(np.array_equal(moved, want) for want in wanted):
        allowed = "all its values in order, [T, B, features]"
        raise _badly_moved(view, node, f"a rearrangement of {source}", allowed)


def _badly_moved(view: GraphView, node: Any, got: str, allowed: str) -> ConversionError:
    return ConversionError(
        f"the input of node {node.name or node.output[0]} in {view.path} is not one layer above "
        "the other",
        got=got,
        allowed=allowed,
    )


def _numbered(view: GraphView, cells: Iterable[Cell]) -> Array:
    """Return Y [T, D, B, H] of distinct numbers, of the graph's own T and B where it has them."""
    widths = [cell.hidden_size for cell in cells]
    first = view.recurrent_nodes()[0]
    steps, rows = _STEPS, _ROWS_TRIED
    source = view.origin(first.input[0])
    sizes = _input_sizes(view, source, 1)
    if len(sizes) == 3:
        probe = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
        moved = _moved(view, source, first.input[0], probe)
        if moved is not None and moved.ndim == 3:
            steps, rows = moved.shape[:2]
    shape = (steps, len(widths), rows, widths[0])
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def _input_sizes(view: GraphView, name: str, width: int) -> tuple[int, ...]:
    for value in view.graph.input:
        if value.name == name:
            axes = value.type.tensor_type.shape.dim
            fallback = (_STEPS, _ROWS_TRIED, width)
            if len(axes) == 3:
                return tuple(
                    axis.dim_value or size for axis, size in zip(axes, fallback, strict=True)
                )
    return ()


def _moved(view: GraphView, source: str, target: str, given: Array) -> Array | None:
    """Return what becomes of `given` on its way from `source` to `target`, None where it fails."""
    onnx = onnx_package("onnx")
    if source == target:
        return given
    helper = onnx.helper
    wanted, nodes = {target}, list[Any]()
    for node in reversed(view.graph.node):
        if wanted & set(node.output) and source not in node.output:
            nodes.insert(0, node)
            wanted |= set(node.input)
    constants = [item for item in view.graph.initializer if item.name in wanted]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "moves",
        [helper.make_tensor_value_info(source, kind, given.shape)],
        [helper.make_tensor_value_info(target, kind, None)],
        initializer=constants,
    )
    model = helper.make_model(graph, opset_imports=view.opsets)
    try:
        from onnx.reference import ReferenceEvaluator

        (moved,) = ReferenceEvaluator(model).run(None, {source: given})
    except Exception:  # what cannot be tried out is refused by the caller, by name
        return None
    return np.asarray(moved)


def _input(node: Any, place: int) -> str:
    return str(node.input[place]) if len(node.input) > place else ""


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value


def constants_of(view: GraphView, names: Iterable[str]) -> Mapping[str, Array]:
    """Return the constants of `names`; raises `ConversionError` for one that is not there."""
    found = {name: view.constant(name) for name in names}
    for name, value in found.items():
        if value is None:
            raise ConversionError(f"{view.path} has lost a weight", got=f"no initializer {name}")
    return {name: value for name, value in found.items() if value is not None}
