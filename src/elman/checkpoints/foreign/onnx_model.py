"""Whole files of ONNX: written, and read back bit for bit.

A file that Elman wrote says of itself what it holds. It is read by building that model from the
weights in the file and writing it again: only where the same graph comes out, weight for weight, is
the model handed out. Files of other programs are read by `elman.checkpoints.foreign.onnx_reading`;
`elman.checkpoints.foreign.onnx_proof` proves a file equal to its model.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from elman.atomic_files import read_utf8, write_atomically
from elman.checkpoints.foreign.onnx_graph import (
    METADATA_KEY,
    OPSET,
    graph_of_language_model,
    graph_of_stack,
    model_of_graph,
    onnx_package,
)
from elman.checkpoints.foreign.onnx_nodes import restored_cell
from elman.checkpoints.foreign.onnx_reading import (
    GraphView,
    constants_of,
    layer_of_node,
    layers_of_graph,
    read_onnx,
)
from elman.config.checks import check_settings
from elman.config.fields import check_value, setting_facts
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.errors import ConversionError, ElmanError
from elman.layers.stack import RecurrentStack, StackOptions
from elman.models.recurrent import RecurrentLanguageModel
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json

_SCHEMA = 1
_STACK, _LANGUAGE_MODEL = "recurrent stack", "recurrent language model"

Built = TypeVar("Built")


class OnnxLanguageModel(NamedTuple):
    """A language model out of a file, and the tokenizer beside it, where there is one."""

    model: RecurrentLanguageModel
    tokenizer: Tokenizer | None


def stack_to_onnx(stack: RecurrentStack, path: Path) -> None:
    """Write `stack` to `path`: x [B, T, E], lengths, states → states [B, T, D · H], states.

    Cells are written as `plain_cell` gives them; dropout and what acts in training alone is left
    out. Raises as `graph_of_stack`, and `RunError` where the file cannot be written.
    """
    options = {"layer_norm": stack.options.layer_norm, "residual": stack.options.residual}
    _write(path, graph_of_stack(stack), {"content": _STACK, "options": options})


def stack_from_onnx(path: Path) -> RecurrentStack:
    """Return the stack of the recurrent nodes of the file at `path`, with the bits of its weights.

    Of a file that `stack_to_onnx` wrote, also normalisation and residuals; cells are those that
    were written, with two biases each. Raises `ConversionError` as `layers_from_onnx`, for layers
    that read backward alone or not all in the same directions, and for an altered file of Elman's.
    """
    proto = read_onnx(path)
    view = GraphView(path, proto)
    record = _record(path, proto)
    if record is not None:
        if record["content"] != _STACK:
            raise _other_content(path, record["content"], "language_model_from_onnx")
        return _stack_of_record(view, proto, record)
    layers = layers_of_graph(view)
    ways = {layer.directions for layer in layers}
    if len(ways) > 1 or ways == {("backward",)}:
        raise ConversionError(
            f"the layers of {path} are no stack, which reads forward or both ways in all layers",
            got=", then ".join(" and ".join(layer.directions) for layer in layers),
            hint="layers_from_onnx returns the cells with their directions, for recur",
        )
    cells = [cell for layer in layers for cell in layer.cells]
    return _converted(path, lambda: RecurrentStack(cells, num_directions=len(ways.pop())))


def language_model_to_onnx(
    model: RecurrentLanguageModel, path: Path, tokenizer: Tokenizer | None = None
) -> None:
    """Write `model` to `path`: ids [B, T], lengths, states → logits [B, T, V], states.

    With a tokenizer, `<name>.tokenizer.json` is written beside it, first, and its SHA-256 is
    recorded. The settings of the model are recorded as JSON under the key `elman` of the metadata.
    Raises as `graph_of_language_model`, `ConversionError` for a tokenizer of another size, and
    `RunError` where a file cannot be written.
    """
    record: dict[str, object] = {
        "content": _LANGUAGE_MODEL,
        "settings": asdict(model.settings),
        "vocabulary_size": model.vocabulary_size,
        "tokenizer_sha256": None,
    }
    graph = graph_of_language_model(model)
    if tokenizer is not None:
        if len(tokenizer) != model.vocabulary_size:
            raise ConversionError(
                "the tokenizer must be that of the model",
                got=f"{len(tokenizer)} entries",
                allowed=str(model.vocabulary_size),
            )
        text = tokenizer.to_json().encode()
        record["tokenizer_sha256"] = hashlib.sha256(text).hexdigest()
        write_atomically(tokenizer_beside(path), text)
    _write(path, graph, record)


def language_model_from_onnx(path: Path) -> OnnxLanguageModel:
    """Return the model that `language_model_to_onnx` wrote to `path`, every weight bit for bit.

    What was rewritten for ONNX is turned back exactly. Raises `ConversionError` for a file that
    Elman did not write or that was altered since, its tokenizer too; `RunError` where that is gone.
    """
    proto = read_onnx(path)
    record = _record(path, proto)
    if record is None:
        raise ConversionError(
            f"{path} was not written by Elman, so that it is not known what its parts mean",
            hint="stack_from_onnx reads the recurrent layers of other programs",
        )
    if record["content"] != _LANGUAGE_MODEL:
        raise _other_content(path, record["content"], "stack_from_onnx")
    view = GraphView(path, proto)
    model = _converted(path, lambda: _blank_model(view, record))
    _fill_model(view, model)
    _require_same_graph(path, proto, graph_of_language_model(model))
    digest = record.get("tokenizer_sha256")
    return OnnxLanguageModel(model, None if digest is None else _tokenizer(path, digest))


def tokenizer_beside(path: Path) -> Path:
    """Return where the tokenizer of the model at `path` stands."""
    return path.with_name(f"{path.name}.tokenizer.json")


def _write(path: Path, graph: Any, record: Mapping[str, object]) -> None:
    whole = {"schema": _SCHEMA, "opset": OPSET, **record}
    model = model_of_graph(graph, json.dumps(whole, sort_keys=True))
    write_atomically(path, model.SerializeToString())


def _record(path: Path, proto: Any) -> dict[str, Any] | None:
    """Return what the file says of itself, None where Elman did not write it."""
    texts = [item.value for item in proto.metadata_props if item.key == METADATA_KEY]
    if not texts:
        return None
    try:
        record = json.loads(texts[0])
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("content") not in (_STACK, _LANGUAGE_MODEL):
        raise _altered(path, "metadata that Elman does not write")
    if record.get("schema") != _SCHEMA:
        raise ConversionError(
            f"{path} was written by another version of Elman",
            got=f"schema {record.get('schema')}",
            allowed=str(_SCHEMA),
        )
    return record


def _stack_of_record(view: GraphView, proto: Any, record: Mapping[str, Any]) -> RecurrentStack:
    layers = [layer_of_node(view, node) for node in view.recurrent_nodes()]
    values = record.get("options")
    if not layers or not isinstance(values, dict):
        raise _altered(view.path, "no layers or no options")
    options = StackOptions(
        layer_norm=values.get("layer_norm") is True, residual=values.get("residual") is True
    )
    cells = [cell for layer in layers for cell in layer.cells]
    stack = _converted(
        view.path,
        lambda: RecurrentStack(cells, num_directions=len(layers[0].cells), options=options),
    )
    _fill_norms(view, stack)
    _require_same_graph(view.path, proto, graph_of_stack(stack))
    return stack


def _blank_model(view: GraphView, record: Mapping[str, Any]) -> RecurrentLanguageModel:
    """Return the model of the recorded settings; the file is as large as they say, or refused."""
    settings, size = record.get("settings"), record.get("vocabulary_size")
    facts = {fact.name: fact for fact in setting_facts() if fact.section == "model"}
    if not isinstance(settings, dict) or settings.keys() != facts.keys():
        raise _altered(view.path, "other settings than the model has")
    values: dict[str, Any] = {
        name: check_value(facts[name], value) for name, value in settings.items()
    }
    model = ModelSettings(**values)
    check_settings(replace(Settings(), model=model))
    per_id = "readout.bias" if model.softmax == "full" else "readout.place_of_id_V"
    one_each = constants_of(view, [per_id])[per_id]
    cells = [cell for node in view.recurrent_nodes() for cell in layer_of_node(view, node).cells]
    read = model.embedding_size if model.input == "embedding" else size
    fit = one_each.shape == (size,) and len(cells) == model.num_layers
    fit = fit and {cell.hidden_size for cell in cells} == {model.hidden_size}
    if not fit or cells[0].input_size != read:
        raise _altered(view.path, "weights of other sizes than the settings say")
    return RecurrentLanguageModel(model, len(one_each), torch.Generator().manual_seed(0))


def _fill_model(view: GraphView, model: RecurrentLanguageModel) -> None:
    for place, node in enumerate(view.recurrent_nodes()):
        cells = layer_of_node(view, node).cells
        if len(cells) != 1:
            raise _altered(view.path, "a layer of two directions")
        restored_cell(model.stack.cell(place), cells[0])
    _fill_norms(view, model.stack)
    # A tied matrix has two names in the model and is stored under the first of them.
    own = {
        name: tensor
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if not name.startswith("stack.")
    }
    _copy(view, own)


def _fill_norms(view: GraphView, stack: RecurrentStack) -> None:
    _copy(
        view,
        {
            f"norm_{layer}.{name}": parameter
            for layer, norm in enumerate(stack.norms)
            for name, parameter in norm.named_parameters()
        },
    )


def _copy(view: GraphView, own: Mapping[str, Tensor]) -> None:
    for name, value in constants_of(view, own).items():
        kind = own[name].numpy(force=True).dtype
        if value.shape != tuple(own[name].shape) or value.dtype != kind:
            raise _altered(view.path, f"{name} of {value.dtype.name} {value.shape}")
        with torch.no_grad():
            own[name].copy_(torch.tensor(value))


def _require_same_graph(path: Path, proto: Any, wanted: Any) -> None:
    """Raise unless the graph of the file computes, weight for weight, what `wanted` does."""
    opsets = [(opset.domain, opset.version) for opset in proto.opset_import]
    if opsets != [("", OPSET)]:
        raise _altered(path, f"opsets {opsets}")
    for mine, theirs in zip(_facts(wanted), _facts(proto.graph), strict=True):
        if mine != theirs:
            odd = [item for item in theirs if item not in mine] or list(mine)
            raise _altered(path, f"a difference in {odd[0][0]}")


def _facts(graph: Any) -> Sequence[list[tuple[Any, ...]]]:
    """Return everything that a graph computes with, comparable: inputs, outputs, nodes, weights."""
    onnx = onnx_package("onnx")
    nodes = [
        (
            node.output[0],
            node.domain,
            node.op_type,
            list(node.input),
            list(node.output),
            sorted(
                (item.name, repr(onnx.helper.get_attribute_value(item))) for item in node.attribute
            ),
        )
        for node in graph.node
    ]
    arrays = [(item.name, onnx.numpy_helper.to_array(item)) for item in graph.initializer]
    weights = [(name, value.dtype.str, value.shape, value.tobytes()) for name, value in arrays]
    sides = [
        [(value.name, value.type.SerializeToString(deterministic=True)) for value in side]
        for side in (graph.input, graph.output)
    ]
    return [*sides, nodes, sorted(weights, key=lambda item: item[0])]


def _tokenizer(path: Path, digest: object) -> Tokenizer:
    beside = tokenizer_beside(path)
    text = read_utf8(beside)
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise ConversionError(
            f"{beside} is not the tokenizer of {path}", hint="copy both from where they were made"
        )
    return tokenizer_from_json(text)


def _altered(path: Path, got: str) -> ConversionError:
    return ConversionError(
        f"{path} was altered since Elman wrote it", got=got, hint="export the model again"
    )


def _other_content(path: Path, content: str, reader: str) -> ConversionError:
    return ConversionError(f"{path} holds a {content}", hint=f"read it with {reader}")


def _converted(path: Path, build: Callable[[], Built]) -> Built:
    """Return what `build` does; what goes wrong within is a fault of the file."""
    try:
        return build()
    except ConversionError:
        raise
    except ElmanError as error:
        raise ConversionError(f"{path} does not fit together", got=str(error)) from None
