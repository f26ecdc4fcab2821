"""The native loss: values and gradients of the twin, odd sizes, extremes, threads, levels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, linear

from elman.errors import ShapeError
from elman.kernels import native_loss
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_loss import native_loss_precision, row_nats, summed_nats
from elman.kernels.native_module import native, native_level, native_levels
from elman.layers.readout import Readout
from elman.losses import token_loss, token_nats

pytestmark = pytest.mark.skipif(native is None, reason="the native module is not built")

NATS = 3e-6
"""Of a row's nats against float64, for logits up to about 20: they are rounded to 24 bits."""
SHARE = 3e-6
"""Of the largest gradient: sums of up to some hundred terms in float32; and 3e-8 where it is 0."""


def arrays(num_rows: int, width: int, vocabulary_size: int, seed: int, spread: float = 1.0):
    draw = torch.Generator().manual_seed(seed)
    x_NF = torch.randn(num_rows, width, generator=draw)
    weight_VF = torch.randn(vocabulary_size, width, generator=draw) * spread / max(width, 1) ** 0.5
    bias_V = torch.randn(vocabulary_size, generator=draw)
    targets_N = torch.randint(vocabulary_size, (num_rows,), generator=draw)
    return [x_NF, weight_VF, bias_V], targets_N


def both(
    inputs, targets_N, smoothing: float = 0.0, precision: str = "float32", level: str = "auto"
):
    """Value and gradients of the mean, native in float32 and by torch in float64."""
    mine = [part.clone().requires_grad_() for part in inputs]
    count = max(len(targets_N), 1)
    how = {"smoothing": smoothing, "precision": precision, "level": level}
    nats, plain = summed_nats(*mine, targets_N, count=count, **how)
    got = [nats, plain, *torch.autograd.grad(nats / count, mine)]
    exact = [part.double().requires_grad_() for part in inputs]
    logits_NV = linear(*exact)
    loss = cross_entropy(logits_NV, targets_N, reduction="sum", label_smoothing=smoothing)
    plain = cross_entropy(logits_NV, targets_N, reduction="sum")
    return got, [loss, plain, *torch.autograd.grad(loss / count, exact)]


def assert_close(got, want, nats: float = NATS, share: float = SHARE) -> None:
    for left, right in zip(got[:2], want[:2], strict=True):
        torch.testing.assert_close(left, right, rtol=nats, atol=nats)
    for left, right in zip(got[2:], want[2:], strict=True):
        scale = float(right.data.abs().max()) if right.numel() else 0.0
        torch.testing.assert_close(left.double(), right, rtol=0.0, atol=share * scale + 3e-8)


@settings(max_examples=60, deadline=None)
@given(
    num_rows=st.sampled_from([1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 70, 129]),
    width=st.sampled_from([1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 65, 200]),
    vocabulary_size=st.sampled_from([1, 2, 3, 6, 11, 12, 13, 25, 65, 97, 200, 513]),
    most=st.sampled_from([1, 500, 1 << 22]),
    smoothing=st.sampled_from([0.0, 0.1]),
    threads=st.integers(1, 3),
    level=st.sampled_from(native_levels() or ("",)),
    seed=st.integers(0, 2**31),
)
def test_values_and_gradients_are_those_of_float64(
    num_rows, width, vocabulary_size, most, smoothing, threads, level, seed
) -> None:
    inputs, targets_N = arrays(num_rows, width, vocabulary_size, seed)
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_loss, "NATIVE_LOGITS_AT_ONCE", most)
        torch.set_num_threads(threads)
        try:
            assert_close(*both(inputs, targets_N, smoothing, level=level))
            got_N = row_nats(*inputs, targets_N, level=level)
        finally:
            torch.set_num_threads(before)
    want_N = cross_entropy(linear(*(p.double() for p in inputs)), targets_N, reduction="none")
    torch.testing.assert_close(got_N, want_N, rtol=NATS, atol=NATS)


def test_no_rows_give_no_nats_and_zero_gradients() -> None:
    inputs, targets_N = arrays(0, 5, 7, seed=1)
    for got in both(inputs, targets_N)[0]:
        assert got.eq(0).all()
    assert row_nats(*inputs, targets_N).shape == (0,)


def test_blocks_and_shares_change_results_by_rounding_alone(monkeypatch) -> None:
    inputs, targets_N = arrays(150, 40, 700, seed=2)
    want = both(inputs, targets_N)[0]
    before = torch.get_num_threads()
    for most, threads in ((1, 1), (20_000, 2), (40_000, 5), (1 << 22, 64)):
        monkeypatch.setattr(native_loss, "NATIVE_LOGITS_AT_ONCE", most)
        torch.set_num_threads(threads)
        try:
            got, again = both(inputs, targets_N)[0], both(inputs, targets_N)[0]
        finally:
            torch.set_num_threads(before)
        assert_close(got, [part.double() for part in want])
        assert all(torch.equal(left, right) for left, right in zip(got, again, strict=True))


@pytest.mark.parametrize("height", [1e4, 3e38])
def test_logits_far_apart_keep_exact_nats(height) -> None:
    x_NF = torch.ones(3, 1)
    weight_VF = torch.tensor([[height], [0.0], [-height]])
    got_N = row_nats(x_NF, weight_VF, torch.zeros(3), torch.tensor([0, 1, 2]))
    want_N = torch.tensor([0.0, height, 2 * height], dtype=torch.float64)
    torch.testing.assert_close(got_N, want_N, rtol=1e-7, atol=0.0)
    inputs = [x_NF[:2], weight_VF, torch.zeros(3)]
    got, want = both(inputs, torch.tensor([1, 2]))
    assert_close(got[:2], want[:2])
    for left, right in zip(got[2:], want[2:], strict=True):
        torch.testing.assert_close(left.double(), right, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("level", native_levels() or ("",))
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("height", [1e6, 1e12, 1e16, 1e17, -1e17, 3e38])
@pytest.mark.parametrize("vocabulary_size", [6, 700])
def test_what_all_logits_have_in_common_cancels(level, threads, height, vocabulary_size) -> None:
    inputs, targets_N = arrays(5, 3, vocabulary_size, seed=7)
    inputs[0].zero_()
    inputs[2].fill_(height)
    want_N = torch.full((5,), vocabulary_size, dtype=torch.float64).log()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        got_N = row_nats(*inputs, targets_N, level=level)
        torch.testing.assert_close(got_N, want_N, rtol=1e-12, atol=0)
        for smoothing in (0.0, 0.1):
            made = summed_nats(*inputs, targets_N, count=5, smoothing=smoothing, level=level)
            torch.testing.assert_close(torch.stack(made), want_N.sum().expand(2), rtol=1e-6, atol=0)
        # Half of them higher, one after the other, so that the greatest logit changes on the way.
        inputs[2][: vocabulary_size // 2] -= abs(height) * 2**-20
        assert_close(*both(inputs, targets_N, 0.1, level=level))
    finally:
        torch.set_num_threads(before)


def test_far_chunks_of_the_vocabulary_meet_without_overflow() -> None:
    inputs, targets_N = arrays(20, 3, 1000, seed=3)
    inputs[2] = torch.linspace(-2e3, 2e3, 1000)
    # Logits of 2000 are rounded to 1.2e-4, and so are, relatively, their exponentials.
    assert_close(*both(inputs, targets_N), nats=1e-6, share=2e-4)
    inputs[2] = inputs[2].flip(0)
    assert_close(*both(inputs, targets_N), nats=1e-6, share=2e-4)


@pytest.mark.parametrize("odd", [float("inf"), float("nan"), float("-inf")])
@pytest.mark.parametrize("place", [0, 250, 499])
def test_infinities_and_nan_come_out_as_of_torch(odd, place) -> None:
    inputs, targets_N = arrays(5, 3, 500, seed=4)
    targets_N[targets_N == place] = 7
    inputs[2][place] = odd
    got, want = both(inputs, targets_N)
    if odd == float("-inf"):  # a token that cannot be: not an error
        assert_close(got, want)
    else:
        assert all(part.isnan().any() for part in (*got, *want))
    inputs[2].fill_(float("-inf"))
    assert row_nats(*inputs, targets_N).isnan().all()


def test_one_bad_row_spoils_no_other_row() -> None:
    inputs, targets_N = arrays(40, 3, 50, seed=5)
    clean_N = row_nats(*inputs, targets_N)
    inputs[0][3] = float("nan")
    got_N = row_nats(*inputs, targets_N)
    assert got_N[3].isnan()
    keep = torch.arange(40) != 3
    assert torch.equal(got_N[keep], clean_N[keep])


def test_wrong_targets_and_arrays_are_refused() -> None:
    inputs, targets_N = arrays(4, 3, 5, seed=6)
    for bad in (-1, 5, 2**40):
        targets_N[2] = bad
        with pytest.raises(ShapeError, match=r"ids of the vocabulary; got -?\d+; allowed: 0 … 4"):
            summed_nats(*inputs, targets_N, count=4)
    none = [None] * 4
    nats_N, good_N = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
    rest = (1.0, 0.0, 100, "float32", 1, "auto")
    with pytest.raises(ValueError, match="targets must lie in"):
        native.softmax_loss(*inputs, good_N - 1, nats_N, *none, *rest)
    with pytest.raises(ValueError, match=r"weight must be \[V, F\]"):
        native.softmax_loss(inputs[0], torch.zeros(5, 2), inputs[2], good_N, nats_N, *none, *rest)
    with pytest.raises(TypeError):  # strided: a copy would be scored
        native.softmax_loss(
            inputs[0].t().contiguous().t(), *inputs[1:], good_N, nats_N, *none, *rest
        )
    with pytest.raises(ValueError, match="all or not at all"):
        native.softmax_loss(*inputs, good_N, nats_N, None, torch.zeros(4, 3), None, None, *rest)


def test_gradients_scale_with_what_is_asked_and_are_taken_as_they_are_for_the_mean() -> None:
    inputs, targets_N = arrays(6, 4, 9, seed=7)
    leaves = [part.requires_grad_() for part in inputs]
    nats, _ = summed_nats(*leaves, targets_N, count=6)
    mean = torch.autograd.grad(nats / 6, leaves, retain_graph=True)
    triple = torch.autograd.grad(nats * 3, leaves, retain_graph=True)
    again = torch.autograd.grad(nats / 6, leaves, retain_graph=True)
    for one, other, three in zip(mean, again, triple, strict=True):
        assert torch.equal(one, other)
        torch.testing.assert_close(three, one * 18, rtol=1e-6, atol=0.0)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(nats, leaves, create_graph=True)


def test_gradients_in_memory_of_their_own_are_the_same_to_the_bit(monkeypatch) -> None:
    inputs, targets_N = arrays(9, 5, 70, seed=12)
    leaves = [part.requires_grad_() for part in inputs]
    found = []
    for large_bytes in (1 << 60, 1):
        monkeypatch.setattr(native_loss, "LARGE_BYTES", large_bytes)
        nats, _ = summed_nats(*leaves, targets_N, count=9)
        found.append(torch.autograd.grad(nats / 9, leaves))
        del nats  # the pages live as long as the gradients
    for left, right in zip(*found, strict=True):
        assert torch.equal(left, right)


def test_plain_loss_beside_a_smoothed_one_has_no_gradient() -> None:
    inputs, targets_N = arrays(6, 4, 9, seed=8)
    leaves = [part.requires_grad_() for part in inputs]
    minimised, plain = summed_nats(*leaves, targets_N, count=6, smoothing=0.2)
    assert minimised.requires_grad
    assert not plain.requires_grad


def test_operator_passes_torchs_own_checks() -> None:
    inputs, targets_N = arrays(6, 4, 9, seed=9)
    torch.library.opcheck(
        native_loss._softmax_loss,
        (
            *(part.clone().requires_grad_() for part in inputs),
            targets_N,
            0.0,
            1.0,
            "float32",
            "auto",
        ),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )
    torch.library.opcheck(native_loss._softmax_nats, (*inputs, targets_N, "auto"))


def test_token_losses_run_natively_record_it_and_equal_the_twin() -> None:
    draw = torch.Generator().manual_seed(10)
    states_BTH = torch.randn(3, 7, 5, generator=draw, requires_grad=True)
    readout = Readout(5, 30)
    readout.initialise(draw)
    targets_BT, lengths_B = torch.randint(30, (3, 7), generator=draw), torch.tensor([7, 0, 4])
    fast, slow = KernelPlan(), KernelPlan("reference")
    for loss in (token_loss, token_nats):
        found = []
        for plan in (fast, slow):
            with torch.no_grad():
                nats = loss(states_BTH, readout, targets_BT, lengths_B, plan=plan)
            found.append(nats.nats if loss is token_loss else nats)
        torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6)
    grads = []
    for plan in (fast, slow):
        mean = token_loss(states_BTH, readout, targets_BT, lengths_B, plan=plan).mean()
        grads.append(torch.autograd.grad(mean, [states_BTH, *readout.parameters()]))
    for left, right in zip(*grads, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-7)
    assert fast.record()["loss"].startswith("native: ")
    assert slow.record()["loss"] == "torch: reference was asked for"


def test_bfloat16_products_are_used_where_there_are_any_and_stay_close() -> None:
    precision, told = native_loss_precision("bfloat16", native_level())
    if precision == "float32":
        assert "no products in bfloat16" in told
        pytest.skip("this processor has no products in bfloat16")
    for num_rows, width, vocabulary_size in ((1, 3, 200), (33, 17, 97), (100, 64, 1000)):
        inputs, targets_N = arrays(num_rows, width, vocabulary_size, seed=width)
        for smoothing in (0.0, 0.1):
            got, want = both(inputs, targets_N, smoothing, "bfloat16")
            # Factors have 8 bits: 2^-9 of each product, which add up at random over the width.
            torch.testing.assert_close(got[0], want[0], rtol=2e-3, atol=2e-3)
            for left, right in zip(got[2:], want[2:], strict=True):
                assert (left.double() - right).norm() < 1e-2 * right.norm()


def test_bfloat16_is_for_gradients_alone() -> None:
    inputs, targets_N = arrays(30, 20, 50, seed=11)
    readout = Readout(20, 50)
    with torch.no_grad():
        readout.weight.copy_(inputs[1])
        exact, coarse = (
            token_loss(
                inputs[0].unsqueeze(0), readout, targets_N.unsqueeze(0), plan=KernelPlan("auto", p)
            ).nats
            for p in ("float32", "bfloat16")
        )
    assert torch.equal(exact, coarse)
