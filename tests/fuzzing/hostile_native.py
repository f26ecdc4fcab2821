"""Entry points of the native module, called past their Python: several arguments wrong at once."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from outcomes import Attempt

from elman.errors import ShapeError
from elman.kernels import native_module

Arguments = dict[str, Any]
KINDS = ("float16", "float32", "float64", "int32", "int64", "uint64", "bool")
WHOLE = (0, -1, 1, 2, 3, 7, 19, 20, 64, 2**31 - 1, 2**31, 2**62, -(2**63), 2**63 - 1)
REAL = (0.0, -0.5, 1.0, 1.5, 1e-45, 3e38, -3e38, float("nan"), float("inf"), -float("inf"))
GATES = {"tanh": (1, 1), "relu": (1, 1), "gru/after": (3, 3), "gru/before": (3, 2), "lstm": (4, 4)}
GATES |= {"mgu": (2, 1), "mingru": (2, 0), "minlstm": (3, 0)}
"""Piles of rows in weight_ih and in weight_hh; the rest of the former stands in `again`."""
EQUATIONS = (*GATES, "", "x")


def numbers(*shape: int) -> np.ndarray:
    """Return float32 numbers that are always the same for a shape."""
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def loss_arguments(draw: random.Random) -> Arguments:
    """Return what `softmax_loss` takes, all of it right."""
    rows, width, vocabulary = draw.randrange(20), draw.randrange(1, 40), draw.randrange(1, 70)
    with_gradients = draw.random() < 0.5
    grads = [numbers(rows, width), numbers(vocabulary, width), numbers(vocabulary)]
    grads = grads if with_gradients else [None] * 3  # type: ignore[list-item]
    return {
        "features": numbers(rows, width),
        "weight": numbers(vocabulary, width),
        "bias": numbers(vocabulary),
        "targets": np.array([draw.randrange(vocabulary) for _ in range(rows)], dtype=np.int64),
        "nats": np.zeros(rows),
        "uniform": np.zeros(rows) if draw.random() < 0.5 else None,
        **dict(zip(("grad_features", "grad_weight", "grad_bias"), grads, strict=True)),
        "scale": 1.0,
        "smoothing": draw.choice((0.0, 0.1)),
        "most_logits": draw.choice((1, 100, 1 << 23)),
        "precision": draw.choice(("float32", "bfloat16")),
        "num_threads": draw.choice((1, 2)),
        "level": draw.choice(("auto", "baseline", "avx2")),
    }


def layer_arguments(draw: random.Random, width: int, units: int, equation: str) -> Arguments:
    """Return what `add_layer` takes, all of it right."""
    inputs, own = GATES[equation]
    again = inputs - own if own else 0
    return {
        "equation": equation,
        "keeps": True,
        "couples": False,
        "weight_ih": numbers(inputs * units, width),
        "bias_ih": numbers(inputs * units),
        "weight_hh": numbers(own * units, units) if own else None,
        "bias_hh": numbers(own * units) if own else None,
        "again": numbers(units, units) if again else None,
        "bias_again": numbers(units) if again else None,
        "projection": None,
        "peepholes": None,
        "norm": numbers(2, units) if draw.random() < 0.3 else None,
        "adds_input": False,
    }


def end_arguments(vocabulary: int, width: int, units: int) -> Arguments:
    """Return what `set_ends` takes, all of it right."""
    return {
        "embedding": numbers(vocabulary, width),
        "tabulates": False,
        "features": None,
        "readout": numbers(vocabulary, units),
        "bias": numbers(vocabulary),
    }


def reading_arguments(rows: int, steps: int, state_size: int, output: int) -> Arguments:
    """Return what `read` takes, all of it right."""
    return {
        "state": np.zeros((rows, state_size), dtype=np.float32),
        "ids": np.ones((rows, steps), dtype=np.int64),
        "lengths": np.full(rows, steps),
        "targets": np.ones((rows, steps), dtype=np.int64),
        "states": np.zeros((rows, steps, output), dtype=np.float32),
        "nats": np.zeros((rows, steps)),
        "num_threads": 1,
    }


def writing_arguments(rows: int, steps: int, state_size: int) -> Arguments:
    """Return what `generate` takes, all of it right."""
    return {
        "state": np.zeros((rows, state_size), dtype=np.float32),
        "last_ids": np.zeros(rows, dtype=np.int64),
        "positions": np.zeros(rows, dtype=np.uint64),
        "ended": np.zeros(rows, dtype=bool),
        "tokens": np.zeros((rows, steps), dtype=np.int32),
        "counts": np.zeros(rows, dtype=np.int64),
        "failures": np.zeros(rows, dtype=np.int64),
        "how": np.tile([1.0, 1.0, 0.0], (rows, 1)),
        "top_ks": np.zeros(rows, dtype=np.int64),
        "keys": np.zeros(rows, dtype=np.uint64),
        "forbidden": np.zeros(0, dtype=np.int64),
        "stops": np.zeros(0, dtype=np.int64),
        "callback": None,
        "every": 1,
        "num_threads": 1,
    }


def spoilt(draw: random.Random, good: Arguments, most: int = 3) -> Arguments:
    """Return the arguments with up to `most` of them changed, where values may still be right."""
    changed = dict(good)
    for name in draw.sample(sorted(good), k=min(len(good), draw.randrange(most + 1))):
        changed[name] = _spoilt_value(draw, good[name])
    return changed


def _spoilt_value(draw: random.Random, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _spoilt_array(draw, value)
    if isinstance(value, bool):
        return draw.choice((True, False, None, 1))
    if isinstance(value, int):
        return draw.choice((*WHOLE, None, 0.5, "1"))
    if isinstance(value, float):
        return draw.choice((*REAL, None, "1", 10**400))
    if isinstance(value, str):
        return draw.choice((*EQUATIONS, "auto", "float32", "\0", "\ud800", None, "x" * 10_000))
    return draw.choice((None, numbers(3), numbers(2, 3), lambda first, stop: False, 3))


def _spoilt_array(draw: random.Random, value: np.ndarray) -> Any:
    how = draw.randrange(9)
    if how == 0:
        return value.astype(draw.choice(KINDS))
    if how == 1:
        return numbers(*(draw.randrange(9) for _ in range(draw.randrange(4)))).astype(value.dtype)
    if how == 2:
        return np.repeat(value, 2, -1)[..., ::2]
    if how == 3:
        return draw.choice((value[:0], value[:1], value[..., None], value.T, value.copy(order="F")))
    if how == 4:
        return draw.choice((None, 3, "an array", torch.empty(value.shape, device="meta")))
    if how == 5:
        return np.broadcast_to(value[:1], value.shape) if value.size else value
    changed = value.copy()
    if changed.size:
        odd = draw.choice(REAL if changed.dtype.kind == "f" else WHOLE)
        with np.errstate(all="ignore"):
            place = draw.randrange(changed.size)
            changed.reshape(-1)[place] = np.asarray(odd).astype(changed.dtype)
    return changed


def call_loss(draw: random.Random) -> None:
    """Call the native loss."""
    native_module.native.softmax_loss(**spoilt(draw, loss_arguments(draw)))


def call_generator(draw: random.Random) -> None:
    """Build a generator, in an order that may be wrong, and have it read and write."""
    vocabulary, width, units = draw.randrange(1, 25), draw.randrange(1, 12), draw.randrange(1, 20)
    equation = draw.choice(list(GATES))
    packed = native_module.native.Generator(
        draw.choice((0, 1, 2, 2, 3)), draw.choice(("auto", "baseline")), draw.random() < 0.5
    )
    steps: list[Callable[[], object]] = [
        lambda: packed.add_layer(**spoilt(draw, layer_arguments(draw, width, units, equation), 1)),
        lambda: packed.set_ends(**spoilt(draw, end_arguments(vocabulary, width, units), 1)),
    ]
    if draw.random() < 0.3:
        steps.append(lambda: packed.add_layer(**layer_arguments(draw, units, units, equation)))
        draw.shuffle(steps)
    if draw.random() < 0.1:
        steps.pop()
    for step in steps:
        step()
    rows, length = draw.randrange(4), draw.randrange(5)
    for _ in range(2):
        if draw.random() < 0.5:
            packed.read(**spoilt(draw, reading_arguments(rows, length, packed.state_size, units)))
        else:
            packed.generate(**spoilt(draw, writing_arguments(rows, length, packed.state_size)))


def call_small(draw: random.Random) -> None:
    """Call what takes a few numbers alone."""
    native = native_module.native
    native.uniform(draw.choice(WHOLE), draw.choice(WHOLE))
    native.sweep(**spoilt(draw, {"numbers": numbers(40)}), repeats=draw.randrange(-1, 9))


@dataclass
class HostileNative:
    """One entry point. What it may raise beside an answer are the errors of wrong arguments."""

    name: str
    call: Callable[[random.Random], None]

    def prepare(self, scratch: Path) -> None:
        """Do nothing: arguments are made anew for each attempt."""

    def attempt(self, draw: random.Random) -> Attempt:
        """Return the call; what is changed is drawn while it is made."""
        return Attempt("arguments", lambda: refusing(self.call, draw))


def refusing(call: Callable[[random.Random], None], draw: random.Random) -> None:
    """Make `call`; an error that Python has for wrong arguments becomes a refusal in one line."""
    try:
        call(draw)
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError) as error:
        raise ShapeError(str(error)[:1000]) from None


def native_subjects() -> list[HostileNative]:
    """Return the entry points, where the native module is built."""
    if native_module.native is None:
        return []
    calls = {"loss": call_loss, "generator": call_generator, "small": call_small}
    return [HostileNative(f"native: {name}", call) for name, call in calls.items()]
