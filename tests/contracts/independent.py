"""Float64 NumPy versions of every cell, written from the papers, sharing no code with `elman`.

Each takes one row x [T, E], its first state, and the four parameters in torch's order, and returns
the outputs [T, H] and the last state. Nothing here is vectorised over rows, so that no batch, no
padding and no neighbour exists for it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

Array = np.ndarray
Row = tuple[Array, tuple[Array, ...]]
RowFunction = Callable[[Array, tuple[Array, ...], tuple[Array, Array, Array, Array]], Row]


def _sigma(a):
    return 1.0 / (1.0 + np.exp(-a))


def _elman(function) -> RowFunction:
    def run(x_TE, state, weights):
        w, u, b, c = weights
        (h,) = state
        outputs = []
        for x in x_TE:
            h = function(w @ x + b + u @ h + c)
            outputs.append(h)
        return np.array(outputs), (h,)

    return run


def _gru(reset: str, update: str) -> RowFunction:
    def run(x_TE, state, weights):
        (w_r, w_z, w_n), (u_r, u_z, u_n), (b_r, b_z, b_n), (c_r, c_z, c_n) = (
            np.split(weight, 3) for weight in weights
        )
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
    (w_i, w_f, w_g, w_o), (u_i, u_f, u_g, u_o), (b_i, b_f, b_g, b_o), (c_i, c_f, c_g, c_o) = (
        np.split(weight, 4) for weight in weights
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
    }
)
"""Cell key → reference. A registered cell without an entry here fails the suite."""


def nats_of(features_NF: Array, weight_VF: Array, bias_V: Array, targets_N: Array) -> Array:
    """−log softmax(W f + b)[target] of each row, in float64."""
    logits = features_NF @ weight_VF.T + bias_V
    top = logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return log_sum - logits[np.arange(len(targets_N)), targets_N]
