"""Weights in bfloat16 and int8: the packed model and its readable twin, and what they are."""

import numpy as np
import pytest
import torch
from native_models import CELLS, built, small_model

from elman.decoding.packing import pack_for_generation, rows_of
from elman.decoding.rounding import RoundedLanguageModel, round_rows
from elman.errors import SettingError
from elman.kernels import native_generation, native_module
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_module import LEVEL_VARIABLE, native_levels
from elman.losses import token_nats

LOOP = KernelPlan("reference")
PARITY = 2e-5
"""Of a value of order 1: float32 sums in another order."""
FLIP = 0.03
"""Of a value of order 1, in int8: where the order of a sum moves a number over the edge of a step,
what it is multiplied with moves by a 127th, here and at the steps after."""


@pytest.fixture(params=native_levels() or ("baseline",))
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One instruction set, forced."""
    monkeypatch.setenv(LEVEL_VARIABLE, request.param)
    return str(request.param)


def test_rows_are_rounded_to_127_steps_of_their_own() -> None:
    weight = torch.tensor([[1.27, -0.614, 0.006, 0.0], [0.0, 0.0, 0.0, 0.0], [-5.0, 2.5, 1.0, 4.9]])
    expected = torch.tensor(
        [[1.27, -0.61, 0.01, 0.0], [0.0] * 4, [-5.0, 64 * 5 / 127, 25 * 5 / 127, 124 * 5 / 127]]
    )
    torch.testing.assert_close(round_rows(weight, "int8"), expected, rtol=1e-6, atol=0)
    assert torch.equal(round_rows(weight, "bfloat16"), weight.to(torch.bfloat16).float())
    assert round_rows(weight, "float32") is weight
    torch.testing.assert_close(
        round_rows(round_rows(weight, "int8"), "int8"), expected, rtol=1e-6, atol=0
    )


@built
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
@pytest.mark.parametrize("table_bytes", [0, 1 << 24])
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_packed_weights_compute_what_the_rounded_model_does(
    cell: dict[str, object], table_bytes: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_generation, "TABLE_BYTES", table_bytes)
    model = small_model(cell | {"tie_weights": True}, 40, seed=5, scale=0.3)
    packed, _ = pack_for_generation(model, KernelPlan(), precision)  # type: ignore[arg-type]
    assert packed is not None
    draws = np.random.default_rng(8)
    ids_BT, targets_BT = draws.integers(0, 40, (2, 6, 8))
    rows_BS = packed.zero_rows(6)
    nats_BT = packed.read(rows_BS, ids_BT, targets_BT=targets_BT)
    twin = RoundedLanguageModel(model, precision)  # type: ignore[arg-type]
    through = RoundedLanguageModel(model, precision, packed)  # type: ignore[arg-type]
    targets = torch.from_numpy(targets_BT)
    with torch.no_grad():
        slow = twin(torch.from_numpy(ids_BT), plan=LOOP)
        fast = through(torch.from_numpy(ids_BT), plan=LOOP)
        slow_BT = token_nats(slow.states_BTH, slow.readout, targets).numpy()
        fast_BT = token_nats(fast.states_BTH, fast.readout, targets).numpy()
    bound = PARITY if precision == "bfloat16" else FLIP
    np.testing.assert_array_equal(rows_of(fast.state), rows_BS)
    np.testing.assert_allclose(nats_BT, slow_BT, atol=bound)
    np.testing.assert_allclose(nats_BT, fast_BT, atol=bound)
    np.testing.assert_allclose(rows_BS, rows_of(slow.state), atol=bound)
    assert np.median(np.abs(nats_BT - slow_BT)) < PARITY  # a number on the edge is rare
    with torch.no_grad():
        exact = model(torch.from_numpy(ids_BT), plan=LOOP)
        exact_BT = token_nats(exact.states_BTH, exact.readout, targets).numpy()
    moved = np.abs(slow_BT - exact_BT).mean()
    assert 1e-5 < moved < 0.1  # it is rounded, and near


@built
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 31, 64, 67])
def test_every_level_has_the_same_int8_sums(depth: int, level: str) -> None:
    """The edges of a step: the largest weights and inputs there are, of either sign."""
    model = small_model(
        {"hidden_size": depth, "embedding_size": depth, "num_layers": 1}, 70, seed=3
    )
    draws = np.random.default_rng(depth)
    for extreme in (False, True):
        with torch.no_grad():
            shape = model.readout.weight.shape
            signs = torch.from_numpy(draws.choice([-1.0, 1.0], shape).astype(np.float32))
            model.readout.weight.copy_(signs * (1.0 if extreme else torch.rand(shape) + 0.01))
        packed, _ = pack_for_generation(model, KernelPlan(), "int8")
        assert packed is not None
        ids_BT, targets_BT = draws.integers(0, 70, (2, 5, 3))
        nats_BT = packed.read(packed.zero_rows(5), ids_BT, targets_BT=targets_BT)
        twin = RoundedLanguageModel(model, "int8", packed)
        with torch.no_grad():
            output = twin(torch.from_numpy(ids_BT), plan=LOOP)
            expected = token_nats(output.states_BTH, output.readout, torch.from_numpy(targets_BT))
        np.testing.assert_allclose(nats_BT, expected.numpy(), rtol=1e-4, atol=1e-4)


@built
def test_int8_without_vnni_has_the_bits_of_int8_with_it() -> None:
    native = native_module.native
    draws = torch.Generator().manual_seed(1)
    weight = [torch.randn(4 * 37, 37, generator=draws) for _ in range(2)]
    readout = torch.randn(300, 37, generator=draws)
    found = []
    for uses_vnni in (True, False):
        packed = native.Generator(2, "auto", uses_vnni)
        nothing = (None,) * 5
        packed.add_layer("lstm", False, False, weight[0], None, weight[1], None, *nothing, False)
        embedding = torch.randn(300, 37, generator=torch.Generator().manual_seed(2))
        packed.set_ends(embedding, False, None, readout, torch.zeros(300))
        for rows in (1, 2, 5):
            state = np.zeros((rows, packed.state_size), dtype=np.float32)
            ids = np.arange(rows * 9).reshape(rows, 9)
            nats = np.zeros((rows, 9))
            packed.read(state, ids, np.full(rows, 9), ids, None, nats, 1)
            found.append((state.tobytes(), nats.tobytes()))
    assert found[:3] == found[3:]


@built
def test_a_number_that_is_none_stays_one() -> None:
    model = small_model({"kind": "elman", "activation": "identity"}, 9, seed=1)
    packed, _ = pack_for_generation(model, KernelPlan(), "int8")
    assert packed is not None
    for bad in (np.nan, np.inf):
        rows_BS = packed.zero_rows(1)
        rows_BS[0, 2] = bad
        packed.read(rows_BS, np.array([[1, 2]]))
        assert np.isnan(rows_BS).all()


@built
def test_fewer_bytes_are_read_for_each_token() -> None:
    model = small_model({"kind": "lstm", "hidden_size": 64, "embedding_size": 64}, 600, seed=1)
    sizes = []
    for precision in ("float32", "bfloat16", "int8"):
        packed, how = pack_for_generation(model, KernelPlan(), precision)  # type: ignore[arg-type]
        assert packed is not None
        assert how.endswith(f"{precision} weights")
        sizes.append(packed.weight_bytes)
    table = 4 * 4 * 64  # the row of the first product stays float32
    assert sizes[0] - table == 2 * (sizes[1] - table) == 4 * (sizes[2] - table)
    with pytest.raises(SettingError, match="precision of weights is unknown; got 'int4'"):
        pack_for_generation(model, KernelPlan(), "int4")  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_softmax_in_classes_is_refused_in_one_line(precision) -> None:
    model = small_model({"kind": "lstm", "softmax": "adaptive", "cutoffs": (5, 9)}, 20, seed=1)
    with pytest.raises(SettingError, match="one softmax over all tokens"):
        RoundedLanguageModel(model, precision)
