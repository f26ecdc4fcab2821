"""Run each kernel of the native module once, at each level offered, with NumPy alone.

python kernels_alone.py MODULE RESULTS.npz        writes what the fastest level here computes;
python kernels_alone.py MODULE RESULTS.npz NAME   compares each level with it on a processor NAME.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

CLOSE = 1e-4
"""Of values of order 1: levels add up in another order."""
RECURRENCES = {  # blocks of weights, of what is saved, and of gradients
    "tanh": (1, 1, 1),
    "relu": (1, 1, 1),
    "identity": (1, 1, 1),
    "gru/after": (3, 5, 4),
    "gru/before": (3, 5, 3),
    "lstm": (4, 6, 4),
}
GATES = {"tanh": (1, 1), "gru/after": (3, 3), "lstm": (4, 4), "mingru": (2, 0), "minlstm": (3, 0)}
"""Blocks of both matrices of the steps of generation."""
SIZES = ((1, 3, 5), (13, 4, 33))
"""B, T and H."""


def module_at(path: str) -> ModuleType:
    """Load `_native` by itself."""
    spec = importlib.util.spec_from_file_location("_native", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(*shape: int, seed: int = 0) -> Any:
    """Return normal float32 numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def recurrences(native: Any, level: str) -> Iterator[tuple[str, Any]]:
    """Yield outputs and gradients of each recurrence."""
    for cell, (gates, saved, grads) in RECURRENCES.items():
        for batch, steps, size in SIZES:
            weight, bias = draw(gates * size, size) / size, draw(gates * size)
            first = [draw(batch, size, seed=n) for n in range(2)]
            xg = draw(batch * steps, gates * size)
            out = {
                "states": np.zeros((batch, steps, size), np.float32),
                "last_h": np.zeros((batch, size), np.float32),
                "last_c": np.zeros((batch, size), np.float32),
                "saved": np.zeros((batch * steps, saved * size), np.float32),
            }
            how = (level, 1, 0, cell, False, False, batch, steps, size, 0)
            given = [part.ctypes.data for part in (weight, bias, *first, xg)]
            native.sweep_forward(*how, *given, *(part.ctypes.data for part in out.values()))
            back = {
                "grads": np.zeros((batch * steps, grads * size), np.float32),
                "grad_h": np.zeros((batch, size), np.float32),
                "grad_c": np.zeros((batch, size), np.float32),
            }
            pulls = [draw(*part.shape, seed=9) for part in list(out.values())[:3]]
            kept = [weight, first[1], out["states"], out["saved"], *pulls]
            addresses = [part.ctypes.data for part in (*kept, *back.values())]
            native.sweep_backward(*how, *addresses)
            for name, part in (out | back).items():
                yield f"{cell} {size} {name}", part


def losses(native: Any, level: str) -> Iterator[tuple[str, Any]]:
    """Yield nats and gradients of the layer with softmax."""
    for rows, width, vocabulary in ((1, 3, 5), (37, 33, 131)):
        given = [draw(rows, width), draw(vocabulary, width), draw(vocabulary)]
        grads = [np.zeros_like(part) for part in given]
        nats, targets = np.zeros(rows), np.arange(rows) % vocabulary
        rest = (1.0 / rows, 0.0, 1 << 20, "float32", 1, level)
        native.softmax_loss(*given, targets, nats, None, *grads, *rest)
        for name, part in zip(("nats", "x", "weight", "bias"), (nats, *grads), strict=True):
            yield f"loss {vocabulary} {name}", part


def readings(native: Any, level: str) -> Iterator[tuple[str, Any]]:
    """Yield the nats of ids read, and ids written, in each format of the weights."""
    size, vocabulary = 37, 70
    for weight_format in range(3):
        for cell, (gates, again) in GATES.items():
            packed = native.Generator(weight_format, level)
            by_state = (draw(again * size, size) / 6, draw(again * size)) if again else (None, None)
            by_input = draw(gates * size, size) / 6, draw(gates * size)
            packed.add_layer(cell, False, False, *by_input, *by_state, *(None,) * 5, False)
            ends = draw(vocabulary, size), False, None, draw(vocabulary, size), draw(vocabulary)
            packed.set_ends(*ends)
            state = np.zeros((3, packed.state_size), np.float32)
            ids, nats = np.arange(27).reshape(3, 9), np.zeros((3, 9))
            packed.read(state, ids, np.full(3, 9), ids, None, nats, 1)
            yield f"read {cell} {weight_format}", nats
            last, tokens = np.zeros(3, np.int64), np.zeros((3, 20), np.int32)
            counts = [np.zeros(3, np.int64) for _ in range(2)]
            how = np.tile([1.0, 0.9, 0.0], (3, 1))
            listed = np.zeros(3, np.int64), np.arange(3, dtype=np.uint64), last[:0], last[:0]
            before = last, np.zeros(3, np.uint64), np.zeros(3, bool), tokens, *counts
            packed.generate(state, *before, how, *listed, None, 20, 1)
            assert counts[0].tolist() == [20, 20, 20]
            assert tokens.min() >= 0
            assert tokens.max() < vocabulary


def computed(native: Any, level: str) -> dict[str, Any]:
    """Return everything that the kernels of a level compute, by name."""
    parts = (*recurrences(native, level), *losses(native, level), *readings(native, level))
    return dict(parts)


def main() -> None:
    """Write or compare, as the arguments say."""
    native, results = module_at(sys.argv[1]), Path(sys.argv[2])
    if len(sys.argv) == 3:
        np.savez(results, **computed(native, "auto"))
        return
    want = np.load(results)
    for level in native.levels():
        found = computed(native, level)
        assert set(found) == set(want)
        for name, part in found.items():
            # int8: a number on the edge of a step moves what follows by a 127th.
            bound = 0.3 if name.endswith(" 2") and name.startswith("read") else CLOSE
            largest = max(1.0, float(np.abs(want[name]).max()))
            apart = float(np.abs(part - want[name]).max()) / largest
            if not apart <= bound:
                sys.exit(f"{sys.argv[3]}, {level}, {name}: {apart} apart, allowed: {bound}")
        print(f"{sys.argv[3]}, {level}: {len(found)} results agree")


if __name__ == "__main__":
    main()
