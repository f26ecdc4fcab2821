"""Whatever arrays come to the recurrence and the loss: a clear error or the right result."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, linear

from elman.cells.registry import CELLS
from elman.errors import ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_loss import row_nats, summed_nats
from elman.kernels.native_module import NOT_BUILT, native_level
from elman.kernels.native_passes import NATIVE_CELLS
from elman.kernels.native_recurrence import NativeKernel
from elman.layers.recurrence import recur

pytestmark = pytest.mark.skipif(not native_level(), reason=NOT_BUILT)

REFUSALS = (TypeError, ValueError, ShapeError)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


WRONG = {
    "nothing": lambda _: None,
    "a number": lambda _: 3,
    "float64": lambda part: part.double(),
    "bfloat16": lambda part: part.bfloat16(),
    "float16": lambda part: part.half(),
    "integers": lambda part: part.int(),
    "complex": lambda part: torch.complex(part.float(), part.float()),
    "meta": lambda part: part.to("meta"),
    "sparse": lambda part: part.to_sparse(),
    "oneDNN's own": lambda part: part.float().to_mkldnn(),
    "twice as many": lambda part: torch.cat([part, part]),
    "wider": lambda part: torch.cat([part, part], dim=-1),
    "one less": lambda part: part[1:],
    "none of them": lambda part: part[:0],
    "no columns": lambda part: part[..., :0],
    "a scalar": lambda part: part.sum(),
    "one axis more": lambda part: part.unsqueeze(0),
    "flat": lambda part: part.flatten()[:-1],
}
"""What does not fit, of any part."""

RIGHT = {
    "strided": lambda part: torch.stack([part, part], dim=-1)[..., 0],
    "transposed in memory": lambda part: part.transpose(0, -1).contiguous().transpose(0, -1),
    "negated": lambda part: torch._neg_view(-part),
    "of an offset": lambda part: torch.cat([part.flatten()[:1], part.flatten()])[1:].view_as(part),
}
"""The same numbers, standing otherwise in memory."""


def recurrence_parts(key, sizes, seed=0):
    """A cell of random weights, and all that its kernel takes."""
    batch, steps, width, hidden = sizes
    cell = CELLS[key](width, hidden)
    cell.initialise(torch.Generator().manual_seed(seed))
    state = [normal(batch, hidden, seed=seed + n) for n, _ in enumerate(cell.state_names, 1)]
    weights = [weight.detach() for weight in cell.kernel_weights]
    return cell, [normal(batch, steps, width, seed=seed), *state, *weights]


def run_recurrence(cell, parts, lengths_B=None):
    """States, last state and the gradients of everything."""
    count = 1 + len(cell.state_names)
    parts = [part.requires_grad_() if isinstance(part, torch.Tensor) else part for part in parts]
    kernel = NativeKernel(cell.key, native_level())
    states, last = kernel(parts[0], tuple(parts[1:count]), tuple(parts[count:]), lengths_B)
    grads = torch.autograd.grad(states.sin().sum(), parts, allow_unused=True)
    return [states, *last, *grads]


def loss_parts(num_rows, width, vocabulary_size):
    targets_N = torch.randint(
        vocabulary_size, (num_rows,), generator=torch.Generator().manual_seed(3)
    )
    parts = [normal(num_rows, width), normal(vocabulary_size, width), normal(vocabulary_size)]
    return [*parts, targets_N]


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_the_recurrence_refuses_every_part_that_does_not_fit(key, how) -> None:
    _, parts = recurrence_parts(key, (3, 4, 5, 7))
    kernel = NativeKernel(key, native_level())
    for place in range(len(parts)):
        spoiled = list(parts)
        spoiled[place] = WRONG[how](parts[place])
        with pytest.raises((*REFUSALS, AttributeError)) as caught:
            kernel(spoiled[0], tuple(spoiled[1:-4]), tuple(spoiled[-4:]))
        assert not isinstance(caught.value, AttributeError) or how in ("nothing", "a number")


@pytest.mark.parametrize("how", RIGHT)
@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_the_recurrence_reads_numbers_wherever_they_stand(key, how) -> None:
    cell, parts = recurrence_parts(key, (3, 4, 5, 7))
    want = run_recurrence(cell, [part.clone() for part in parts])
    for place in range(len(parts)):
        moved = [part.clone() for part in parts]
        moved[place] = RIGHT[how](moved[place])
        for left, right in zip(run_recurrence(cell, moved), want, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_inputs_of_no_columns_leave_the_bias(key) -> None:
    cell, parts = recurrence_parts(key, (3, 4, 5, 7))
    parts[0] = torch.zeros(3, 4, 5)
    want = run_recurrence(cell, [part.clone() for part in parts])
    for place in (0, -4):
        parts[place] = parts[place][..., :0]
    got = run_recurrence(cell, [part.clone() for part in parts])
    for left, right in zip(got, want, strict=True):
        if left.numel():  # there is no gradient of no columns
            torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", NATIVE_CELLS)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (65, 2, 3, 1), (1, 700, 1, 3), (2, 2, 1, 401)])
def test_sizes_at_the_ends_have_the_values_of_the_loop(key, sizes) -> None:
    cell, parts = recurrence_parts(key, sizes)
    got = run_recurrence(cell, [part.clone() for part in parts])
    state = cell.pack_state(tuple(parts[1:-4]))
    want, _ = recur(cell, parts[0], state, None, plan=KernelPlan("reference"))
    scale = float(want.detach().abs().max())
    torch.testing.assert_close(got[0], want, rtol=1e-4, atol=1e-4 * scale)


@settings(max_examples=100, deadline=None)
@given(
    key=st.sampled_from(sorted(NATIVE_CELLS)),
    lengths=st.lists(
        st.one_of(st.integers(0, 4), st.sampled_from([-(2**63), -1, 5, 2**31, 2**63 - 1])),
        max_size=5,
    ),
    dtype=st.sampled_from([torch.int64, torch.int32, torch.float32, torch.bool]),
)
def test_lengths_are_all_right_or_refused(key, lengths, dtype) -> None:
    cell, parts = recurrence_parts(key, (3, 4, 2, 5))
    lengths_B = torch.tensor(lengths, dtype=torch.int64).to(dtype)
    is_right = dtype == torch.int64 and len(lengths) == 3 and all(0 <= n <= 4 for n in lengths)
    if not is_right:
        with pytest.raises(REFUSALS):
            run_recurrence(cell, parts, lengths_B)
        return
    states = run_recurrence(cell, parts, lengths_B)[0]
    for row, length in enumerate(lengths):
        assert states[row, length:].eq(0).all()
        assert states[row, :length].isfinite().all()


@pytest.mark.parametrize("how", WRONG)
def test_the_loss_refuses_every_part_that_does_not_fit(how) -> None:
    parts = loss_parts(4, 5, 7)
    for place in range(4):
        spoiled = list(parts)
        spoiled[place] = WRONG[how](parts[place])
        with pytest.raises(REFUSALS):
            row_nats(*spoiled)
        with pytest.raises(REFUSALS):
            summed_nats(*spoiled, count=4, smoothing=0.1)


@pytest.mark.parametrize("how", RIGHT)
def test_the_loss_reads_numbers_wherever_they_stand(how) -> None:
    parts = loss_parts(4, 5, 7)
    want_N = row_nats(*parts)
    for place in range(4):
        moved = list(parts)
        moved[place] = RIGHT[how](parts[place])
        assert torch.equal(row_nats(*moved), want_N)
        assert torch.equal(summed_nats(*moved, count=4)[0], want_N.sum())


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 70_001), (3, 2_501, 2), (40_001, 1, 3)])
def test_a_loss_of_sizes_at_the_ends_is_that_of_torch(sizes) -> None:
    parts = loss_parts(*sizes)
    logits_NV = linear(*(part.double() for part in parts[:3]))
    want_N = cross_entropy(logits_NV, parts[3], reduction="none")
    # Logits of up to some hundred are rounded to 24 bits.
    torch.testing.assert_close(row_nats(*parts), want_N, rtol=1e-5, atol=1e-4)


def test_a_loss_without_columns_or_vocabulary_is_refused() -> None:
    for sizes in ((2, 0, 3), (2, 3, 0)):
        num_rows, width, vocabulary_size = sizes
        parts = [normal(num_rows, width), normal(vocabulary_size, width), normal(vocabulary_size)]
        with pytest.raises(REFUSALS):
            row_nats(*parts, torch.zeros(num_rows, dtype=torch.int64))


@settings(max_examples=60, deadline=None)
@given(
    place=st.integers(0, 2),
    odd=st.sampled_from([float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 1e-45]),
    smoothing=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 2**31),
)
def test_odd_numbers_in_the_loss_end_in_what_torch_has(place, odd, smoothing, seed) -> None:
    parts = loss_parts(20, 3, 30)
    at = seed % parts[place].numel()
    parts[place] = parts[place].clone()
    parts[place].view(-1)[at] = odd
    got = summed_nats(*parts, count=20, smoothing=smoothing)[0]
    logits_NV = linear(*parts[:3]).double()
    want = cross_entropy(logits_NV, parts[3], reduction="sum", label_smoothing=smoothing)
    if want.isfinite():
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)
    else:
        assert not got.isfinite()
