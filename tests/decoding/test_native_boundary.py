"""The boundary of native generation: what does not fit is refused in Python's words."""

import numpy as np
import pytest
import torch
from native_models import CELLS, GREEDY, built, packed_of, random_sampling, small_model

from elman.decoding.generation import row_choices
from elman.decoding.packing import pack_for_generation
from elman.errors import RunError, SettingError
from elman.kernels import native_module
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import (
    GeneratorRows,
    LayerWeights,
    ModelWeights,
    NativeGenerator,
)

TWO = np.array([[1, 2]])


def arrays(size: int, rows: int = 2, steps: int = 3) -> dict[str, object]:
    """What `generate` takes, all of it right for a vocabulary of 20."""
    return {
        "state": np.zeros((rows, size), dtype=np.float32),
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


def wrong(name: str, value: object) -> list[object]:
    """Values near `value` that must be refused."""
    if isinstance(value, int):
        return [0, -1, 2.5, None, "one"]
    if not isinstance(value, np.ndarray):
        return ["no function", 3]
    found: list[object] = [None, "an array", value[..., None], value[::-1][::-1].astype(np.float16)]
    found += [value.astype(np.float64 if value.dtype != np.float64 else np.float32)]
    if name not in ("forbidden", "stops"):
        found += [np.concatenate([value, value]), value[:1], np.repeat(value, 2, 0)[::2]]
        found += [value[:0]]
    if name in ("last_ids", "forbidden", "stops"):
        shape = value.shape if value.size else (1,)
        found += [np.full(shape, -1), np.full(shape, 20), np.full(shape, 2**62)]
    if name == "how":
        for bad in ((np.nan, 1, 0), (-1, 1, 0), (np.inf, 1, 0), (1, 0, 0), (1, 1.1, 0), (1, 1, 2)):
            found.append(np.tile(np.array(bad, dtype=np.float64), (2, 1)))
    if name == "top_ks":
        found.append(np.full(2, -1))
    if name == "state":
        found += [np.zeros((2, 7), dtype=np.float32), torch.zeros(2, 4).t().contiguous().t()]
    return found


@built
@pytest.mark.parametrize("name", list(arrays(4)))
def test_an_argument_that_does_not_fit_is_refused(name: str) -> None:
    packed = packed_of(small_model({"kind": "lstm"}, 20, seed=1))
    good = arrays(packed.state_size)
    packed._packed.generate(*good.values())
    for bad in wrong(name, good[name]):
        if name == "callback":
            expected: tuple[type[Exception], ...] = (TypeError, RuntimeError)
        else:
            expected = (TypeError, ValueError)
        with pytest.raises(expected):
            packed._packed.generate(*(good | {name: bad}).values())
    packed._packed.generate(*good.values())  # and nothing is broken


@built
def test_reading_refuses_what_does_not_fit() -> None:
    packed = packed_of(small_model({"kind": "gru"}, 20, seed=1))
    state = packed.zero_rows(2)
    ids_BT = np.array([[1, 2, 3], [4, 5, 6]])
    packed.read(state, ids_BT)
    for bad_ids, lengths in (
        (np.array([[1, 2, 20], [4, 5, 6]]), None),
        (np.array([[1, 2, -1], [4, 5, 6]]), None),
        (ids_BT[:1], None),
        (ids_BT, [3, 4]),
        (ids_BT, [3, -1]),
        (ids_BT, [3]),
    ):
        with pytest.raises(ValueError, match=r"outside the vocabulary|must be|within 0"):
            packed.read(state, bad_ids, lengths)
    with pytest.raises(ValueError, match="outside the vocabulary"):
        packed.read(state, ids_BT, targets_BT=ids_BT + 15)
    before = state.copy()
    packed.read(state, ids_BT[:, :0])  # nothing to read changes nothing
    packed.read(packed.zero_rows(0), ids_BT[:0])
    np.testing.assert_array_equal(state, before)
    packed.read(state, np.array([[1, 20], [2, 30]]), [1, 1])  # padding is never looked at


def reading_arrays(packed: NativeGenerator) -> dict[str, object]:
    """What `read` takes, all of it right."""
    return {
        "state": packed.zero_rows(2),
        "ids": np.ones((2, 3), dtype=np.int64),
        "lengths": np.full(2, 3),
        "targets": np.ones((2, 3), dtype=np.int64),
        "states": np.zeros((2, 3, packed.output_size), dtype=np.float32),
        "nats": np.zeros((2, 3)),
        "num_threads": 1,
    }


@built
@pytest.mark.parametrize(
    "name", ["state", "ids", "lengths", "targets", "states", "nats", "num_threads"]
)
def test_an_argument_of_reading_that_does_not_fit_is_refused(name: str) -> None:
    packed = packed_of(small_model({"kind": "lstm"}, 20, seed=1))
    good = reading_arrays(packed)
    packed._packed.read(*good.values())
    value = good[name]
    bad: list[object] = [0, -1, 2.5, None, "one"]
    if isinstance(value, np.ndarray):
        bad = ["an array", value[..., None], value.astype(np.float16), value[:1], value[:0]]
        bad += [np.concatenate([value, value]), np.repeat(value, 2, -1)[..., ::2]]
        bad += [torch.from_numpy(value).to("meta"), value.astype(value.dtype.newbyteorder())]
        read_only = value.copy()
        read_only.setflags(write=False)
        bad.append(read_only)
        if name != "states":
            bad.append(None)
        if name in ("ids", "targets"):
            bad += [np.full_like(value, n) for n in (-1, 20, 2**62, -(2**63))]
        if name == "lengths":
            bad += [np.array([3, n]) for n in (-1, 4, 2**62, -(2**63))]
    for other in bad:
        with pytest.raises((TypeError, ValueError)):
            packed._packed.read(*(good | {name: other}).values())
    packed._packed.read(*good.values())


@built
def test_a_listener_that_spoils_the_ids_is_refused() -> None:
    packed = packed_of(small_model({"kind": "gru"}, 20, seed=1))
    for bad in (20, -1, 2**62):
        rows = GeneratorRows(packed.zero_rows(2), [3, 4])

        def spoil(_first: int, _stop: int, rows: GeneratorRows = rows, bad: int = bad) -> bool:
            rows.last_ids[1] = bad
            return False

        with pytest.raises(ValueError, match="outside the vocabulary"):
            packed.generate(rows, row_choices([GREEDY, GREEDY]), 5, on_tokens=spoil)


@built
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45])
def test_odd_numbers_in_a_state_end_in_tokens_or_an_error(odd: float, precision: str) -> None:
    for cell in CELLS:
        model = small_model(cell, 20, seed=1)
        packed, _ = pack_for_generation(model, KernelPlan(), precision)  # type: ignore[arg-type]
        assert packed is not None
        rows = GeneratorRows(packed.zero_rows(2), [3, 4])
        rows.state[0, 1::3] = odd
        try:
            tokens, _ = packed.generate(rows, row_choices([GREEDY, GREEDY]), 5)
        except RunError:  # its logits are not finite
            tokens = rows.last_ids
        assert tokens.min() >= 0
        assert tokens.max() < 20


@built
@pytest.mark.parametrize(
    "place", ["ih", "hh", "bias_ih", "bias_hh", "embedding", "readout", "bias"]
)
def test_weights_that_do_not_fit_are_not_packed(place: str) -> None:
    ones = torch.ones
    good = {
        "ih": ones(12, 2),
        "bias_ih": ones(12),
        "hh": ones(12, 3),
        "bias_hh": ones(12),
        "embedding": ones(9, 2),
        "readout": ones(9, 3),
        "bias": ones(9),
    }

    def pack(parts: dict[str, torch.Tensor]) -> NativeGenerator:
        layer = LayerWeights("lstm", tuple(parts[n] for n in ("ih", "hh", "bias_ih", "bias_hh")))
        ends = parts["readout"], parts["bias"]
        return NativeGenerator(ModelWeights(parts["embedding"], (layer,), None, *ends))

    assert pack(good).state_size == 6
    value = good[place]
    for bad in (
        value.double(),
        value.to("meta"),
        value.to_sparse(),
        torch.cat([value, value]),
        value[1:],
        value[:0],
        value[..., :0],
        value.unsqueeze(0),
        value.flatten()[:-1],
    ):
        with pytest.raises((TypeError, ValueError, IndexError, RuntimeError, SettingError)):
            pack(good | {place: bad})
    for same in (torch._neg_view(-value), torch.stack([value, value], dim=-1)[..., 0]):
        got = pack(good | {place: same})
        nats = [
            packed.read(packed.zero_rows(1), TWO, targets_BT=TWO) for packed in (got, pack(good))
        ]
        np.testing.assert_array_equal(*nats)


@built
def test_nothing_to_write_changes_nothing() -> None:
    packed = packed_of(small_model({"kind": "lstm"}, 20, seed=1))
    rows = GeneratorRows(packed.zero_rows(2), [3, 4])
    tokens, counts = packed.generate(rows, row_choices([GREEDY, GREEDY]), 0)
    assert tokens.shape == (2, 0)
    assert counts.tolist() == [0, 0]
    assert rows.last_ids.tolist() == [3, 4]
    none = GeneratorRows(packed.zero_rows(0), [])
    assert packed.generate(none, row_choices([]), 5)[0].shape == (0, 5)
    rows.ended[:] = True
    assert (packed.generate(rows, row_choices([GREEDY, GREEDY]), 5)[0] == -1).all()


@built
def test_layers_and_ends_that_do_not_meet_are_refused() -> None:
    native, ones = native_module.native, torch.ones
    nothing = (None,) * 5

    def lstm(packed, read=3, units=2, state=2) -> None:
        weights = ones(4 * units, read), ones(4 * units), ones(4 * units, state), ones(4 * units)
        packed.add_layer("lstm", False, False, *weights, *nothing, False)

    for bad in ({"state": 3}, {"units": 0, "state": 0}, {"read": 0}):
        with pytest.raises(ValueError, match="must be"):
            lstm(native.Generator(0), **bad)
    with pytest.raises(ValueError, match="equation gru is unknown"):
        native.Generator(0).add_layer("gru", True, False, ones(6, 2), *(None,) * 8, False)
    with pytest.raises(ValueError, match="format"):
        native.Generator(3)
    with pytest.raises(ValueError, match="level"):
        native.Generator(0, "avx1024")
    packed = native.Generator(0)
    lstm(packed)
    with pytest.raises(ValueError, match="must read what the one below writes"):
        lstm(packed, read=3)
    with pytest.raises(ValueError, match="no readout yet"):
        packed.read(
            np.zeros((1, 4), np.float32), *[np.zeros((1, 1), int), np.ones(1, int)], *nothing[:3], 1
        )
    for embedding, readout, bias in (
        (ones(9, 2), ones(9, 2), ones(9)),
        (ones(8, 3), ones(9, 2), ones(9)),
        (ones(9, 3), ones(9, 3), ones(9)),
        (ones(9, 3), ones(9, 2), ones(8)),
        (None, ones(9, 2), ones(9)),
        (ones(9, 3).double(), ones(9, 2), ones(9)),
        (ones(3, 9).t(), ones(9, 2), ones(9)),
    ):
        with pytest.raises((ValueError, TypeError)):
            packed.set_ends(embedding, False, None, readout, bias)
    packed.set_ends(ones(9, 3), False, None, ones(9, 2), ones(9))
    for late in (
        lambda: lstm(packed, read=2),
        lambda: packed.set_ends(ones(9, 3), False, None, ones(9, 2), ones(9)),
    ):
        with pytest.raises(ValueError, match=r"layers come before|ends come once"):
            late()


@built
@pytest.mark.parametrize("seed", range(30))
def test_any_size_is_right_or_refused(seed: int) -> None:
    draws = np.random.default_rng(1000 + seed)
    hidden, vocabulary_size = int(draws.integers(1, 90)), int(draws.integers(1, 200))
    sizes = {"hidden_size": hidden, "embedding_size": int(draws.integers(1, 90))}
    cell = CELLS[int(draws.integers(len(CELLS)))]
    if "projection_size" in cell:
        sizes["projection_size"] = int(draws.integers(1, hidden + 1))
    print(seed, cell, sizes, vocabulary_size)
    packed = packed_of(
        small_model(cell | sizes | {"num_layers": 1 + seed % 3}, vocabulary_size, seed)
    )
    count = int(draws.integers(0, 7))
    rows = GeneratorRows(
        packed.zero_rows(count), [int(n) for n in draws.integers(0, vocabulary_size, count)]
    )
    samplings = [random_sampling(draws, vocabulary_size) for _ in range(count)]
    tokens, counts = packed.generate(rows, row_choices(samplings), 7)
    assert (counts == 7).all()
    assert tokens.size == 0 or (tokens.min() >= 0 and tokens.max() < vocabulary_size)
