"""Large products: each library gives the same numbers, and a choice once made stays."""

from types import SimpleNamespace

import pytest
import torch

from elman.errors import RunError
from elman.kernels import products
from elman.kernels.dispatch import KernelPlan
from elman.kernels.products import ProductPlan, make_product

SIZES = ((0, 3, 4), (1, 1, 1), (3, 0, 2), (7, 5, 333), (65, 33, 17))


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("library", ["torch", "onednn"])
@pytest.mark.parametrize(("rows", "inner", "columns"), SIZES)
def test_every_library_makes_the_same_products(library, rows, inner, columns) -> None:
    if library == "onednn" and (not products.has_onednn() or rows * inner * columns == 0):
        pytest.skip("oneDNN is not here, or would be given nothing")
    x, weight, bias = random(rows, inner), random(columns, inner), random(columns)
    for kind, left, right, added, want in (
        ("projection", x, weight, bias, x.double() @ weight.double().t() + bias.double()),
        ("projection", x, weight, None, x.double() @ weight.double().t()),
        ("input gradient", x, weight.t().contiguous(), None, x.double() @ weight.double().t()),
        ("weight gradient", x.t().contiguous(), weight.t(), None, x.double() @ weight.double().t()),
    ):
        got = make_product(kind, library, left, right, added)
        # Sums of up to 33 products of order 1 in float32.
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_methods_of_a_plan_are_the_three_products() -> None:
    plan, grad, x, weight = ProductPlan(), random(6, 5), random(6, 4), random(5, 4)
    assert torch.equal(plan.project(x, weight), x @ weight.t())
    assert torch.equal(plan.input_gradient(grad, weight), grad @ weight)
    assert torch.equal(plan.weight_gradient(grad, x), grad.t() @ x)
    assert plan.project(x.double(), weight.double()).dtype == torch.float64


def test_choice_is_measured_once_for_a_class_and_repeated_from_the_record(monkeypatch) -> None:
    calls = []

    def measured(kind, rows, inner, columns):
        calls.append((kind, rows, inner, columns))
        return "onednn"

    monkeypatch.setattr(products, "_measured", measured)
    monkeypatch.setattr(products, "has_onednn", lambda: True)
    plan = KernelPlan()
    assert plan.products.choose("projection", 700, 200, 33_278) == "onednn"
    assert plan.products.choose("projection", 513, 129, 65_536) == "onednn"  # of the same class
    assert plan.products.choose("projection", 16, 16, 16) == "torch"  # small: not measured
    assert calls == [("projection", 700, 200, 33_278)]
    record = plan.record()
    assert record["product, projection 1024 x 256 x 65536"] == "onednn"

    again = KernelPlan.from_record(record)
    assert again.products.choose("projection", 700, 200, 33_278) == "onednn"
    assert again.record() == record
    assert len(calls) == 1
    assert again.products.choose("input gradient", 700, 200, 33_278) == "onednn"
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("torch_seconds", "onednn_seconds", "faster"),
    [
        ([9, 3, 5, 4], [9, 4, 2, 9], "onednn"),
        ([9, 4, 2, 9], [9, 3, 5, 4], "torch"),
        ([99, 1, 1, 1], [2, 2, 2, 2], "torch"),  # the first is that of its preparations
        ([2, 2, 2, 2], [2, 2, 2, 2], "torch"),
    ],
)
@pytest.mark.parametrize("kind", ["projection", "input gradient", "weight gradient"])
def test_measuring_chooses_by_the_least_time_of_each(
    kind, torch_seconds, onednn_seconds, faster, monkeypatch
) -> None:
    now, left = 0.0, {"torch": list(torch_seconds), "onednn": list(onednn_seconds)}

    def make(got_kind, library, *factors):
        nonlocal now
        now += left[library].pop(0)
        return make_product(got_kind, "torch", *factors)  # which their shapes must allow

    monkeypatch.setattr(products, "make_product", make)
    monkeypatch.setattr(products, "time", SimpleNamespace(perf_counter=lambda: now))
    assert products._measured(kind, 6, 5, 4) == faster
    assert left == {"torch": [], "onednn": []}


@pytest.mark.skipif(not products.has_onednn(), reason="oneDNN is not here")
def test_measuring_is_in_float32_whatever_the_default_type(monkeypatch) -> None:
    seen = set()

    def make(kind, library, left, right):
        seen.update([left.dtype, right.dtype])
        return make_product(kind, library, left, right)

    monkeypatch.setattr(products, "make_product", make)
    torch.set_default_dtype(torch.float64)
    try:
        for kind in ("projection", "input gradient", "weight gradient"):
            assert ProductPlan().choose(kind, 200, 200, 200) in ("torch", "onednn")
    finally:
        torch.set_default_dtype(torch.float32)
    assert seen == {torch.float32}


def test_twin_measures_nothing_and_broken_records_are_refused(monkeypatch) -> None:
    monkeypatch.setenv("ELMAN_KERNELS", "reference")
    plan = KernelPlan()
    assert plan.products.choose("projection", 700, 200, 33_278) == "torch"
    assert plan.products.record() == {}
    with pytest.raises(RunError, match="allowed: torch, onednn"):
        ProductPlan.from_record({"product, projection 1 x 1 x 1": "abacus"})
