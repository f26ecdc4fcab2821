"""Float64 NumPy versions of every cell, written from the papers, sharing no code with `elman`.

Each takes one row x [T, E], its first state, and the parameters by name, and returns the outputs
[T, P] and the last state. Nothing here is vectorised over rows, so that no batch, no
padding and no neighbour exists for it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np

Array = np.ndarray
Row = tuple[Array, tuple[Array, ...]]
RowFunction = Callable[[Array, tuple[Array, ...], Mapping[str, Array]], Row]


def _sigma(a):
    return 1.0 / (1.0 + np.exp(-a))


def _four(weights, gates):
    """W, U, b and c of each gate; a bias that is not there is 0."""
    rows = len(weights["weight_ih"])
    none = np.zeros(rows)
    named = (
        weights["weight_ih"],
        weights.get("weight_hh", np.zeros((rows, 1))),
        weights.get("bias_ih", none),
        weights.get("bias_hh", none),
    )
    return [np.split(weight, gates) for weight in named]


def _elman(function) -> RowFunction:
    def run(x_TE, state, weights):
        (w,), (u,), (b,), (c,) = _four(weights, 1)
        (h,) = state
        outputs = []
        for x in x_TE:
            h = function(w @ x + b + u @ h + c)
            outputs.append(h)
        return np.array(outputs), (h,)

    return run


def _gru(reset: str, update: str) -> RowFunction:
    def run(x_TE, state, weights):
        (w_r, w_z, w_n), (u_r, u_z, u_n), (b_r, b_z, b_n), (c_r, c_z, c_n) = _four(weights, 3)
        (h,) = state
        outputs = []
        for x in x_TE:
            r = _sigma(w_r @ x + b_r + u_r @ h + c_r)
            z = _sigma(w_z @ x + b_z + u_z @ h + c_z)
            inner = r * (u_n @ h + c_n) if reset == "after" else u_n @ (r * h) + c_n
            n = np.tanh(w_n @ x + b_n + inner)
            h = z * h + (1 - z) * n if update == "keep" else (1 - z) * h + z * n
            outputs.append(h)
        return np.array(outputs), (h,)

    return run


def _lstm(x_TE, state, weights) -> Row:
    (w_i, w_f, w_g, w_o), (u_i, u_f, u_g, u_o), (b_i, b_f, b_g, b_o), (c_i, c_f, c_g, c_o) = _four(
        weights, 4
    )
    h, c = state
    outputs = []
    for x in x_TE:
        i = _sigma(w_i @ x + b_i + u_i @ h + c_i)
        f = _sigma(w_f @ x + b_f + u_f @ h + c_f)
        g = np.tanh(w_g @ x + b_g + u_g @ h + c_g)
        o = _sigma(w_o @ x + b_o + u_o @ h + c_o)
        c = f * c + i * g
        h = o * np.tanh(c)
        outputs.append(h)
    return np.array(outputs), (h, c)


def _norm(a):
    return (a - a.mean()) / np.sqrt(a.var() + 1e-5)


def _lstm_with(*options: str) -> RowFunction:
    """An LSTM with peepholes, coupled gates, normalisation and a projection, each if named."""

    def run(x_TE, state, weights):
        units = weights["weight_ih"].shape[0] // (3 if "coupled" in options else 4)
        rows = {name: n for n, name in enumerate("fgo" if "coupled" in options else "ifgo")}
        looking = "fo" if "coupled" in options else "ifo"
        looks = weights.get("peephole", np.zeros(len(looking) * units)).reshape(-1, units)
        look = dict(zip(looking, looks, strict=True))
        h, c = state
        outputs = []
        for x in x_TE:
            left, right = weights["weight_ih"] @ x, weights["weight_hh"] @ h
            if "layer_norm" in options:
                left, right = _norm(left) * weights["gain_ih"], _norm(right) * weights["gain_hh"]
            a = (left + right + weights["bias_ih"] + weights["bias_hh"]).reshape(-1, units)
            f = _sigma(a[rows["f"]] + look["f"] * c)
            i = 1 - f if "coupled" in options else _sigma(a[rows["i"]] + look["i"] * c)
            c = f * c + i * np.tanh(a[rows["g"]])
            o = _sigma(a[rows["o"]] + look["o"] * c)
            shown = _norm(c) * weights["gain_c"] + weights["shift_c"] if "gain_c" in weights else c
            h = o * np.tanh(shown)
            if "projection" in options:
                h = weights["weight_hr"] @ h
            outputs.append(h)
        return np.array(outputs), (h, c)

    return run


def _mgu(x_TE, state, weights) -> Row:
    (w_f, w_n), (u_f, u_n), (b_f, b_n), (c_f, c_n) = _four(weights, 2)
    (h,) = state
    outputs = []
    for x in x_TE:
        f = _sigma(w_f @ x + b_f + u_f @ h + c_f)
        n = np.tanh(w_n @ x + b_n + u_n @ (f * h) + c_n)
        h = (1 - f) * h + f * n
        outputs.append(h)
    return np.array(outputs), (h,)


def _g(a):
    return np.array([v + 0.5 if v >= 0 else 1.0 / (1.0 + np.exp(-v)) for v in a])


def _min_gru(x_TE, state, weights) -> Row:
    (w_z, w_n), _, (b_z, b_n), _ = _four(weights, 2)
    (h,) = state
    outputs = []
    for x in x_TE:
        z = _sigma(w_z @ x + b_z)
        h = (1 - z) * h + z * _g(w_n @ x + b_n)
        outputs.append(h)
    return np.array(outputs), (h,)


def _min_lstm(x_TE, state, weights) -> Row:
    (w_f, w_i, w_n), _, (b_f, b_i, b_n), _ = _four(weights, 3)
    (h,) = state
    outputs = []
    for x in x_TE:
        f, i = _sigma(w_f @ x + b_f), _sigma(w_i @ x + b_i)
        h = (f * h + i * _g(w_n @ x + b_n)) / (f + i)
        outputs.append(h)
    return np.array(outputs), (h,)


ROWS: Mapping[str, RowFunction] = MappingProxyType(
    {
        "elman/tanh": _elman(np.tanh),
        "elman/relu": _elman(lambda a: np.maximum(a, 0.0)),
        "elman/identity": _elman(lambda a: a),
        "gru/after/keep": _gru("after", "keep"),
        "gru/after/replace": _gru("after", "replace"),
        "gru/before/keep": _gru("before", "keep"),
        "gru/before/replace": _gru("before", "replace"),
        "lstm": _lstm,
        "lstm+peepholes": _lstm_with("peepholes"),
        "lstm+coupled": _lstm_with("coupled"),
        "lstm+layer_norm": _lstm_with("layer_norm"),
        "lstm+projection": _lstm_with("projection"),
        "lstm+peepholes+coupled+layer_norm+projection": _lstm_with(
            "peepholes", "coupled", "layer_norm", "projection"
        ),
        "mgu": _mgu,
        "mingru": _min_gru,
        "minlstm": _min_lstm,
    }
)
"""Equations (a name up to its comma) → reference. A cell without an entry here fails the suite."""


def _log_softmax(logits: Array) -> Array:
    top = logits.max(axis=1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))


def plain_log_probs(states_NH: Array, weights: Mapping[str, Array]) -> Array:
    """log softmax(W (P h) + b) of each row, [N, V]; P is the identity where there is none."""
    features_NF = states_NH
    if "projection" in weights:
        features_NF = states_NH @ weights["projection"].T
    return _log_softmax(features_NF @ weights["weight"].T + weights["bias"])


def class_split_log_probs(states_NH: Array, weights: Mapping[str, Array]) -> Array:
    """log p of each id, [N, V]: word by word, as E. Grave et al. write it."""
    head_NC = _log_softmax(states_NH @ weights["weight"].T + weights["bias"])
    tails = sum(name.endswith("projection") for name in weights)
    columns = list(head_NC[:, : head_NC.shape[1] - tails].T)
    first = len(columns)
    for tail in range(tails):
        features = states_NH @ weights[f"tails.{tail}.projection"].T
        logits = features @ weights[f"tails.{tail}.weight"].T + weights[f"tails.{tail}.bias"]
        columns += [word + head_NC[:, first + tail] for word in _log_softmax(logits).T]
    return np.array([columns[place] for place in weights["place_of_id_V"]]).T


def tied_class_log_probs(
    cutoffs: Sequence[int], states_NH: Array, weights: Mapping[str, Array]
) -> Array:
    """log p of each id, [N, V], of classes scored by the rows of one matrix: word by word."""
    features_NF = states_NH @ weights["projection"].T if "projection" in weights else states_NH
    scores_NV = features_NF @ weights["weight"].T + weights["bias"]
    places = list(weights["place_of_id_V"])
    borders = [0, *(cutoff for cutoff in cutoffs if cutoff < len(places)), len(places)]
    members = [[places.index(place) for place in range(*pair)] for pair in pairwise(borders)]
    classes_NC = features_NF @ weights["class_weight"].T + weights["class_bias"]
    head_NC = _log_softmax(np.concatenate([scores_NV[:, members[0]], classes_NC], axis=1))
    answer_NV = np.empty_like(scores_NV)
    answer_NV[:, members[0]] = head_NC[:, : len(members[0])]
    for number, ids in enumerate(members[1:]):
        entry_N1 = head_NC[:, len(members[0]) + number, None]
        answer_NV[:, ids] = _log_softmax(scores_NV[:, ids]) + entry_N1
    return answer_NV
