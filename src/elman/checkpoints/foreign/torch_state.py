"""A recurrent language model ↔ the state dict of PyTorch's word language model example."""

import copy
import re
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from elman.checkpoints.foreign.plain_readout import full_readout
from elman.checkpoints.foreign.proof import Proof, prove
from elman.checkpoints.foreign.torch_file import no_notice
from elman.checkpoints.foreign.torch_program import PlainLanguageModel
from elman.checkpoints.foreign.torch_rebuild import (
    TorchKind,
    in_torch_terms,
    stack_to_torch,
    torch_kind,
    torch_name,
)
from elman.checkpoints.weights import size_text
from elman.config.model_settings import ModelSettings
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import flat_state
from elman.models.recurrent import RecurrentLanguageModel

WRAPPER = "module."
"""What `nn.DataParallel` and its like put before every name."""
PROOF_SHAPES = ((1, 1), (3, 7), (2, 64))
"""(B, T) of the ids on which both sides are compared."""
_PROOF_SEED = 1
_OWN_NAME = re.compile(r"encoder\.weight|decoder\.(weight|bias)|rnn\.(weight|bias)_\w+")
_LAYER_NAME = re.compile(r"rnn\.(weight_ih|weight_hh|bias_ih|bias_hh|weight_hr)_l(\d+)")
_GATES: Mapping[TorchKind, int] = MappingProxyType(
    {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}
)


class TorchForm(NamedTuple):
    """What a state dict of the example says of its model. `projection_size` 0: none."""

    kind: TorchKind
    vocabulary_size: int
    embedding_size: int
    hidden_size: int
    projection_size: int
    num_layers: int
    bias: bool
    tied: bool


def to_torch(model: RecurrentLanguageModel) -> dict[str, Tensor]:
    """Return the state dict of `nn.Embedding`, `nn.RNN`, `GRU` or `LSTM`, and `nn.Linear`.

    Names are those of PyTorch's word language model example: `encoder.weight` [V, E],
    `rnn.weight_ih_l0` [G, E] and so on, `decoder.weight` [V, P], `decoder.bias` [V]. Tensors are
    copies of the model's type and device; tied ones are one tensor. One-hot inputs become the
    identity as embedding. An output that is tied to the embedding through a projection becomes one
    matrix of its own, W P, rounded once. Weights are the same bits but there and where
    `stack_to_torch` rewrites them.

    Raises `ConversionError` for what torch has no module for (see there).
    """
    readout = full_readout(model, "torch's example")
    rnn = stack_to_torch(model.stack).state_dict()
    weight, bias = readout.weight.detach().clone(), readout.bias.detach().clone()
    if model.embedding is None:
        encoder = torch.eye(model.vocabulary_size, dtype=weight.dtype, device=weight.device)
    elif readout.projection is not None:
        encoder = weight
        projection = readout.projection.detach().double()
        weight = (weight.double() @ projection).to(weight.dtype)
    elif model.settings.tie_weights:
        encoder = weight
    else:
        encoder = model.embedding.weight.detach().clone()
    named = {f"rnn.{name}": tensor for name, tensor in rnn.items()}
    return {"encoder.weight": encoder, **named, "decoder.weight": weight, "decoder.bias": bias}


def from_torch(
    state: Mapping[str, Tensor],
    *,
    kind: TorchKind | None,
    notify: Callable[[str], object] = no_notice,
) -> tuple[ModelSettings, int, dict[str, Tensor]]:
    """Return settings, vocabulary size, and what `RecurrentLanguageModel.load_state_dict` takes.

    `kind` None: from the shapes, which tell LSTM and GRU but not which function a plain RNN has.
    Decoder and encoder are tied where they are one tensor, not where they are only equal. Weights
    are float32 copies, as a run keeps them. Where every name begins with `module.`, that is taken
    off. `notify` is told of each change.

    Raises `ConversionError`, with all names, where some are missing, unexpected, or only partly
    within `module.`, and where shapes or types do not fit.
    """
    state = without_wrapper(state, notify)
    form = read_form(state, kind)
    weights = {name: _as_float32(tensor) for name, tensor in state.items()}
    if any(tensor.dtype == torch.float64 for tensor in state.values()):
        notify("weights of float64 are rounded to float32, as a run keeps them")
    encoder = weights["encoder.weight"]
    own = {"embedding.weight": encoder}
    for layer in range(form.num_layers):
        for name in _cell_names(form.bias, form.projection_size > 0):
            own[f"stack.cells.{layer}.{name}"] = weights[f"rnn.{torch_name(name, layer)}"]
    own["readout.weight"] = encoder if form.tied else weights["decoder.weight"]
    own["readout.bias"] = weights["decoder.bias"]
    settings = ModelSettings(
        kind="elman" if form.kind.startswith("RNN") else "gru" if form.kind == "GRU" else "lstm",
        embedding_size=form.embedding_size,
        hidden_size=form.hidden_size,
        num_layers=form.num_layers,
        tie_weights=form.tied,
        activation="relu" if form.kind == "RNN_RELU" else "tanh",
        bias="two" if form.bias else "none",
        projection_size=form.projection_size,
    )
    return settings, form.vocabulary_size, own


def without_wrapper(
    state: Mapping[str, Tensor], notify: Callable[[str], object] = no_notice
) -> Mapping[str, Tensor]:
    """Return `state` without the `module.` before its names, where it stands before every one.

    A network may really have a part called `module`: names are left alone unless one of them,
    without the prefix, is a name of the example. Raises `ConversionError`, listing both, where such
    names stand beside names without the prefix.
    """
    wrapped = [name for name in state if name.startswith(WRAPPER)]
    if not any(_OWN_NAME.fullmatch(name.removeprefix(WRAPPER)) for name in wrapped):
        return state
    plain = [name for name in state if not name.startswith(WRAPPER)]
    if plain:
        raise ConversionError(
            f"either every name must begin with {WRAPPER} or none",
            got=f"with it: {', '.join(wrapped)}; without: {', '.join(plain)}",
            hint="save the state dict of the model within the wrapper: model.module.state_dict()",
        )
    notify(f"took {WRAPPER!r}, which a wrapper had put there, off all {len(wrapped)} names")
    return {name.removeprefix(WRAPPER): tensor for name, tensor in state.items()}


def read_form(state: Mapping[str, Tensor], kind: TorchKind | None) -> TorchForm:
    """Return what the names and shapes of `state` say; raises `ConversionError` as `from_torch`."""
    parts = [match for name in state if (match := _LAYER_NAME.fullmatch(name))]
    numbers = [int(match[2]) for match in parts]
    # A number that leaves gaps is an unexpected name, not a reason to list a million missing ones.
    num_layers = 1 + max((number for number in numbers if number < len(state)), default=0)
    bias = any(match[1].startswith("bias") for match in parts)
    projected = any(match[1] == "weight_hr" for match in parts)
    _require_names(state, num_layers, bias, projected)
    _require_kinds(state)
    encoder, decoder = state["encoder.weight"], state["decoder.weight"]
    units = state["rnn.weight_hr_l0" if projected else "rnn.weight_hh_l0"].shape[1]
    form = TorchForm(
        kind=_kind_of(state["rnn.weight_hh_l0"], units, projected, kind),
        vocabulary_size=encoder.shape[0],
        embedding_size=encoder.shape[1],
        hidden_size=units,
        projection_size=state["rnn.weight_hr_l0"].shape[0] if projected else 0,
        num_layers=num_layers,
        bias=bias,
        tied=_is_one(encoder, decoder),
    )
    _require_sizes(state, _shapes(form))
    return form


def prove_torch(model: RecurrentLanguageModel, exported: Mapping[str, Tensor]) -> Proof:
    """Return how far `model` and torch's modules with the weights `exported` are apart.

    Both run in float64 (a recurrence may enlarge the rounding of float32 without limit) on random
    ids of `PROOF_SHAPES`, from nothing and from a random state; ours as the readable loop. Compared
    are logits and final states. Raises `ConversionError` where they differ.
    """
    kind = torch_kind(in_torch_terms(model.stack.cell(0)))
    form = read_form(exported, kind)
    with torch.device("meta"):  # so that torch's global generator is left alone
        plain = PlainLanguageModel(**form._asdict())
    theirs_model = plain.to_empty(device="cpu").double().eval()
    theirs_model.load_state_dict(dict(exported))
    ours_model = copy.deepcopy(model).to("cpu", torch.float64)
    generator = torch.Generator().manual_seed(_PROOF_SEED)
    ours: dict[str, np.ndarray] = {}
    theirs: dict[str, np.ndarray] = {}
    for B, T in PROOF_SHAPES:
        ids_BT = torch.randint(model.vocabulary_size, (B, T), generator=generator)
        for begun in (False, True):
            label = f"B = {B}, T = {T}, {'a state' if begun else 'no state'}"
            results = _both(ours_model, theirs_model, ids_BT, generator if begun else None)
            for side, values in zip((ours, theirs), results, strict=True):
                for name, value in zip(("logits", "h", "c"), values, strict=False):
                    side[f"{name} of {label}"] = value.numpy()
    shapes = ", ".join(str(shape) for shape in PROOF_SHAPES)
    return prove(
        f"logits and final states in float64 on random ids of (B, T) = {shapes}, "
        "with and without an initial state",
        ours,
        theirs,
    )


def _both(
    ours: RecurrentLanguageModel,
    theirs: PlainLanguageModel,
    ids_BT: Tensor,
    generator: torch.Generator | None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return logits and the parts of the final state, of both; a generator draws the first one."""
    state, parts = None, None
    if generator is not None:
        state = tuple(
            ours.stack.cell(place).pack_state(
                [torch.randn(part.shape, generator=generator).double() for part in zeros]
            )
            for place, zeros in enumerate(ours.zero_state(len(ids_BT)))
        )
        flat = flat_state(state)
        parts = flat if len(flat) > 1 else flat[0]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch: no oneDNN for projected LSTMs
        output = ours(ids_BT, state, plan=KernelPlan("reference"))
        logits_BTV, last = theirs(ids_BT, parts)
    mine = [output.readout.logits(output.states_BTH).detach(), *flat_state(output.state)]
    return mine, [logits_BTV, *(last if isinstance(last, tuple) else (last,))]


def _cell_names(bias: bool, projected: bool) -> list[str]:
    """Return the names of a layer's parameters in torch's order."""
    biases = ["bias_ih", "bias_hh"] if bias else []
    return ["weight_ih", "weight_hh", *biases, *(["weight_hr"] if projected else [])]


def _require_names(
    state: Mapping[str, Tensor], num_layers: int, bias: bool, projected: bool
) -> None:
    expected = ["encoder.weight", "decoder.weight", "decoder.bias"]
    for layer in range(num_layers):
        expected += [f"rnn.{torch_name(name, layer)}" for name in _cell_names(bias, projected)]
    missing = [name for name in expected if name not in state]
    unexpected = [str(name) for name in state if name not in expected]
    if not missing and not unexpected:
        return
    told = [f"missing: {', '.join(missing)}"] if missing else []
    told += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
    backwards = any(name.endswith("_reverse") for name in unexpected)
    raise ConversionError(
        "the state dict does not have the names of PyTorch's word language model example",
        got="; ".join(told),
        hint="a language model cannot read backwards: it would see what it predicts"
        if backwards
        else "rename them to encoder.weight, rnn.weight_ih_l0 …, decoder.weight, decoder.bias",
    )


def _require_kinds(state: Mapping[str, Tensor]) -> None:
    odd = [
        f"{name} of {str(tensor.dtype).removeprefix('torch.')} {size_text(tensor.shape)}"
        for name, tensor in state.items()
        if not tensor.dtype.is_floating_point or tensor.dim() != (1 if "bias" in name else 2)
    ]
    if odd:
        raise ConversionError(
            "weights must be floating-point numbers, matrices with two axes and biases with one",
            got=", ".join(odd),
        )


def _kind_of(weight_hh: Tensor, units: int, projected: bool, kind: TorchKind | None) -> TorchKind:
    rows = weight_hh.shape[0]
    fitting = [name for name, gates in _GATES.items() if rows == gates * units]
    if projected:
        fitting = [name for name in fitting if name == "LSTM"]
    if kind in fitting:
        return kind
    if kind is not None or not fitting:
        raise ConversionError(
            f"rnn.weight_hh_l0 does not fit {kind or 'any recurrence of torch'}",
            got=f"{size_text(weight_hh.shape)} with {units} units",
            allowed="LSTM: 4 rows a unit, GRU: 3, RNN_TANH and RNN_RELU: 1",
            hint=f"it fits {' and '.join(fitting)}" if fitting else "",
        )
    if len(fitting) > 1:
        raise ConversionError(
            "weights of a plain RNN do not tell its function, so that its kind must be given",
            got=f"rnn.weight_hh_l0 of {size_text(weight_hh.shape)}",
            allowed=" or ".join(fitting),
        )
    return fitting[0]


def _shapes(form: TorchForm) -> dict[str, tuple[int, ...]]:
    rows = _GATES[form.kind] * form.hidden_size
    written = form.projection_size or form.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.weight": (form.vocabulary_size, form.embedding_size),
        "decoder.weight": (form.vocabulary_size, written),
        "decoder.bias": (form.vocabulary_size,),
    }
    for layer in range(form.num_layers):
        of_cell = {
            "weight_ih": (rows, written if layer else form.embedding_size),
            "weight_hh": (rows, written),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
            "weight_hr": (form.projection_size, form.hidden_size),
        }
        for name in _cell_names(form.bias, form.projection_size > 0):
            shapes[f"rnn.{torch_name(name, layer)}"] = of_cell[name]
    return shapes


def _require_sizes(state: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    odd = [
        f"{name} of {size_text(state[name].shape)} in place of {size_text(shape)}"
        for name, shape in shapes.items()
        if tuple(state[name].shape) != shape
    ]
    if odd:
        raise ConversionError("the weights do not fit each other", got=", ".join(odd))
    if 0 in (size for shape in shapes.values() for size in shape):
        raise ConversionError("the weights must not be empty", got="a size of 0")


def _is_one(left: Tensor, right: Tensor) -> bool:
    """Return whether both are the very same memory, seen in the same way."""
    same = left.data_ptr() == right.data_ptr() and left.stride() == right.stride()
    return left is right or (same and left.shape == right.shape and left.dtype == right.dtype)


def _as_float32(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32, copy=True).contiguous()
