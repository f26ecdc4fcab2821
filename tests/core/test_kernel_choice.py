"""The plan says what runs and why; fast paths have the values and gradients of their twin."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.cells.registry import CELLS
from elman.errors import RunError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_module import NOT_BUILT, native_level
from elman.kernels.scan import SCANS
from elman.kernels.torch_fused import NO_REASON, TORCH_KERNELS, why_no_torch_kernel
from elman.layers.recurrence import recur

X_BTE = torch.zeros(2, 3, 4)

built = pytest.mark.skipif(not native_level(), reason=NOT_BUILT)


@pytest.fixture(autouse=True)
def _no_forced_kernels(monkeypatch) -> None:
    monkeypatch.delenv("ELMAN_KERNELS", raising=False)


def test_every_cell_has_a_kernel_or_a_reason_why_there_is_none() -> None:
    for key in {name.split(",")[0] for name in CELLS}:
        has_kernel = key in TORCH_KERNELS or key in SCANS
        assert has_kernel != (why_no_torch_kernel(key) != NO_REASON), key
    assert not TORCH_KERNELS.keys() & SCANS.keys()


def test_record_tells_what_ran_and_why() -> None:
    plan = KernelPlan()
    assert plan.find("lstm", X_BTE) is not None
    assert plan.find("gru/before/keep", X_BTE) is None
    assert plan.find("no/such/cell", X_BTE) is None
    assert plan.find("lstm", X_BTE[:, :1]) is None
    assert plan.find("gru/after/keep", X_BTE[:, :1]) is not None
    record = plan.record()
    assert record["lstm"] == "torch: the fused operator"
    assert record["gru/before/keep"].startswith(
        "reference: torch's GRU applies the reset gate after"
    )
    assert record["no/such/cell"].startswith("reference: no fused operator")
    assert record["lstm, one step"].startswith("reference: ")
    assert record["gru/after/keep"] == "torch: the fused operator"
    assert (record["choice"], record["precision"]) == ("auto", "float32")


@pytest.mark.parametrize("choice", ["auto", "native", "torch", "reference"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_plan_from_a_record_makes_the_same_choices(choice, precision) -> None:
    def decide(plan):
        inputs = (X_BTE, X_BTE[:, :1], X_BTE.double())
        kernels = [plan.find_native(key, x_BTE, 5) for key in CELLS for x_BTE in inputs]
        kernels += [plan.find(key, x_BTE) for key in CELLS for x_BTE in inputs]
        return [kernel is None for kernel in kernels], plan.record()

    plan = KernelPlan(choice, precision)
    want = decide(plan)
    assert decide(KernelPlan.from_record(plan.record())) == want


def test_broken_records_and_unknown_choices_are_refused() -> None:
    with pytest.raises(RunError, match="must name a choice and a precision"):
        KernelPlan.from_record({"choice": "magic", "precision": "float32"})
    with pytest.raises(RunError, match="got missing, missing"):
        KernelPlan.from_record({})
    with pytest.raises(SettingError, match="allowed: auto, native, torch, reference"):
        KernelPlan("fastest")
    with pytest.raises(SettingError, match="allowed: float32, bfloat16"):
        KernelPlan("auto", "float16")


@built
def test_native_kernels_run_where_they_are_offered_and_say_so() -> None:
    plan = KernelPlan()
    kernel = plan.find_native("gru/before/keep", X_BTE, 5)
    assert kernel is not None
    assert plan.record()["gru/before/keep"] == f"native: {native_level()}"
    assert plan.record()["level"] == native_level()
    assert plan.record()["threads"] == str(torch.get_num_threads())
    assert plan.find_native("lstm", X_BTE.double(), 5) is None
    plan.find("lstm", X_BTE.double())
    assert plan.record()["lstm"] == (
        "torch: the fused operator; not native: native kernels take float32 on a CPU"
    )
    for choice in ("torch", "reference"):
        assert KernelPlan(choice).find_native("lstm", X_BTE, 5) is None
    assert plan.find_native("lstm", X_BTE, 5, needs_loop="noise") is None


@built
def test_native_alone_leaves_the_rest_to_the_loop() -> None:
    plan = KernelPlan("native")
    assert plan.find_native("lstm+projection", X_BTE, 5) is None
    assert plan.find("lstm+projection", X_BTE) is None
    assert plan.record()["lstm+projection"] == (
        "reference; not native: no native kernel has these equations"
    )
    assert plan.find("mingru", X_BTE) is SCANS["mingru"]


def test_a_run_is_not_resumed_by_other_instructions_in_silence() -> None:
    record = {**KernelPlan().record(), "level": "avx1024"}
    plan = KernelPlan.from_record(record)
    with pytest.raises(RunError, match=r"instruction set that is not offered here; got avx1024"):
        recur(CELLS["gru/after/keep"](4, 5), X_BTE, None, None, plan=plan)
    recur(CELLS["mgu"](4, 5), X_BTE, None, None, plan=plan)


def test_a_run_that_began_without_native_kernels_goes_on_without() -> None:
    for record in ({"choice": "auto", "precision": "float32"}, KernelPlan(level="").record()):
        plan = KernelPlan.from_record(record)
        recur(CELLS["gru/after/keep"](4, 5), X_BTE, None, None, plan=plan)
        assert plan.record()["gru/after/keep"].startswith("torch: the fused operator; not native: ")


def test_environment_forces_the_twin_and_refuses_what_it_does_not_know(monkeypatch) -> None:
    monkeypatch.setenv("ELMAN_KERNELS", "reference")
    plan = KernelPlan("torch")
    assert plan.find("lstm", X_BTE) is None
    assert plan.record()["lstm"] == "reference: asked for"
    assert KernelPlan.from_record({"choice": "torch", "precision": "float32"}).choice == "reference"
    monkeypatch.setenv("ELMAN_KERNELS", "fastest")
    with pytest.raises(SettingError, match="ELMAN_KERNELS is unknown; got 'fastest'"):
        KernelPlan()


@settings(max_examples=25, deadline=None)
@given(
    key=st.sampled_from(sorted({**TORCH_KERNELS, **SCANS})),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 6), st.integers(1, 9)),
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    direction=st.sampled_from(["forward", "backward"]),
)
def test_fast_paths_have_the_values_and_gradients_of_the_twin(
    key, sizes, seed, dtype, direction
) -> None:
    batch_size, num_steps, input_size, hidden_size = sizes
    generator = torch.Generator().manual_seed(seed)
    cell = CELLS[key](input_size, hidden_size)
    cell.initialise(generator)
    cell.to(dtype)
    x_BTE = torch.randn(batch_size, num_steps, input_size, generator=generator, dtype=dtype)
    x_BTE.requires_grad_()
    lengths_B = torch.randint(0, num_steps + 1, (batch_size,), generator=generator)
    first = cell.pack_state(
        [
            torch.randn(batch_size, size, generator=generator, dtype=dtype)
            for size in cell.state_sizes
        ]
    )

    def run(path):
        plan = KernelPlan(path)
        states_BTH, last = recur(cell, x_BTE, first, lengths_B, plan=plan, direction=direction)
        total = states_BTH.sin().sum() + sum(part.cos().sum() for part in last)
        total = total + 0 * x_BTE.sum()  # rows that are all empty have no graph
        grads = torch.autograd.grad(total, [x_BTE, *cell.weights], materialize_grads=True)
        return [states_BTH, *last, *grads]

    # Gradients of weights are sums over all rows and steps, hence the factor over one rounding.
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    for got, want in zip(run("torch"), run("reference"), strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("key", TORCH_KERNELS)
def test_bfloat16_is_for_training_alone_and_hands_float32_back(key: str) -> None:
    generator = torch.Generator().manual_seed(1)
    cell = CELLS[key](16, 24)
    cell.initialise(generator)
    x_BTE = torch.randn(4, 6, 16, generator=generator).requires_grad_()
    plain, coarse = KernelPlan("torch"), KernelPlan("torch", "bfloat16")
    with torch.no_grad():
        want_BTH, _ = recur(cell, x_BTE, None, None, plan=plain)
        got_BTH, _ = recur(cell, x_BTE, None, None, plan=coarse)
        assert torch.equal(got_BTH, want_BTH)
        assert coarse.record()[key] == "torch: the fused operator"
    lengths_B = torch.tensor([6, 2, 6, 0])
    want_BTH, _ = recur(cell, x_BTE, None, lengths_B, plan=plain)
    got_BTH, last = recur(cell, x_BTE, None, lengths_B, plan=coarse)
    assert coarse.record()[key] == "torch: the fused operator, products in bfloat16"
    assert got_BTH.dtype == torch.float32
    assert all(part.dtype == torch.float32 for part in last)
    # bfloat16 has 8 bits of mantissa: 2^-8 = 0.004 a rounding, a few of them over six steps.
    torch.testing.assert_close(got_BTH, want_BTH, rtol=0, atol=0.03)
    assert not torch.equal(got_BTH, want_BTH)
    want = torch.autograd.grad(want_BTH.sum(), [x_BTE, *cell.weights])
    for got, wanted in zip(
        torch.autograd.grad(got_BTH.sum(), [x_BTE, *cell.weights]), want, strict=True
    ):
        assert got.dtype == torch.float32
        assert (got - wanted).norm() < 0.03 * wanted.norm()


def test_bfloat16_leaves_float64_and_the_twin_alone() -> None:
    plan = KernelPlan("torch", "bfloat16")
    plan.find("lstm", X_BTE.double())
    assert plan.record()["lstm"] == "torch: the fused operator"
    plan = KernelPlan("reference", "bfloat16")
    assert plan.find("lstm", X_BTE) is None


@built
def test_auto_gives_torch_the_shapes_of_an_lstm_that_it_is_faster_on() -> None:
    def is_native(rows: int, units: int, *, ragged: bool = False) -> bool:
        x_BTE = torch.zeros(rows, 3, 2)
        return KernelPlan().find_native("lstm", x_BTE, units, is_ragged=ragged) is not None

    assert is_native(1, 200)
    assert not is_native(20, 200)
    assert is_native(20, 200, ragged=True)
    assert is_native(20, 1500)
    assert not is_native(20, 650)
    with torch.no_grad():
        assert is_native(20, 650)
    assert not is_native(256, 1500)
    plan = KernelPlan()
    assert plan.find_native("lstm", torch.zeros(32, 3, 2), 64) is None
    assert plan.find("lstm", torch.zeros(32, 3, 2)) is not None
    assert plan.record()["lstm"].startswith("torch: the fused operator; not native: oneDNN")
    native = KernelPlan("native")
    assert native.find_native("lstm", torch.zeros(32, 3, 2), 64) is not None


@built
def test_bfloat16_is_taken_where_it_is_faster_than_native_float32() -> None:
    plan = KernelPlan("auto", "bfloat16")
    assert plan.find_native("gru/after/keep", X_BTE, 64) is not None
    assert plan.find_native("gru/after/keep", X_BTE, 650) is None
    assert plan.find_native("lstm", X_BTE, 64) is None
    with torch.no_grad():  # scores are float32's
        assert plan.find_native("gru/after/keep", X_BTE, 650) is not None
