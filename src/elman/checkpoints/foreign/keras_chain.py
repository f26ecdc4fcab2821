"""The chain of layers of a language model in Keras: found, taken apart, made settings and weights.

A chain is Embedding (or one-hot codes) → recurrent layers → Dense, with dropout between, and
softmax or nothing after.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.checkpoints.foreign.keras_layers import (
    KerasKind,
    keras_kind,
    keras_layer_arrays,
    keras_module,
)
from elman.checkpoints.foreign.keras_model import stack_from_keras
from elman.config.model_settings import ModelSettings
from elman.errors import ConversionError

CHAIN_LAYERS: Mapping[str, str] = MappingProxyType(
    {
        "Embedding": "E",
        "OneHot": "O",
        "Dropout": "d",
        "SpatialDropout1D": "d",
        "SimpleRNN": "R",
        "GRU": "R",
        "LSTM": "R",
        "Bidirectional": "R",
        "Dense": "D",
        "TimeDistributed": "D",
        "Activation": "A",
    }
)
"""Each layer that may stand in a language model, and its letter in the pattern of the chain."""

_KINDS: Mapping[KerasKind, Literal["elman", "gru", "lstm"]] = MappingProxyType(
    {"SimpleRNN": "elman", "GRU": "gru", "LSTM": "lstm"}
)
_CHAIN = re.compile(r"[EO]?d?(?:Rd?)+D{1,2}A?")


@dataclass
class ChainParts:
    """The layers of a chain by what they do."""

    first: Any
    recurrent: list[Any]
    dropouts: list[Any]
    """After the first layer and after each recurrent one: a layer, or None."""
    projection: Any
    readout: Any
    has_softmax: bool


class ChainLink(NamedTuple):
    """A layer of a chain, and the inputs of the model that are its state before the first step."""

    layer: Any
    initial: tuple[Any, ...]


def layer_chain(keras_model: Any) -> list[ChainLink]:
    """Return the layers from the first input to the first output of a model of Keras.

    A layer may take a mask as well, which is what lengths are here. Raises `ConversionError` where
    a layer reads anything but the outputs of the one below, a mask and initial states that are
    inputs of the model, and where a layer is not on the way.
    """
    chain: list[ChainLink] = []
    tensor = keras_model.outputs[0]
    while not _is_input(tensor):
        history = tensor._keras_history
        layer = history.operation
        if history.tensor_index != 0:
            raise ConversionError(
                f"a state of the layer {layer.name} is used as an output",
                hint="only models that read out the outputs of their last layer can be converted",
            )
        tensor, initial = _read_by(layer, history.node_index)
        chain.insert(0, ChainLink(layer, initial))
    off_path = [
        layer.name
        for layer in keras_model.layers
        if type(layer).__name__ != "InputLayer" and not any(layer is link.layer for link in chain)
    ]
    if off_path or tensor is not keras_model.inputs[0]:
        raise ConversionError(
            "a language model must be one chain of layers from its first input to its first output",
            got=f"beside it: {', '.join(off_path) or 'another first input'}",
        )
    return chain


def bare_model(keras_model: Any, chain: Sequence[ChainLink], parts: ChainParts) -> Any:
    """Return the model of the same layers that gives logits, without masks and without a softmax.

    It takes the initial states that the first one takes, and gives the final states where each
    recurrent layer does. The layers are the same objects, and are altered.
    """
    keras = keras_module()
    parts.readout.activation = keras.activations.linear
    if type(parts.first).__name__ == "Embedding":
        parts.first.mask_zero = parts.first.supports_masking = False
    x, states, finals = keras_model.inputs[0], list[Any](), list[Any]()
    for layer, initial in chain:
        if type(layer).__name__ == "Activation":
            continue
        written = layer(x, initial_state=list(initial)) if initial else layer(x)
        x, *after = written if isinstance(written, list | tuple) else [written]
        states += initial
        finals += after
    if not all(layer.return_state for layer in parts.recurrent):
        finals = []
    return keras.Model(
        [keras_model.inputs[0], *states] if states else keras_model.inputs[0], [x, *finals]
    )


def _read_by(layer: Any, node_index: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the tensor that `layer` reads, and the others, which are its initial state."""
    arguments = layer._inbound_nodes[node_index].arguments
    mask = arguments.kwargs.get("mask")
    named = [value for name, value in arguments.kwargs.items() if name != "mask"]
    keras = keras_module()
    tensors = [
        leaf
        for leaf in keras.tree.flatten([list(arguments.args), named])
        if isinstance(leaf, keras.KerasTensor)
    ]
    others = [*tensors[1:], *([] if _is_mask_of_zeros(mask) else [mask])]
    if not tensors or any(not _is_input(other) for other in others):
        raise ConversionError(
            f"the layer {layer.name} reads more than the layer below it",
            hint="only a plain chain of layers is a language model here",
        )
    return tensors[0], tuple(tensors[1:])


def _is_mask_of_zeros(mask: Any) -> bool:
    """Return whether `mask` is none, or the one that an Embedding makes with mask_zero."""
    if mask is None:
        return True
    history = mask._keras_history
    arguments = history.operation._inbound_nodes[history.node_index].arguments.args
    return type(history.operation).__name__ == "NotEqual" and arguments[1] == 0


def _is_input(tensor: Any) -> bool:
    history = tensor._keras_history
    return bool(history.operation._inbound_nodes[history.node_index].is_input)


def chain_parts(chain: Sequence[Any]) -> ChainParts:
    """Return the layers of a chain by what they do; raises `ConversionError` for another chain."""
    names = [type(layer).__name__ for layer in chain]
    letters = "".join(CHAIN_LAYERS.get(name, "?") for name in names)
    if not _CHAIN.fullmatch(letters):
        raise ConversionError(
            "the layers of a language model must be an Embedding, recurrent layers and a Dense",
            got=" → ".join(names),
            hint="dropout may stand between them; a second Dense only without bias and function",
        )
    first = chain[0] if letters[0] in "EO" else None
    recurrent, dropouts = list[Any](), list[Any]([None])
    for letter, layer in zip(letters, chain, strict=True):
        if letter == "R":
            recurrent.append(layer)
            dropouts.append(None)
        elif letter == "d":
            dropouts[-1] = layer
    dense = [
        layer.layer if type(layer).__name__ == "TimeDistributed" else layer
        for letter, layer in zip(letters, chain, strict=True)
        if letter == "D"
    ]
    after = [chain[-1]] if letters[-1] == "A" else []
    has_softmax = _require_readout(dense, after)
    projection = dense[0] if len(dense) == 2 else None
    return ChainParts(first, recurrent, dropouts, projection, dense[-1], has_softmax)


def _require_readout(dense: Sequence[Any], after: Sequence[Any]) -> bool:
    """Return whether the readout ends in a softmax; raises `ConversionError` for another one."""
    if any(type(layer).__name__ != "Dense" for layer in dense) or (
        len(dense) == 2 and dense[0].use_bias
    ):
        raise ConversionError(
            "the readout must be one Dense, before which another may stand without a bias",
            got=", ".join(f"{type(layer).__name__} {layer.name}" for layer in dense),
        )
    names = [layer.activation.__name__ for layer in (*dense, *after)]
    last = names[len(dense) - 1 :]
    softmaxes = last.count("softmax")
    if softmaxes > 1 or names.count("linear") + softmaxes != len(names):
        raise ConversionError(
            "a readout must give logits, or their softmax",
            got=", ".join(names),
            allowed="linear, softmax at the end",
        )
    return softmaxes == 1


def chain_settings(parts: ChainParts) -> tuple[ModelSettings, list[str]]:
    """Return the settings of the model of these layers, and what they leave out, in sentences.

    Raises `ConversionError` for recurrent layers that are unlike one another, that read backwards,
    or that no cell computes.
    """
    if any(type(layer).__name__ == "Bidirectional" for layer in parts.recurrent):
        raise ConversionError(
            "a language model must not see the tokens that it predicts",
            got="a Bidirectional layer",
            hint="only layers that read forward can be converted",
        )
    stack = stack_from_keras(parts.recurrent)
    cells = [stack.cell(place) for place in range(len(stack.cells))]
    facts = {(cell.key, cell.hidden_size, cell.bias) for cell in cells}
    if len(facts) > 1:
        raise ConversionError(
            "the recurrent layers of a model here are of one kind and width",
            got=", ".join(f"{cell.key} of {cell.hidden_size}, bias {cell.bias}" for cell in cells),
        )
    settings = _with_cell(cells[0], len(cells))
    notices: list[str] = []
    if type(parts.first).__name__ == "Embedding":
        settings = replace(settings, embedding_size=int(parts.first.output_dim))
        if parts.first.mask_zero:
            notices.append("id 0 is padding in the file; here it is a token: give lengths instead")
    else:
        settings = replace(settings, input="one-hot")
    if parts.has_softmax:
        notices.append("the file gives probabilities; here are the logits, of which they are made")
    if not parts.recurrent[-1].return_sequences:
        notices.append("the file reads out the last step alone; here every step is read out")
    inner = [f"{n} of {x.name}" for x in parts.recurrent for n in _dropouts_within(x)]
    if inner:
        notices.append(f"left out, as it acts in training alone: {', '.join(inner)}")
    return _with_dropout(settings, parts.dropouts, notices), notices


def _dropouts_within(layer: Any) -> list[str]:
    return [name for name in ("dropout", "recurrent_dropout") if getattr(layer.cell, name)]


def _with_cell(cell: Cell, num_layers: int) -> ModelSettings:
    settings = ModelSettings(
        kind=_KINDS[keras_kind(cell)],
        hidden_size=cell.hidden_size,
        num_layers=num_layers,
        bias=cell.bias,
    )
    if isinstance(cell, ElmanCell):
        return replace(settings, activation=cell.activation)
    if isinstance(cell, GRUCell):
        return replace(settings, reset=cell.reset, update=cell.update)
    return settings


def _with_dropout(
    settings: ModelSettings, dropouts: Sequence[Any], notices: list[str]
) -> ModelSettings:
    """Return `settings` with the dropout of the layers, or a notice where they differ."""
    rates = [0.0 if layer is None else float(layer.rate) for layer in dropouts]
    kinds = {type(layer).__name__ for layer in dropouts if layer is not None}
    if len(set(rates[1:])) > 1 or len(kinds) > 1:
        notices.append("left out, as its layers differ: dropout, which acts in training alone")
        return settings
    return replace(
        settings,
        embedding_dropout=rates[0],
        dropout=rates[1],
        dropout_kind="locked" if kinds == {"SpatialDropout1D"} else "ordinary",
    )


def chain_weights(
    parts: ChainParts, settings: ModelSettings
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the state dict of the model of these layers, and what became of them, in sentences.

    Raises `ConversionError` where the layers read another number of symbols than they predict.
    """
    notices = []
    weights = {
        f"stack.{name}": parameter.detach()
        for name, parameter in stack_from_keras(parts.recurrent).named_parameters()
    }
    kernel_FV, *bias = keras_layer_arrays(parts.readout)
    if parts.projection is not None:
        kernel_HF = keras_layer_arrays(parts.projection)[0]
        kernel_FV = (kernel_HF.astype(np.float64) @ kernel_FV).astype(kernel_FV.dtype)
        notices.append("two Dense without a function between them became one matrix, rounded once")
    vocabulary_size = kernel_FV.shape[1]
    weights["readout.weight"] = torch.from_numpy(kernel_FV.T.copy())
    weights["readout.bias"] = (
        torch.from_numpy(bias[0]) if bias else torch.zeros(vocabulary_size)
    ).to(weights["readout.weight"].dtype)
    read = weights["stack.cells.0.weight_ih"].shape[1]
    if settings.input == "embedding":
        weights["embedding.weight"] = torch.from_numpy(keras_layer_arrays(parts.first)[0])
        read = len(weights["embedding.weight"])
    if read != vocabulary_size:
        raise ConversionError(
            "a language model must read and predict one vocabulary",
            got=f"{read} symbols read, {vocabulary_size} predicted",
        )
    return weights, notices
