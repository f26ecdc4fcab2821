"""cell ↔ layer of Keras: the order of gates, the layout of kernels, the shapes of biases.

Keras multiplies from the right (`x @ kernel`, kernel [E, G]), so that every matrix is ours
transposed, and orders gates in its own way:

    SimpleRNN   one block, one bias [H]
    LSTM        i, f, c, o, which are our i, f, g, o; one bias [4H]
    GRU         z, r, h, which are our z, r, n; reset_after=True (our "after"): bias [2, 3H], the
                input's row first; reset_after=False (our "before"): one bias [3H];
                h_t = z ∘ h_{t−1} + (1 − z) ∘ hh, our "keep"

Matrices go over bit for bit, and so do biases where there is one vector or none, and both rows of a
GRU that resets after the product. Two vectors that Keras has one of become their sum, which rounds
once; that is allowed for every gate of a GRU that resets before, as its b_hn stands outside the
reset too. Keras' `unit_forget_bias` only says how a bias begins: a bias that is written has what
the forget gate needs in it, and nothing is added to it, in either direction.
Weights of 64 bits stay so, but Keras 3 multiplies matrices in 32 on every backend other than
TensorFlow, so that results agree to float32's rounding.
"""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.cells.cell import BiasKind, Cell
from elman.cells.elman import Activation, ElmanCell
from elman.cells.gru import GRUCell, Reset
from elman.cells.lstm import LSTMCell
from elman.cells.mgu import MGUCell
from elman.checkpoints.foreign.rewriting import as_keep, mgu_as_gru, uncoupled
from elman.errors import ConversionError, MissingPackageError
from elman.layers.recurrence import Direction

KerasKind = Literal["SimpleRNN", "GRU", "LSTM"]
"""The recurrent layers of Keras that have a cell here, under Keras' names."""

_BACKEND_VARIABLE = "KERAS_BACKEND"
# Keras' blocks of gates, as places in our order, which is its own inverse in each of the three.
_BLOCKS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"SimpleRNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 1, 2, 3)}
)
_ACTIVATION_NAMES: Mapping[Activation, str] = MappingProxyType(
    {"tanh": "tanh", "relu": "relu", "identity": "linear"}
)


def keras_module() -> Any:
    """Return the package keras, on torch unless the variable KERAS_BACKEND says otherwise.

    Raises `MissingPackageError` where it, or the backend asked for, is not installed.
    """
    chosen = _BACKEND_VARIABLE in os.environ or "keras" in sys.modules
    if not chosen:
        os.environ[_BACKEND_VARIABLE] = "torch"
    try:
        return importlib.import_module("keras")
    except ImportError as error:
        missing = error.name or "keras"
        if missing == "keras":
            hint = "install it with: pip install 'elman[keras]'"
        else:
            hint = f"install it with: pip install {missing}, or set {_BACKEND_VARIABLE}=torch"
        raise MissingPackageError(
            "models of Keras need the package keras and its backend",
            got=f"no package {missing}",
            hint=hint,
        ) from error
    finally:
        if not chosen:
            os.environ.pop(_BACKEND_VARIABLE, None)


def expressible_cell(cell: Cell) -> Cell:
    """Return a cell of the same values that a layer of Keras can hold, `cell` itself where it can.

    A GRU becomes "keep", an MGU the GRU that it is, a coupled LSTM gets an input gate of its own:
    1 − σ(a) = σ(−a), where the last place may differ. Raises `ConversionError` for what has no
    layer: peepholes, normalisation or projection within an LSTM, minGRU and minLSTM.
    """
    if isinstance(cell, LSTMCell):
        for name, on in (
            ("layer normalisation within the step", cell.options.layer_norm),
            ("peepholes", cell.options.peepholes),
            ("a projection of the output", cell.options.projection_size > 0),
        ):
            if on:
                raise ConversionError(
                    f"the LSTM of Keras has no place for {name}",
                    got=cell.key,
                    allowed="lstm, lstm+coupled",
                    hint="train a plain LSTM for Keras, or convert to another format",
                )
        return uncoupled(cell)
    if isinstance(cell, MGUCell):
        return as_keep(mgu_as_gru(cell))
    if isinstance(cell, GRUCell):
        return as_keep(cell)
    if isinstance(cell, ElmanCell):
        return cell
    raise ConversionError(
        "Keras has no layer whose gates do not see the state",
        got=cell.key,
        allowed="elman, gru, lstm, mgu",
        hint="the nearest that it has are gru and lstm, which must be trained anew",
    )


def keras_kind(cell: Cell) -> KerasKind:
    """Return the name of the layer of Keras that holds an expressible `cell`."""
    if isinstance(cell, LSTMCell):
        return "LSTM"
    return "GRU" if isinstance(cell, GRUCell) else "SimpleRNN"


def layer_weights(cell: Cell) -> list[npt.NDArray[np.floating]]:
    """Return kernel [E, G], recurrent kernel [H, G] and, where there is a bias, the bias.

    In the order of `layer.get_weights()`; the bias is [G], or [2, 3H] of a GRU that resets after
    the product. Raises `ConversionError` as `expressible_cell` does.
    """
    plain = expressible_cell(cell)
    order = _BLOCKS[keras_kind(plain)]
    matrices = (plain.weight_ih, plain.weight_hh)
    weights = [_written(_in_order(matrix, order).t()) for matrix in matrices]
    if plain.bias_ih is None:
        return weights
    bias_G = _in_order(plain.bias_ih, order)
    second_G = None if plain.bias_hh is None else _in_order(plain.bias_hh, order)
    if isinstance(plain, GRUCell) and plain.reset == "after":
        bias_2G = torch.stack([bias_G, torch.zeros_like(bias_G) if second_G is None else second_G])
        return [*weights, _written(bias_2G)]
    return [*weights, _written(bias_G if second_G is None else bias_G + second_G)]


def cell_from_weights(
    kind: KerasKind,
    weights: Sequence[npt.NDArray[np.floating]],
    *,
    activation: Activation = "tanh",
    reset: Reset = "after",
) -> Cell:
    """Return the cell that computes what a layer of `kind` with `weights` does, bit for bit theirs.

    `weights` as `layer_weights` gives them; `activation` is for SimpleRNN, `reset` for GRU and has
    to fit the bias: [2, 3H] after, [3H] before. The cell has the two bias vectors of [2, 3H], one
    of [G], none where there is no third array. Raises `ConversionError` for any other shape.
    """
    order = _BLOCKS[kind]
    if len(weights) not in (2, 3):
        raise ConversionError(
            f"a layer {kind} has a kernel, a recurrent kernel and at most one bias",
            got=f"{len(weights)} arrays",
            allowed="2 or 3",
        )
    kernel, recurrent = weights[0], weights[1]
    gates = len(order)
    units = recurrent.shape[0] if recurrent.ndim == 2 else 0
    wanted = (kernel.shape[0] if kernel.ndim == 2 else 0, gates * units)
    if units < 1 or kernel.shape != wanted or recurrent.shape != (units, gates * units):
        raise ConversionError(
            f"kernels of {kind} must be [inputs, {gates} · units] and [units, {gates} · units]",
            got=f"{list(kernel.shape)} and {list(recurrent.shape)}",
            hint="Keras multiplies from the right: matrices of torch must be transposed",
        )
    after = kind == "GRU" and reset == "after"
    has_bias = len(weights) == 3
    if has_bias:
        _require_bias_shape(kind, weights[2], gates * units, after=after)
    bias: BiasKind = "none" if not has_bias else "two" if after else "one"
    cell = _blank_cell(kind, kernel.shape[0], units, activation, reset, bias)
    cell.to(torch.from_numpy(np.array(kernel)).dtype)
    with torch.no_grad():
        cell.weight_ih.copy_(_in_order(_tensor(kernel).t(), order))
        cell.weight_hh.copy_(_in_order(_tensor(recurrent).t(), order))
        rows = _tensor(weights[2]).reshape(-1, gates * units) if has_bias else ()
        for parameter, row_G in zip((cell.bias_ih, cell.bias_hh), rows, strict=False):
            assert parameter is not None
            parameter.copy_(_in_order(row_G, order))
    return cell


def layer_from_cell(cell: Cell, *, name: str, direction: Direction = "forward") -> Any:
    """Return the built layer of Keras that computes what `cell` does: [B, T, E] → outputs, states.

    The layer returns its outputs at all steps and its final states (h, then c). Backward is Keras'
    `go_backwards`, whose outputs come in the order in which it read, last step first, where ours
    stay in the order of the input; within a Bidirectional, Keras turns them around itself. Keras
    has a mask [B, T] where we have lengths: `right_padding_mask` makes one of the other.

    Raises `ConversionError` as `expressible_cell` does, `MissingPackageError` without keras.
    """
    keras = keras_module()
    plain = expressible_cell(cell)
    kind = keras_kind(plain)
    options: dict[str, object] = {}
    if isinstance(plain, GRUCell):
        options["reset_after"] = plain.reset == "after"
    elif isinstance(plain, ElmanCell):
        options["activation"] = _ACTIVATION_NAMES[plain.activation]
    layer = getattr(keras.layers, kind)(
        plain.hidden_size,
        use_bias=plain.bias != "none",
        return_sequences=True,
        return_state=True,
        go_backwards=direction == "backward",
        name=name,
        dtype=keras_dtype(plain.weight_ih),
        **options,
    )
    layer.build((None, None, plain.input_size))
    layer.set_weights(layer_weights(plain))
    return layer


def cell_from_layer(layer: Any) -> tuple[Cell, Direction]:
    """Return the cell of a SimpleRNN, GRU or LSTM of Keras, and the direction in which it reads.

    A layer with `go_backwards` is a backward reader: `recur(cell, …, direction="backward")` gives
    its final state, and its outputs in the order of the input, where Keras gives them last step
    first. Dropout of the layer acts in training alone and is left out.

    Raises `ConversionError` for another layer, one that is not built, one that keeps its state
    (stateful), or one with functions other than tanh within and the logistic function at its gates.
    """
    keras = keras_module()
    kind = next((name for name in _BLOCKS if type(layer) is getattr(keras.layers, name)), None)
    if kind is None:
        raise ConversionError(
            "only recurrent layers of Keras itself have a cell here",
            got=type(layer).__name__,
            allowed=", ".join(_BLOCKS),
        )
    if not layer.built:
        raise ConversionError(f"the layer {layer.name} has no weights yet", hint="build it first")
    if layer.stateful:
        raise ConversionError(
            f"the layer {layer.name} keeps its state from call to call (stateful=True)",
            hint="save it with stateful=False: here a state goes in and comes out",
        )
    named = {name: ours for ours, name in _ACTIVATION_NAMES.items()}
    if kind != "SimpleRNN":
        named = {"tanh": "tanh"}
        _require_function(layer, "recurrent_activation", {"sigmoid": "sigmoid"})
    activation = _require_function(layer, "activation", named)
    reset: Reset = "after" if getattr(layer, "reset_after", True) else "before"
    cell = cell_from_weights(
        kind,  # type: ignore[arg-type]  # the keys of _BLOCKS are the kinds
        keras_layer_arrays(layer),
        activation=activation,  # type: ignore[arg-type]  # a key of _ACTIVATION_NAMES
        reset=reset,
    )
    return cell, "backward" if layer.go_backwards else "forward"


def keras_layer_arrays(layer: Any) -> list[npt.NDArray[np.floating]]:
    """Return the weights of a built layer of Keras, whatever its backend, in Keras' order."""
    return [keras_array(weight.value) for weight in layer.weights]


def keras_array(tensor: Any) -> npt.NDArray[np.floating]:
    """Return a copy of a tensor of Keras' backend, whichever that is."""
    if isinstance(tensor, Tensor):  # of which NumPy makes no copy by itself without a warning
        tensor = tensor.detach().cpu().numpy()
    else:
        tensor = keras_module().ops.convert_to_numpy(tensor)
    return np.array(tensor)


def right_padding_mask(lengths_B: Tensor, num_steps: int) -> Any:
    """Return Keras' mask [B, T] for rows of these lengths: True at steps t < length.

    Under it final states, and outputs at steps within a row, are ours. At padding Keras repeats the
    last output, or gives 0 within a Bidirectional; ours are 0 always.
    """
    mask_BT = torch.arange(num_steps) < lengths_B.cpu().unsqueeze(1)
    return keras_module().ops.convert_to_tensor(mask_BT.numpy())


def keras_dtype(tensor: Tensor) -> str:
    """Return Keras' name of the type of `tensor`, float32 or float64; raises `ConversionError`."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in ("float32", "float64"):
        raise ConversionError(
            "weights for Keras must be of 32 or 64 bits", got=name, allowed="float32, float64"
        )
    return name


def _blank_cell(
    kind: KerasKind,
    input_size: int,
    units: int,
    activation: Activation,
    reset: Reset,
    bias: BiasKind,
) -> Cell:
    makers: Mapping[str, Callable[[], Cell]] = {
        "SimpleRNN": lambda: ElmanCell(input_size, units, activation=activation, bias=bias),
        "GRU": lambda: GRUCell(input_size, units, reset=reset, update="keep", bias=bias),
        "LSTM": lambda: LSTMCell(input_size, units, bias=bias),
    }
    return makers[kind]()


def _require_bias_shape(
    kind: str, bias: npt.NDArray[np.floating], rows: int, *, after: bool
) -> None:
    wanted = (2, rows) if after else (rows,)
    if bias.shape == wanted:
        return
    hint = ""
    if kind == "GRU" and bias.shape == (rows,):
        hint = 'one vector belongs to reset_after=False: read it with reset="before"'
    elif kind == "GRU" and bias.shape == (2, rows):
        hint = 'two vectors belong to reset_after=True: read it with reset="after"'
    elif kind == "GRU" and bias.shape == (2 * rows,):
        hint = "a flat vector of 6 · units is that of CuDNNGRU: load and save it with Keras first"
    raise ConversionError(
        f"the bias of {kind} has another shape than the layer says",
        got=str(list(bias.shape)),
        allowed=str(list(wanted)),
        hint=hint,
    )


def _require_function(layer: Any, option: str, allowed: Mapping[str, str]) -> str:
    """Return our name of the function under `option` of `layer`."""
    found = getattr(getattr(layer, option), "__name__", "an object of its own")
    keras = keras_module()
    if found not in allowed or getattr(layer, option) is not keras.activations.get(found):
        raise ConversionError(
            f"{option} of the layer {layer.name} has no cell here",
            got=found,
            allowed=", ".join(allowed),
            hint="the model must be trained with that function to be converted",
        )
    return allowed[found]


def _in_order(weight: Tensor, order: tuple[int, ...]) -> Tensor:
    """Return the blocks of gates of `weight`, along its first axis, in `order`."""
    blocks = weight.detach().chunk(len(order))
    return torch.cat([blocks[place] for place in order])


def _written(tensor: Tensor) -> npt.NDArray[np.floating]:
    keras_dtype(tensor)
    return np.ascontiguousarray(keras_array(tensor))


def _tensor(array: npt.NDArray[np.floating]) -> Tensor:
    return torch.from_numpy(np.array(array))
