"""Token after token in one native call: weights packed once, rows that know nothing of each other.

What is packed never changes afterwards: a model whose weights do needs another `NativeGenerator`.
The readable twin is `elman.decoding.generation` without one; in float32 both give the same ids for
the same seed, unless a draw falls within rounding of the boundary between two ids. Every row's sums
run in one order, so that its ids have the same bits whatever the other rows, their number, the
number of threads, and the number of tokens asked for at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.errors import RunError, SettingError
from elman.kernels import native_module
from elman.kernels.native_arrays import plain_array
from elman.kernels.native_module import NOT_BUILT, native_level

WeightPrecision = Literal["float32", "bfloat16", "int8"]
TABLE_BYTES = 1 << 24
"""Most bytes of a table of what the first product makes of each token; larger ones are not made."""
CHECK_EVERY = 32
"""Tokens between two looks at signals where nobody listens to each token."""

States = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
OnTokens = Callable[[int, int], object]
"""Receives the columns [first, stop) of the tokens just written; what is true: that is enough."""


@dataclass(frozen=True)
class LayerWeights:
    """One layer: its cell's key and `Cell.kernel_weights`, and what is done to its output.

    `norm` are the gain and the shift [P] of a normalisation; `adds_input`: a residual connection.
    """

    key: str
    weights: tuple[Tensor, ...]
    norm: tuple[Tensor, Tensor] | None = None
    adds_input: bool = False


@dataclass(frozen=True)
class ModelWeights:
    """A model: embedding [V, E] (None: one-hot inputs), layers, W [V, F] and b [V] of the readout.

    `features` [F, P] is the projection before the readout, where there is one.
    """

    embedding: Tensor | None
    layers: tuple[LayerWeights, ...]
    features: Tensor | None
    readout: Tensor
    bias: Tensor


@dataclass(frozen=True)
class RowChoices:
    """How each of B rows chooses its tokens, as `elman.decoding.filters.SamplingSettings` says.

    `keys` are the keys of the random numbers; `temperatures`, `top_ps`, `min_ps` [B] float64.
    """

    temperatures: Sequence[float]
    top_ks: Sequence[int]
    top_ps: Sequence[float]
    min_ps: Sequence[float]
    keys: Sequence[int]


class GeneratorRows:
    """What B rows are between two tokens; `NativeGenerator.generate` goes on from it, changing it.

    state [B, S] float32, last_ids [B] (newest id, not read yet), positions [B] (numbers drawn),
    ended [B]: whether the last id was a stop mark, or the caller wants no more of that row.
    """

    def __init__(
        self, state: States, last_ids: Sequence[int], positions: Sequence[int] | None = None
    ) -> None:
        count = len(last_ids)
        self.state = state
        self.last_ids: Ids = _whole(last_ids, "last_ids").reshape(count)
        self.positions = np.zeros(count, dtype=np.uint64)
        if positions is not None:
            self.positions[:] = positions
        self.ended = np.zeros(count, dtype=bool)


def why_no_native_generation(weights: ModelWeights) -> str:
    """Return why a model cannot be packed; "": it can."""
    if native_module.native is None:
        return NOT_BUILT
    everything = [weights.readout, weights.bias]
    everything += [part for part in (weights.embedding, weights.features) if part is not None]
    for layer in weights.layers:
        everything += (*layer.weights, *(layer.norm or ()))
        if layer.key.startswith("lstm") and "layer_norm" in layer.key:
            return "the native step has no normalisation within an LSTM"
        if layer.key.split("/")[0].split("+")[0] not in _FAMILIES:
            return f"the native step has no {layer.key}"
    if any(part.dtype != torch.float32 or part.device.type != "cpu" for part in everything):
        return "native generation takes float32 weights on a CPU"
    first, size = weights.layers[0], len(weights.readout)
    if weights.embedding is None and first.adds_input and size == _output(first):
        return "a one-hot input that is added to the output needs the readable loop"
    return ""


def tabulates(weights: ModelWeights) -> bool:
    """Return whether the first product of each token is looked up, in float32 whatever the format.

    So is every one-hot input; of an embedding the table must not be large.
    """
    rows = weights.layers[0].weights[0].shape[0]
    return weights.embedding is None or len(weights.readout) * rows * 4 <= TABLE_BYTES


class NativeGenerator:
    """A model packed for generation, in float32, bfloat16 or int8 weights; it keeps no request.

    bfloat16: weights are rounded, everything else is float32. int8: each row of a matrix has 127
    steps each way, and so has each vector that it is multiplied with; sums are exact. Raises
    `SettingError` where the model cannot be packed (`why_no_native_generation`).
    """

    def __init__(self, weights: ModelWeights, precision: WeightPrecision = "float32") -> None:
        reason = why_no_native_generation(weights)
        if reason:
            raise SettingError("the model cannot be packed for native generation", got=reason)
        if precision not in get_args(WeightPrecision):
            raise SettingError(
                "the precision of weights is unknown",
                got=repr(precision),
                allowed=", ".join(get_args(WeightPrecision)),
            )
        self.precision, self.level = precision, native_level()
        self.vocabulary_size = len(weights.readout)
        self.output_size = _output(weights.layers[-1])
        formats = get_args(WeightPrecision)
        self._packed = native_module.native.Generator(formats.index(precision), self.level)
        for layer in weights.layers:
            self._add_layer(layer)
        embedding = (
            None if weights.embedding is None else plain_array(weights.embedding.detach()).clone()
        )
        features = None if weights.features is None else plain_array(weights.features.detach())
        self._packed.set_ends(
            embedding,
            tabulates(weights),
            features,
            plain_array(weights.readout.detach()),
            plain_array(weights.bias.detach()),
        )
        self.state_size: int = self._packed.state_size
        self.weight_bytes: int = self._packed.weight_bytes
        """Bytes of weights that are read for each token."""

    def read(
        self,
        state: States,
        ids_BT: npt.NDArray[np.integer],
        lengths_B: Sequence[int] | None = None,
        *,
        targets_BT: npt.NDArray[np.integer] | None = None,
        states_BTP: States | None = None,
    ) -> npt.NDArray[np.float64] | None:
        """Read ids_BT after `state` [B, S], which becomes the state after each row's last id.

        Where given, `states_BTP` receives what the readout reads at each step, and with
        `targets_BT` −ln p of them [B, T] is returned, in nats. Steps beyond `lengths_B` are left
        alone (0 nats). Raises ValueError for ids outside the vocabulary and sizes that do not fit,
        TypeError for ids and lengths that are no whole numbers.
        """
        ids_BT = _whole(ids_BT, "ids_BT")
        lengths = [ids_BT.shape[1]] * len(ids_BT) if lengths_B is None else lengths_B
        nats_BT = None if targets_BT is None else np.zeros(ids_BT.shape)
        self._packed.read(
            state,
            ids_BT,
            _whole(lengths, "lengths_B"),
            None if targets_BT is None else _whole(targets_BT, "targets_BT"),
            states_BTP,
            nats_BT,
            torch.get_num_threads(),
        )
        return nats_BT

    def generate(
        self,
        rows: GeneratorRows,
        choices: RowChoices,
        max_tokens: int,
        *,
        forbidden_ids: Sequence[int] = (),
        stop_ids: Sequence[int] = (),
        on_tokens: OnTokens | None = None,
        every: int = 1,
        out: npt.NDArray[np.int32] | None = None,
    ) -> tuple[npt.NDArray[np.int32], Ids]:
        """Write up to `max_tokens` ids after `rows`, which become what they are after them.

        Returns tokens_BN, −1 where a row has ended, and how many each row wrote; a stop mark counts
        and ends its row. `on_tokens` is called after each `every` tokens; what it raises ends the
        call, and `rows` are then as the tokens so far left them. So they are after a
        KeyboardInterrupt. `out` [B, max_tokens] takes the tokens where given.

        Raises `RunError` for logits that are not finite, `SettingError` where all are forbidden.
        """
        count = len(rows.last_ids)
        tokens_BN = np.empty((count, max_tokens), dtype=np.int32) if out is None else out
        tokens_BN.fill(-1)
        counts_B, failures_B = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        how_B3 = np.array(
            [choices.temperatures, choices.top_ps, choices.min_ps], dtype=np.float64
        ).T.copy()
        self._packed.generate(
            rows.state,
            rows.last_ids,
            rows.positions,
            rows.ended,
            tokens_BN,
            counts_B,
            failures_B,
            how_B3,
            # More than the vocabulary filters nothing, and may be more than 64 bits hold.
            np.array([min(k, self.vocabulary_size) for k in choices.top_ks], dtype=np.int64),
            np.array(choices.keys, dtype=np.uint64),
            _whole(forbidden_ids, "forbidden_ids"),
            _whole(stop_ids, "stop_ids"),
            on_tokens,
            CHECK_EVERY if on_tokens is None else every,
            torch.get_num_threads(),
        )
        for failure in failures_B.tolist():
            _require_choice(failure)
        return tokens_BN, counts_B

    def zero_rows(self, count: int) -> States:
        """Return the state [count, S] before any token."""
        return np.zeros((count, self.state_size), dtype=np.float32)

    def _add_layer(self, layer: LayerWeights) -> None:
        equation, keeps, weights = _equation(layer)
        norm = None if layer.norm is None else plain_array(torch.stack(layer.norm).detach())
        self._packed.add_layer(
            equation,
            keeps,
            "coupled" in layer.key,
            *(None if weight is None else plain_array(weight.detach()) for weight in weights),
            norm,
            layer.adds_input,
        )


_FAMILIES = ("elman", "gru", "lstm", "mgu", "mingru", "minlstm")
_NativeWeights = tuple[Tensor | None, ...]
"""weight_ih, bias_ih, weight_hh, bias_hh, again, its bias, projection, peepholes."""


def _equation(layer: LayerWeights) -> tuple[str, bool, _NativeWeights]:
    """Return the native equation, whether its update gate keeps, and its weights in order."""
    family, *rest = layer.key.split("/")
    if family in ("mingru", "minlstm"):
        weight_ih, bias_ih = layer.weights
        return family, False, (weight_ih, bias_ih, None, None, None, None, None, None)
    weight_ih, weight_hh, bias_ih, bias_hh, *own = layer.weights
    again = bias_again = projection = peepholes = None
    if family == "elman":
        return rest[0], False, (weight_ih, bias_ih, weight_hh, bias_hh, None, None, None, None)
    if family == "mgu" or rest[:1] == ["before"]:  # the candidate's rows come after the gate's
        gates = weight_hh.shape[0] - weight_hh.shape[1]
        weight_hh, again = weight_hh[:gates], weight_hh[gates:]
        bias_hh, bias_again = bias_hh[:gates], bias_hh[gates:]
    if "projection" in layer.key:
        projection = own.pop(0)
    if "peepholes" in layer.key:
        units = weight_ih.shape[0] // (3 if "coupled" in layer.key else 4)
        peepholes = own.pop(0).view(-1, units)
    name = f"gru/{rest[0]}" if family == "gru" else family.split("+")[0]
    keeps = family == "gru" and rest[1] == "keep"
    four = (weight_ih, bias_ih, weight_hh, bias_hh)
    return name, keeps, (*four, again, bias_again, projection, peepholes)


def _output(layer: LayerWeights) -> int:
    """Return the width of what a layer writes."""
    if layer.key in ("mingru", "minlstm"):
        return layer.weights[0].shape[0] // (2 if layer.key == "mingru" else 3)
    return layer.weights[1].shape[1]


def _whole(numbers: npt.ArrayLike, name: str) -> Ids:
    """Return ids or lengths as int64, never rounded and never the caller's own list; none pass."""
    given = np.asarray(numbers)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole numbers, and are {given.dtype}")
    return np.array(given, dtype=np.int64, order="C")


def _require_choice(failure: int) -> None:
    if failure == -1:
        raise RunError(
            "the model's logits are not finite numbers",
            hint="its training has diverged: use an earlier checkpoint or a lower learning rate",
        )
    if failure:
        raise SettingError("every token is forbidden", hint="allow at least one")
