"""The boundary of the native sweeps: the same bits on any threads, no crash whatever comes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.errors import ShapeError
from elman.kernels import native_module
from elman.kernels.native_module import NOT_BUILT, native_level, native_levels
from elman.kernels.native_passes import NATIVE_CELLS
from elman.kernels.native_sweep import Course, OutputGradients, sweep_backward, sweep_forward

pytestmark = pytest.mark.skipif(not native_level(), reason=NOT_BUILT)

REFUSALS = (TypeError, ValueError, ShapeError)


def forward_arguments(key, batch, steps, size, *, lengths=None, seed=0):
    """What `sweep_forward` takes, of the right shapes."""
    cell, generator = NATIVE_CELLS[key], torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    num_valid = batch * steps if lengths is None else sum(lengths)
    lengths_B = None if lengths is None else torch.tensor(lengths)
    return {
        "cell": cell,
        "course": Course(native_level(), steps, lengths_B),
        "xg_NG": normal(num_valid, cell.gates * size),
        "first_h_BH": normal(batch, size),
        "first_c_BH": normal(batch, size) if cell.has_memory else None,
        "weight_hh": normal(cell.gates * size, size) / size**0.5,
        "bias_hh": normal(cell.gates * size),
        "keeps": True,
    }


def backward_arguments(forward, swept, *, seed=0):
    """What `sweep_backward` takes after the sweep that gave `swept`."""
    generator = torch.Generator().manual_seed(seed)
    grads = [
        None if part is None else torch.randn(part.shape, generator=generator) for part in swept[:3]
    ]
    return {
        "cell": forward["cell"],
        "course": forward["course"],
        "grads": OutputGradients(*grads),
        "saved_NS": swept.saved_NS,
        "states_BTH": swept.states_BTH,
        "first_c_BH": forward["first_c_BH"],
        "weight_hh": forward["weight_hh"],
        "batch_size": forward["first_h_BH"].shape[0],
    }


def both_sweeps(forward):
    swept = sweep_forward(**forward)
    return [*swept, *sweep_backward(**backward_arguments(forward, swept))]


@pytest.mark.parametrize("key", NATIVE_CELLS)
@pytest.mark.parametrize("level", native_levels())
def test_sweeps_give_the_same_bits_on_any_threads_however_units_are_split(key, level) -> None:
    before = torch.get_num_threads()
    forward = forward_arguments(key, 5, 4, 67, lengths=[4, 1, 0, 3, 4])
    found = []
    try:
        for count, units in ((1, 0), (2, 1), (2, 2), (3, 0), (4, 2), (8, 1), (8, 8)):
            torch.set_num_threads(count)
            course = forward["course"]._replace(level=level, units=units)
            found.append(both_sweeps({**forward, "course": course}))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for want, got in zip(found[0], other, strict=True):
            assert want is got is None or torch.equal(want, got)


@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_a_row_has_the_same_bits_in_any_batch(key) -> None:
    forward = forward_arguments(key, 30, 3, 37)
    states_BTH, last_BH, *_ = sweep_forward(**forward)
    for rows in ([0], [29, 3], list(range(7, 20))):
        some = dict(forward)
        for name in ("first_h_BH", "first_c_BH"):
            some[name] = None if some[name] is None else some[name][rows]
        some["xg_NG"] = forward["xg_NG"].view(30, 3, -1)[rows].view(len(rows) * 3, -1)
        got_BTH, got_BH, *_ = sweep_forward(**some)
        assert torch.equal(got_BTH, states_BTH[rows])
        assert torch.equal(got_BH, last_BH[rows])


def spoiled(value, how):
    """`value` in a form that does not fit."""
    if how == "none":
        return None
    if how == "number":
        return 3
    if how == "double":
        return value.double()
    if how == "meta":
        return value.to("meta")
    if how == "strided":
        return torch.cat([value, value], dim=-1)[..., ::2] if value.shape[-1] > 1 else None
    if how == "longer":
        return torch.cat([value, value])
    if how == "flat":
        return value.flatten()[:-1]
    if how == "negated":
        return torch.complex(value, value).conj().imag
    assert how == "empty"
    return value[:0]


TENSORS = ("xg_NG", "first_h_BH", "first_c_BH", "weight_hh", "bias_hh")
TENSORS_BACK = ("saved_NS", "states_BTH", "first_c_BH", "weight_hh")
WAYS = ("none", "number", "double", "meta", "strided", "longer", "flat", "negated", "empty")


@settings(max_examples=200, deadline=None)
@given(
    key=st.sampled_from(sorted(NATIVE_CELLS)),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 20)),
    name=st.sampled_from(TENSORS),
    name_back=st.sampled_from((*TENSORS_BACK, "grads")),
    how=st.sampled_from(WAYS),
)
def test_what_does_not_fit_is_refused(key, sizes, name, name_back, how) -> None:
    forward = forward_arguments(key, *sizes)
    backward = backward_arguments(forward, sweep_forward(**forward))
    if forward[name] is not None:
        with pytest.raises(REFUSALS):
            sweep_forward(**{**forward, name: spoiled(forward[name], how)})
    if name_back == "grads":
        if how != "none":
            for place, grad in enumerate(backward["grads"]):
                if grad is not None:
                    grads = list(backward["grads"])
                    grads[place] = spoiled(grad, how)
                    with pytest.raises(REFUSALS):
                        sweep_backward(**{**backward, "grads": OutputGradients(*grads)})
    elif backward[name_back] is not None and (name_back != "states_BTH" or "elman" in key):
        with pytest.raises(REFUSALS):
            sweep_backward(**{**backward, name_back: spoiled(backward[name_back], how)})


@pytest.mark.parametrize(
    "lengths_B",
    [
        torch.tensor([3, 4]),
        torch.tensor([-1, 3]),
        torch.tensor([2**62, 2**62]),
        torch.tensor([3, 3, 0]),
        torch.tensor([3]),
        torch.tensor([3, 3], dtype=torch.int32),
        torch.tensor([3.0, 3.0]),
        torch.tensor([3, 0, 3])[::2],
        torch.tensor([2, 3]),
    ],
    ids=lambda lengths_B: str(lengths_B.tolist()),
)
def test_lengths_that_do_not_fit_are_refused(lengths_B) -> None:
    forward = forward_arguments("lstm", 2, 3, 5)
    backward = backward_arguments(forward, sweep_forward(**forward))
    is_good = lengths_B.tolist() == [3, 3] and lengths_B.dtype == torch.int64
    course = Course(native_level(), 3, lengths_B)
    assert not is_good or not lengths_B.is_contiguous()
    with pytest.raises(REFUSALS):
        sweep_forward(**{**forward, "course": course})
    with pytest.raises(REFUSALS):
        sweep_backward(**{**backward, "course": course})


@pytest.mark.parametrize(
    ("course", "problem"),
    [
        (Course("avx1024", 3), "unknown or not offered"),
        (Course("", 3), "unknown or not offered"),
        (Course(native_level(), 3, units=-1), "units"),
        (Course(native_level(), 4), "xg_NG"),
        (Course(native_level(), 0), "xg_NG"),
    ],
)
def test_courses_that_cannot_be_are_refused(course, problem) -> None:
    with pytest.raises(REFUSALS, match=problem):
        sweep_forward(**{**forward_arguments("gru/after/keep", 2, 3, 5), "course": course})


@pytest.mark.parametrize("sizes", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)])
@pytest.mark.parametrize("key", NATIVE_CELLS)
def test_sizes_of_nothing_are_refused(key, sizes) -> None:
    with pytest.raises(REFUSALS):
        sweep_forward(**forward_arguments(key, *sizes))


def test_a_batch_too_large_for_memory_is_refused() -> None:
    forward = forward_arguments("elman/tanh", 2, 3, 5)
    with pytest.raises((RuntimeError, *REFUSALS)):
        sweep_forward(**{**forward, "course": Course(native_level(), 2**61)})


def test_unknown_equations_are_refused() -> None:
    forward = forward_arguments("elman/tanh", 2, 3, 5)
    with pytest.raises(REFUSALS, match="cell must be"):
        sweep_forward(**{**forward, "cell": forward["cell"]._replace(equations="mgu")})
    with pytest.raises(TypeError):
        native_module.native.sweep_forward("auto", 1)


def test_rows_of_no_steps_hand_their_state_and_its_gradient_on() -> None:
    forward = forward_arguments("lstm", 3, 4, 9, lengths=[0, 0, 0])
    swept = sweep_forward(**forward)
    assert swept.states_BTH.eq(0).all()
    assert torch.equal(swept.last_h_BH, forward["first_h_BH"])
    assert torch.equal(swept.last_c_BH, forward["first_c_BH"])
    backward = backward_arguments(forward, swept)
    back = sweep_backward(**backward)
    assert torch.equal(back.first_h_BH, backward["grads"].last_h_BH)
    assert torch.equal(back.first_c_BH, backward["grads"].last_c_BH)
