"""Native kernels have the values and gradients of the readable loop, at any size and level."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.cells.registry import CELLS
from elman.kernels import native_module
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_module import (
    LEVEL_VARIABLE,
    NOT_BUILT,
    native_level,
    native_levels,
)
from elman.kernels.native_passes import NATIVE_CELLS
from elman.kernels.native_recurrence import NativeKernel, why_no_native_kernel
from elman.layers.recurrence import recur

pytestmark = pytest.mark.skipif(not native_level(), reason=NOT_BUILT)

PARITY_32 = 1e-5
"""Of the largest value: float32, sums of up to some hundred terms in another order, another exp."""


@pytest.fixture
def threads():
    """Put the number of threads back."""
    count = torch.get_num_threads()
    yield
    torch.set_num_threads(count)


def values_for(key, sizes, seed, *, scale=0.7):
    """Normal values in float64 for inputs, the parts of the state, weights, and what weighs."""
    batch, steps, width, hidden = sizes
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    cell = CELLS[key](width, hidden)
    first = [normal(batch, size) for size in cell.state_sizes]
    weights = [scale * normal(*w.shape) / max(w.shape[-1], 1) ** 0.5 for w in cell.weights]
    weigh = [normal(batch, steps, hidden), *(normal(batch, hidden) for _ in first)]
    lengths_B = torch.randint(0, steps + 1, (batch,), generator=generator)
    return cell, normal(batch, steps, width), first, weights, weigh, lengths_B


def run_both(key, sizes, seed, *, uses=("states", "last"), ragged=True, way="forward", units=0):
    """Values and gradients of the loop in float64 and of the kernel in float32, weighed alike."""
    cell, x_BTE, first, weights, weigh, lengths_B = values_for(key, sizes, seed)
    lengths_B = lengths_B if ragged else None
    found = []
    for dtype in (torch.float64, torch.float32):
        leaves = [v.to(dtype).requires_grad_() for v in (x_BTE, *first, *weights)]
        state, w = tuple(leaves[1 : 1 + len(first)]), leaves[1 + len(first) :]
        names = [name for name, _ in cell.named_parameters()]
        twin = cell.to(dtype).with_weights(dict(zip(names, w, strict=True)))
        if dtype == torch.float64:
            plan = KernelPlan("reference")
            begin = twin.pack_state(state)
            states, last = recur(twin, leaves[0], begin, lengths_B, plan=plan, direction=way)
        else:
            kernel = NativeKernel(key, native_level(), units)
            states, last = kernel(leaves[0], state, twin.kernel_weights, lengths_B, way)
        parts = [*([states] if "states" in uses else []), *(last if "last" in uses else [])]
        pulls = [*([weigh[0]] if "states" in uses else []), *(weigh[1:] if "last" in uses else [])]
        loss = sum((part * pull.to(dtype)).sum() for part, pull in zip(parts, pulls, strict=True))
        grads = torch.autograd.grad(loss, leaves, materialize_grads=True, allow_unused=True)
        found.append([states.detach(), *(part.detach() for part in last), *grads])
    return found


def assert_agree(want, got):
    for w, g in zip(want, got, strict=True):
        assert g.dtype == torch.float32
        bound = PARITY_32 * max(1.0, w.abs().max().item() if w.numel() else 1.0)
        torch.testing.assert_close(g.double(), w, rtol=PARITY_32, atol=bound)


@pytest.mark.parametrize("key", NATIVE_CELLS)
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 27), st.integers(1, 9), st.integers(1, 40), st.integers(1, 70)),
    seed=st.integers(0, 2**31),
    ragged=st.booleans(),
    way=st.sampled_from(["forward", "backward"]),
    units=st.integers(0, 3),
    count=st.integers(1, 4),
)
def test_kernel_has_values_and_gradients_of_the_loop(
    key, sizes, seed, ragged, way, units, count
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        assert_agree(*run_both(key, sizes, seed, ragged=ragged, way=way, units=units))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("level", native_levels())
@pytest.mark.parametrize("key", NATIVE_CELLS)
@pytest.mark.parametrize("hidden", [1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 47, 48, 49])
def test_every_level_agrees_at_the_edges_of_its_tiles(key, hidden, level, monkeypatch) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, level)
    for batch in (1, 2, 7, 8, 9, 12, 13, 25):
        assert_agree(*run_both(key, (batch, 3, 5, hidden), hidden * 100 + batch))


@pytest.mark.parametrize("key", NATIVE_CELLS)
@pytest.mark.parametrize("uses", [("states",), ("last",)])
def test_gradients_from_one_output_alone_are_those_of_the_loop(key, uses) -> None:
    assert_agree(*run_both(key, (5, 6, 7, 19), 1, uses=uses))


@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_without_gradients_the_values_have_the_same_bits(key) -> None:
    cell, x_BTE, first, *_, lengths_B = values_for(key, (5, 4, 6, 21), 2)
    state = tuple(part.float() for part in first)
    kernel, weights = NativeKernel(key, native_level()), cell.kernel_weights
    got, got_last = kernel(x_BTE.float(), state, weights, lengths_B)
    with torch.no_grad():
        want, want_last = kernel(x_BTE.float(), state, weights, lengths_B)
    assert got.requires_grad
    assert not want.requires_grad
    for left, right in zip((want, *want_last), (got, *got_last), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("key", NATIVE_CELLS)
@pytest.mark.parametrize("level", native_levels())
def test_saturated_and_nan_inputs_stay_in_their_rows(key, level) -> None:
    cell = CELLS[key](2, 20)
    cell.initialise(torch.Generator().manual_seed(3))
    x_BTE = torch.zeros(3, 4, 2)
    x_BTE[0] = 1e4
    x_BTE[1, 2, 0] = float("nan")
    state = tuple(cell.zero_state(3))
    with torch.no_grad():
        states, last = NativeKernel(key, level)(x_BTE, state, cell.kernel_weights)
    assert states[0].isfinite().all()
    assert states[1, :2].isfinite().all()
    assert states[1, 2:].isnan().all()
    assert last[0][1].isnan().all()
    assert states[2].isfinite().all()


@pytest.mark.parametrize("key", NATIVE_CELLS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), odd=st.sampled_from([float("nan"), float("inf"), -1e38, 3e38]))
def test_nan_and_infinity_come_out_where_the_loop_has_them(key, seed, odd) -> None:
    cell, x_BTE, first, _, _, lengths_B = values_for(key, (4, 5, 3, 18), seed)
    cell.initialise(torch.Generator().manual_seed(seed))
    x_BTE = x_BTE.float()
    place = torch.randint(0, x_BTE.numel(), (1,), generator=torch.Generator().manual_seed(seed))
    x_BTE.view(-1)[place] = odd
    state = tuple(part.float() for part in first)
    with torch.no_grad():
        plan = KernelPlan("reference")
        want, want_last = recur(cell, x_BTE, cell.pack_state(state), lengths_B, plan=plan)
        got, got_last = NativeKernel(key, native_level())(
            x_BTE, state, cell.kernel_weights, lengths_B
        )
    for left, right in zip((want, *want_last), (got, *got_last), strict=True):
        torch.testing.assert_close(right, left, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_strided_inputs_are_read_right(key) -> None:
    cell = CELLS[key](6, 21)
    cell.initialise(torch.Generator().manual_seed(4))
    x_TBE = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(5))
    kernel, weights = NativeKernel(key, native_level()), cell.kernel_weights
    state = tuple(torch.full((21, 5), 0.1 * i).t() for i, _ in enumerate(cell.state_names))
    x_BTE = x_TBE.transpose(0, 1)
    want, _ = kernel(x_BTE.contiguous(), state, weights)
    got, _ = kernel(x_BTE, state, weights)
    assert torch.equal(want, got)
    negated = torch.complex(x_BTE, -x_BTE).conj().imag
    got, _ = kernel(negated, state, weights)
    assert negated.is_neg()
    assert torch.equal(want, got)


@pytest.mark.parametrize("key", NATIVE_CELLS)
@pytest.mark.parametrize("ragged", [False, True])
def test_operator_keeps_its_promises_to_torch_and_survives_compiling(key, ragged) -> None:
    cell, x_BTE, first, *_, lengths_B = values_for(key, (2, 3, 3, 5), 6)
    cell.initialise(torch.Generator().manual_seed(6))
    lengths_B = torch.tensor([3, 2]) if ragged else None
    leaves = [part.float().requires_grad_() for part in (x_BTE, *first)]
    weights = [weight.detach().requires_grad_() for weight in cell.kernel_weights]
    state = (leaves[1], leaves[2] if len(leaves) > 2 else None)
    args = (key, native_level(), 3, lengths_B, False, 0, leaves[0], *state, *weights)
    torch.library.opcheck(
        torch.ops.elman.recurrence.default,
        args,
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )

    kernel = NativeKernel(key, native_level())

    def run(x_BTE, state, weights):
        return kernel(x_BTE, state, weights, lengths_B)[0]

    torch.compiler.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    results = []
    for function in (run, compiled):
        states = function(leaves[0], tuple(leaves[1:]), tuple(weights))
        grads = torch.autograd.grad(states.sin().sum(), [*leaves, *weights])
        results.append([states, *grads])
    for want, got in zip(*results, strict=True):
        assert torch.equal(want, got)


def test_second_derivatives_are_refused_and_not_wrong() -> None:
    cell = CELLS["lstm"](3, 4)
    x_BTE = torch.randn(2, 3, 3, requires_grad=True)
    kernel = NativeKernel("lstm", native_level())
    states, _ = kernel(x_BTE, tuple(cell.zero_state(2)), cell.kernel_weights)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(states.sum(), [x_BTE], create_graph=True)


@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_frozen_parts_get_no_gradient_and_change_no_other(key) -> None:
    cell, x_BTE, first, *_, lengths_B = values_for(key, (3, 4, 5, 6), 7)
    cell.initialise(torch.Generator().manual_seed(7))
    kernel = NativeKernel(key, native_level())
    leaves = [part.float() for part in (x_BTE, *first, *cell.kernel_weights)]
    leaves = [part.detach() for part in leaves]

    def grads_of(wanted):
        parts = [part.clone().requires_grad_(place in wanted) for place, part in enumerate(leaves)]
        state, weights = tuple(parts[1 : 1 + len(first)]), tuple(parts[1 + len(first) :])
        states, _ = kernel(parts[0], state, weights, lengths_B)
        return torch.autograd.grad(states.sin().sum(), [parts[place] for place in wanted])

    everything = grads_of(range(len(leaves)))
    for place in range(len(leaves)):
        (alone,) = grads_of([place])
        assert torch.equal(alone, everything[place])


def test_what_has_no_kernel_has_a_reason(monkeypatch) -> None:
    assert why_no_native_kernel("lstm", torch.zeros(1, 1, 1)) == ""
    assert "equations" in why_no_native_kernel("mgu", torch.zeros(1, 1, 1))
    assert "float32" in why_no_native_kernel("lstm", torch.zeros(1, 1, 1).double())
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in why_no_native_kernel("lstm", torch.zeros(1, 1, 1))
    monkeypatch.setattr(native_module, "native", None)
    assert why_no_native_kernel("lstm", torch.zeros(1, 1, 1)) == NOT_BUILT
    assert native_level() == ""
