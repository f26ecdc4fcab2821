"""stacks and language models ↔ models of Keras, and the proof that both compute the same.

A layer of two directions is Keras' Bidirectional with merge_mode "concat": the forward half of the
outputs first, the backward half turned around so that both stand in the order of the input, as
ours. States come as ours do: layer by layer, forward before backward, h before c.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.checkpoints.foreign.keras_layers import (
    cell_from_layer,
    expressible_cell,
    keras_array,
    keras_dtype,
    keras_layer_arrays,
    keras_module,
    layer_from_cell,
)
from elman.checkpoints.foreign.plain_readout import full_readout
from elman.checkpoints.foreign.proof import Proof, prove
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import DropoutKind
from elman.layers.embedding import one_hot_inputs
from elman.layers.stack import RecurrentStack, StackState
from elman.models.recurrent import RecurrentLanguageModel
from elman.models.stacking import NOISE

Initial = Literal["zeros", "given"]
"""Where the state before the first step comes from: it is zeros, or inputs of the model."""

PROOF_SHAPES = ((1, 1), (3, 7), (2, 40))
"""Rows and steps of what `prove_keras` runs; a model of fixed sizes runs at its own."""
PROOF_SEED = 1


def stack_to_keras(stack: RecurrentStack, *, initial: Initial = "zeros") -> Any:
    """Return the model of Keras x_BTE → [states_BTH, *final states], of the weights' own type.

    "given" makes it [x_BTE, *initial states] → the same: called with a list, one tensor [B, H] for
    each part of the state. For rows of several lengths, call it with
    `mask=right_padding_mask(lengths_B, T)` (in a list, with None for each state, where states are
    given). Dropout between layers is carried, noise within them, which acts in training, is not.

    Raises `ConversionError` for cells that have no layer, for `residual` and for `layer_norm`.
    """
    keras = keras_module()
    dtype = keras_dtype(stack.cell(0).weight_ih)
    x = keras.Input((None, stack.input_size), dtype=dtype, name="x")
    given = _state_inputs(stack, dtype) if initial == "given" else []
    outputs, finals = _recurrent_layers(stack, x, given)
    return keras.Model([x, *given] if given else x, [outputs, *finals])


def stack_from_keras(layers: Sequence[Any]) -> RecurrentStack:
    """Return the stack of recurrent layers of Keras, the first one first, with their weights.

    Each is a SimpleRNN, GRU or LSTM, or each a Bidirectional of two. Whether the last one returns
    its sequence is of no account: the stack gives outputs at all steps and the final states.

    Raises `ConversionError` for a mixture of one and two directions, a merge_mode other than
    "concat", a backward layer alone, and layers above one that hands on its last output only.
    """
    if not layers:
        raise ConversionError("a stack needs at least one layer", got="none")
    bidirectional = keras_module().layers.Bidirectional
    ways = {2 if type(layer) is bidirectional else 1 for layer in layers}
    if len(ways) > 1:
        raise ConversionError(
            "layers of a stack must all read in one direction, or all in both",
            got=", ".join(type(layer).__name__ for layer in layers),
        )
    for layer in layers[:-1]:
        if not layer.return_sequences:
            raise ConversionError(
                f"the layer {layer.name} hands on its last output only",
                hint="a stack reads every step of the layer below: return_sequences=True",
            )
    num_directions = ways.pop()
    cells = [cell for layer in layers for cell in _cells_of(layer, num_directions)]
    return RecurrentStack(cells, num_directions=num_directions)


def language_model_to_keras(model: RecurrentLanguageModel, *, initial: Initial = "zeros") -> Any:
    """Return the model of Keras ids_BT → logits_BTV: Embedding, recurrent layers, Dense.

    "given" makes it [ids_BT, *initial states] → [logits_BTV, *final states], which is what a
    generator needs. One-hot inputs are made of the ids by Keras' `one_hot`; a projection before the
    readout is a Dense without bias; dropout is Dropout, "locked" SpatialDropout1D.

    Raises `ConversionError` as `stack_to_keras` does.
    """
    readout = full_readout(model, "Keras")
    keras = keras_module()
    s, dtype = model.settings, keras_dtype(readout.weight)
    ids = keras.Input((None,), dtype="int32", name="ids")
    if model.embedding is None:
        x = keras.ops.one_hot(ids, model.vocabulary_size, dtype=dtype)
    else:
        rows, width = model.embedding.weight.shape
        table = keras.layers.Embedding(rows, width, name="embedding", dtype=dtype)
        table.build()
        table.set_weights([keras_array(model.embedding.weight)])
        x = table(ids)
    x = _dropped(x, s.embedding_dropout, s.dropout_kind, dtype)
    given = _state_inputs(model.stack, dtype) if initial == "given" else []
    y, finals = _recurrent_layers(model.stack, x, given)
    y = _dropped(y, s.dropout, s.dropout_kind, dtype)
    if readout.projection is not None:
        y = _dense("projection", readout.projection, None)(y)
    logits = _dense("readout", readout.weight, readout.bias)(y)
    if initial == "given":
        return keras.Model([ids, *given], [logits, *finals])
    return keras.Model(ids, logits)


def what_is_left_out(model: RecurrentLanguageModel) -> tuple[str, ...]:
    """Return a sentence for each thing that the model of Keras holds in another way, or not."""
    s, cell = model.settings, model.stack.cell(0)
    notices = []
    if s.tie_weights:
        notices.append("the embedding and the readout are two matrices in Keras, equal, not tied")
    named = [name for name in NOISE if getattr(s, name)]
    if named:
        notices.append(f"noise of training is not in the file: {', '.join(named)}")
    if expressible_cell(cell) is not cell:
        written = expressible_cell(cell).key
        notices.append(f"{cell.key} is written as {written}, equal up to rounding")
    return tuple(notices)


def prove_keras(model: RecurrentLanguageModel, keras_model: Any) -> Proof:
    """Return how far logits, and final states where Keras gives them, are apart on random inputs.

    Both sides run batches of `PROOF_SHAPES`, after random initial states where Keras takes them.
    Raises `ConversionError` where a value differs by more than `elman.checkpoints.foreign.proof`
    allows, or the model of Keras takes other inputs.
    """
    generator = torch.Generator().manual_seed(PROOF_SEED)
    wants_one_hot = len(keras_model.inputs[0].shape) == 3

    def draw(rows: int, steps: int) -> tuple[Tensor, Tensor]:
        ids_BT = torch.randint(model.vocabulary_size, (rows, steps), generator=generator)
        ids_BT = ids_BT.to(model.readout.weight.device)
        if wants_one_hot:
            return ids_BT, one_hot_inputs(ids_BT, model.vocabulary_size, model.readout.weight.dtype)
        return ids_BT, ids_BT.int()

    ours, theirs = dict[str, npt.NDArray[np.floating]](), dict[str, npt.NDArray[np.floating]]()
    for rows, steps in _proof_shapes(keras_model):
        ids_BT, fed = draw(rows, steps)
        state = _random_state(model.stack, rows, keras_model, generator)
        with torch.no_grad():
            output = model(ids_BT, state, plan=KernelPlan("reference"))
            logits_BTV = output.readout.logits(output.states_BTH)
        got = _run(keras_model, fed, state)
        if got[0].ndim == 2:  # a model that gives the logits after its last step alone
            logits_BTV = logits_BTV[:, -1]
        _put(ours, theirs, f"logits of {rows} × {steps}", logits_BTV, output.state, got)
    return prove("logits and final states of Keras, on random ids", ours, theirs)


def prove_keras_stack(stack: RecurrentStack, keras_model: Any) -> Proof:
    """Return how far outputs and final states are apart on random inputs, as `prove_keras` does."""
    generator = torch.Generator().manual_seed(PROOF_SEED)
    dtype = stack.cell(0).weight_ih.dtype
    ours, theirs = dict[str, npt.NDArray[np.floating]](), dict[str, npt.NDArray[np.floating]]()
    for rows, steps in _proof_shapes(keras_model):
        x_BTE = torch.randn(rows, steps, stack.input_size, dtype=dtype, generator=generator)
        x_BTE = x_BTE.to(stack.cell(0).weight_ih.device)
        state = _random_state(stack, rows, keras_model, generator)
        with torch.no_grad():
            states_BTH, after = stack(x_BTE, state, None, plan=KernelPlan("reference"))
        got = _run(keras_model, x_BTE, state)
        _put(ours, theirs, f"outputs of {rows} × {steps}", states_BTH, after, got)
    return prove("outputs and final states of Keras, on random inputs", ours, theirs)


def _recurrent_layers(stack: RecurrentStack, x: Any, given: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the outputs of the last layer of `stack` on x, and the final states of all layers."""
    o = stack.options
    if o.residual or o.layer_norm:
        raise ConversionError(
            "the layers of Keras are written as a plain chain",
            got="model.residual" if o.residual else 'model.layer_norm = "layers"',
            allowed="recurrent layers one above the other, with dropout",
            hint="train without it for Keras, or convert to another format",
        )
    dtype = keras_dtype(stack.cell(0).weight_ih)
    finals: list[Any] = []
    for number in range(stack.num_layers):
        if number > 0:
            x = _dropped(x, o.dropout, o.dropout_kind, dtype)
        first = number * stack.num_directions
        layer = _layer([stack.cell(first + way) for way in range(stack.num_directions)], number)
        parts = sum(len(stack.cell(first + way).state_names) for way in range(stack.num_directions))
        before = list(given[len(finals) : len(finals) + parts]) if given else None
        x, *after = layer(x, initial_state=before) if before else layer(x)
        finals += after
    return x, finals


def _layer(cells: Sequence[Cell], number: int) -> Any:
    """Return the built layer of one cell, or of a forward and a backward one."""
    name = f"layer_{number}"
    forward = layer_from_cell(cells[0], name=name)
    if len(cells) == 1:
        return forward
    backward = layer_from_cell(cells[1], name=f"backward_{name}", direction="backward")
    both = keras_module().layers.Bidirectional(
        forward, merge_mode="concat", backward_layer=backward, name=name, dtype=forward.dtype
    )
    both.build((None, None, cells[0].input_size))
    # Keras makes the forward layer anew from its options, without the weights.
    both.forward_layer.set_weights(keras_layer_arrays(forward))
    return both


def _cells_of(layer: Any, num_directions: int) -> list[Cell]:
    if num_directions == 1:
        cell, direction = cell_from_layer(layer)
        if direction == "backward":
            raise ConversionError(
                f"the layer {layer.name} reads backwards alone",
                hint="a stack reads forward, or both ways; cell_from_layer gives its cell, for "
                'recur(..., direction="backward")',
            )
        return [cell]
    if layer.merge_mode != "concat":
        raise ConversionError(
            f"the layer {layer.name} joins its directions in another way than side by side",
            got=f"merge_mode = {layer.merge_mode!r}",
            allowed="'concat'",
            hint="the layers above were trained on that mixture, which no weights can undo",
        )
    pairs = [cell_from_layer(half) for half in (layer.forward_layer, layer.backward_layer)]
    if [direction for _, direction in pairs] != ["forward", "backward"]:
        raise ConversionError(
            f"the first half of {layer.name} must read forward, the second one backward",
            got=", ".join(direction for _, direction in pairs),
        )
    return [cell for cell, _ in pairs]


def _state_inputs(stack: RecurrentStack, dtype: str) -> list[Any]:
    keras = keras_module()
    return [
        keras.Input((size,), dtype=dtype, name=f"{name}_{place}")
        for place in range(len(stack.cells))
        for name, size in zip(
            stack.cell(place).state_names, stack.cell(place).state_sizes, strict=True
        )
    ]


def _dropped(x: Any, rate: float, kind: DropoutKind, dtype: str) -> Any:
    if rate == 0.0:
        return x
    layers = keras_module().layers
    made = layers.SpatialDropout1D if kind == "locked" else layers.Dropout
    return made(rate, dtype=dtype)(x)


def _dense(name: str, weight: Tensor, bias: Tensor | None) -> Any:
    rows, width = weight.shape
    layer = keras_module().layers.Dense(
        rows, use_bias=bias is not None, name=name, dtype=keras_dtype(weight)
    )
    layer.build((None, None, width))
    layer.set_weights([keras_array(weight).T, *([] if bias is None else [keras_array(bias)])])
    return layer


def _proof_shapes(keras_model: Any) -> list[tuple[int, int]]:
    num_rows, num_steps = keras_model.inputs[0].shape[:2]  # None where any number will do
    return [(num_rows or rows, num_steps or steps) for rows, steps in PROOF_SHAPES]


def _random_state(
    stack: RecurrentStack, rows: int, keras_model: Any, generator: torch.Generator
) -> StackState | None:
    """Return a random state where `keras_model` takes one, else None."""
    zeros = stack.zero_state(rows)
    num_parts = sum(len(parts) for parts in zeros)
    num_inputs = len(keras_model.inputs) - 1
    if num_inputs == 0:
        return None
    if num_inputs != num_parts:
        raise ConversionError(
            "a model of Keras must take its input alone, or with every part of the state",
            got=f"{num_inputs} inputs beside the first",
            allowed=f"0 or {num_parts}",
        )
    return tuple(
        stack.cell(place).pack_state(
            [
                torch.randn(part.shape, dtype=part.dtype, generator=generator).to(part.device)
                for part in parts
            ]
        )
        for place, parts in enumerate(zeros)
    )


def _run(keras_model: Any, fed: Tensor, state: StackState | None) -> list[npt.NDArray[np.floating]]:
    """Return every output of the model of Keras, whatever its backend."""
    inputs = [keras_array(fed), *(keras_array(part) for parts in state or () for part in parts)]
    with torch.no_grad(), keras_module().device("cpu"):
        outputs = keras_model(inputs if len(inputs) > 1 else inputs[0], training=False)
    listed = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [keras_array(output) for output in listed]


def _put(
    ours: dict[str, npt.NDArray[np.floating]],
    theirs: dict[str, npt.NDArray[np.floating]],
    name: str,
    outputs: Tensor,
    state: StackState,
    got: Sequence[npt.NDArray[np.floating]],
) -> None:
    """Put the outputs, and the final states where Keras gives them, under one name on each side."""
    ours[name], theirs[name] = keras_array(outputs), got[0]
    if len(got) == 1:
        return
    parts = [keras_array(part) for cell_state in state for part in cell_state]
    for place in range(max(len(parts), len(got) - 1)):
        if place < len(parts):
            ours[f"{name}, state {place}"] = parts[place]
        if place < len(got) - 1:
            theirs[f"{name}, state {place}"] = got[place + 1]
