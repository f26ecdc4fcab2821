"""Native kernels have the values and gradients of the readable loop, at any size and level."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.kernels import native_module
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_module import (
    LEVEL_VARIABLE,
    NOT_BUILT,
    native_level,
    native_levels,
)
from elman.kernels.native_recurrence import NATIVE_KERNELS, find_native
from elman.layers.recurrence import recur

built = pytest.mark.skipif(not native_level(), reason=NOT_BUILT)

PARITY_32 = 1e-5
"""Of the largest value: float32, sums of up to some hundred terms in another order, another exp."""
CELLS = {
    "gru/after/keep": GRUCell,
    "elman/tanh": ElmanCell,
    "elman/relu": lambda e, h: ElmanCell(e, h, activation="relu"),
}


@pytest.fixture(params=native_levels() or ("baseline",))
def level(request, monkeypatch) -> str:
    """One instruction set, forced."""
    monkeypatch.setenv(LEVEL_VARIABLE, request.param)
    return request.param


def run_both(key, sizes, seed, *, scale=0.7, uses=("states", "last")):
    """Values and gradients of the kernel in float32 and of the loop in float64, weighed alike."""
    batch, steps, width, hidden = sizes
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    cell = CELLS[key](width, hidden)
    values = [normal(batch, steps, width), normal(batch, hidden)]
    values += [scale * normal(*w.shape) / max(w.shape[-1], 1) ** 0.5 for w in cell.weights]
    weigh = normal(batch, steps, hidden), normal(batch, hidden)
    found = []
    for dtype in (torch.float64, torch.float32):
        x_BTE, h_BH, *weights = (v.to(dtype).requires_grad_() for v in values)
        names = [name for name, _ in cell.named_parameters()]
        twin = cell.to(dtype).with_weights(dict(zip(names, weights, strict=True)))
        if dtype == torch.float64:
            state = twin.pack_state([h_BH])
            states, (last,) = recur(twin, x_BTE, state, None, plan=KernelPlan("reference"))
        else:
            kernel, reason = find_native(key, x_BTE)
            assert kernel is not None, reason
            states, (last,) = kernel(x_BTE, (h_BH,), twin.kernel_weights)
        loss = 0.0 * last.sum()
        if "states" in uses:
            loss = loss + (states * weigh[0].to(dtype)).sum()
        if "last" in uses:
            loss = loss + (last * weigh[1].to(dtype)).sum()
        grads = torch.autograd.grad(loss, [x_BTE, h_BH, *weights])
        found.append([states.detach(), last.detach(), *grads])
    return found


def assert_agree(want, got):
    for w, g in zip(want, got, strict=True):
        assert g.dtype == torch.float32
        bound = PARITY_32 * max(1.0, w.abs().max().item())
        torch.testing.assert_close(g.double(), w, rtol=PARITY_32, atol=bound)


@built
@pytest.mark.parametrize("key", CELLS)
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 27), st.integers(1, 9), st.integers(1, 40), st.integers(1, 70)),
    seed=st.integers(0, 2**31),
)
def test_kernel_has_values_and_gradients_of_the_loop(key, sizes, seed) -> None:
    assert_agree(*run_both(key, sizes, seed))


@built
@pytest.mark.parametrize("key", CELLS)
@pytest.mark.parametrize("hidden", [1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 47, 48, 49])
@pytest.mark.parametrize("batch", [1, 2, 7, 8, 9, 12, 13, 25])
def test_every_level_agrees_at_the_edges_of_its_tiles(key, hidden, batch, level) -> None:
    assert_agree(*run_both(key, (batch, 3, 5, hidden), hidden * 100 + batch))


@built
@pytest.mark.parametrize("key", CELLS)
@pytest.mark.parametrize("uses", [("states",), ("last",)])
def test_gradients_from_one_output_alone_are_those_of_the_loop(key, uses) -> None:
    assert_agree(*run_both(key, (5, 6, 7, 19), 1, uses=uses))


@built
@pytest.mark.parametrize("key", CELLS)
def test_without_gradients_the_values_have_the_same_bits(key) -> None:
    cell = CELLS[key](6, 21)
    x_BTE, h_BH = torch.randn(5, 4, 6), torch.randn(5, 21)
    kernel = NATIVE_KERNELS[key]
    with torch.no_grad():
        want, (want_last,) = kernel(x_BTE, (h_BH,), cell.kernel_weights)
    got, (got_last,) = kernel(x_BTE, (h_BH,), cell.kernel_weights)
    assert got.requires_grad
    assert not want.requires_grad
    assert torch.equal(want, got)
    assert torch.equal(want_last, got_last)


@built
@pytest.mark.parametrize("key", CELLS)
def test_saturated_and_nan_inputs_stay_in_their_rows(key, level) -> None:
    cell = CELLS[key](2, 20)
    x_BTE = torch.zeros(3, 4, 2)
    x_BTE[0] = 1e4
    x_BTE[1, 2, 0] = float("nan")
    with torch.no_grad():
        states, _ = NATIVE_KERNELS[key](x_BTE, (torch.zeros(3, 20),), cell.kernel_weights)
    assert states[0].isfinite().all()
    assert states[1, :2].isfinite().all()
    assert states[1, 2:].isnan().all()
    assert states[2].isfinite().all()


@built
@pytest.mark.parametrize("key", CELLS)
def test_strided_inputs_are_read_right(key) -> None:
    cell = CELLS[key](6, 21)
    x_TBE = torch.randn(4, 5, 6)
    kernel = NATIVE_KERNELS[key]
    first = (torch.randn(21, 5).t(),)
    want, _ = kernel(x_TBE.transpose(0, 1).contiguous(), first, cell.kernel_weights)
    got, _ = kernel(x_TBE.transpose(0, 1), first, cell.kernel_weights)
    assert torch.equal(want, got)


@built
@pytest.mark.parametrize("key", CELLS)
def test_operator_keeps_its_promises_to_torch(key) -> None:
    cell = CELLS[key](3, 5)
    name = {"gru/after/keep": "gru"}.get(key, key.split("/")[-1])
    x_BTE, h_BH = torch.randn(2, 3, 3, requires_grad=True), torch.randn(2, 5, requires_grad=True)
    args = (name, x_BTE, h_BH, *(w.detach().requires_grad_() for w in cell.kernel_weights))
    torch.library.opcheck(
        torch.ops.elman.recurrence.default,
        args,
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


@built
@pytest.mark.parametrize("key", CELLS)
def test_thread_count_changes_values_within_the_tolerance_alone(key) -> None:
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3, 8):
            torch.set_num_threads(count)
            found.append(run_both(key, (5, 4, 3, 18), 2)[1])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        for w, g in zip(found[0], other, strict=True):
            torch.testing.assert_close(g, w, rtol=PARITY_32, atol=PARITY_32)


@built
def test_boundary_refuses_what_does_not_fit() -> None:
    native, ones = native_module.native, torch.ones
    good = [ones(2, 3, 12), ones(2, 4), ones(12, 4), ones(4), ones(2, 3, 4), None, 1]
    native.forward("gru", *good)
    for index, bad in (
        (0, ones(2, 3, 11)),
        (0, ones(2, 3, 12).double()),
        (1, ones(4, 2).t()),
        (2, ones(12, 5)),
        (3, ones(3)),
        (4, ones(2, 4, 3).transpose(1, 2)),
        (4, ones(0, 3, 4)),
        (5, ones(2, 3, 4)),
        (6, 0),
    ):
        with pytest.raises((TypeError, ValueError)):
            native.forward("gru", *good[:index], bad, *good[index + 1 :])
    with pytest.raises(ValueError, match="cell must be"):
        native.forward("lstm", *good)
    with pytest.raises(ValueError, match="unknown"):
        native.forward("gru", *good, level="avx1024")


def test_without_the_module_there_is_no_kernel_but_a_reason(monkeypatch) -> None:
    monkeypatch.setattr(native_module, "native", None)
    assert find_native("gru/after/keep", torch.zeros(1, 1, 1)) == (None, NOT_BUILT)
    assert native_level() == ""


@built
def test_what_has_no_kernel_has_a_reason() -> None:
    assert find_native("mgu", torch.zeros(1, 1, 1))[0] is None
    for x_BTE in (torch.zeros(1, 1, 1).double(), torch.zeros(1, 0, 1)):
        kernel, reason = find_native("elman/tanh", x_BTE)
        assert kernel is None
        assert reason
