"""The native recurrence as operators of `torch.library`, which `torch.compile` keeps whole."""

from typing import Any

import torch
from torch import Tensor

from elman.kernels.native_passes import (
    NATIVE_CELLS,
    Kept,
    backward_pass,
    forward_pass,
    kept_tensors,
)
from elman.kernels.native_sweep import Course, OutputGradients, Swept


@torch.library.custom_op("elman::recurrence", mutates_args=(), device_types="cpu")
def recurrence_operator(
    key: str,
    level: str,
    num_steps: int,
    lengths_B: Tensor | None,
    is_backward: bool,
    units: int,
    x_BTE: Tensor,
    first_h_BH: Tensor,
    first_c_BH: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return states_BTH, both parts of the last state, and what the gradients need of the steps."""
    course = Course(level, num_steps, lengths_B, is_backward, units)
    weights = (weight_ih, weight_hh, bias_ih, bias_hh)
    swept, x_NE = forward_pass(key, course, x_BTE, first_h_BH, first_c_BH, *weights, keeps=True)
    assert swept.saved_NS is not None
    last_c_BH = x_BTE.new_empty(0) if swept.last_c_BH is None else swept.last_c_BH
    x_NE = x_BTE.new_empty(0) if lengths_B is None else x_NE  # no output may be a view of an input
    return swept.states_BTH, swept.last_h_BH, last_c_BH, swept.saved_NS, x_NE


def _recurrence_shapes(
    key: str,
    level: str,
    num_steps: int,
    lengths_B: Tensor | None,
    is_backward: bool,
    units: int,
    x_BTE: Tensor,
    first_h_BH: Tensor,
    first_c_BH: Tensor | None,
    *weights: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    cell, (batch_size, size) = NATIVE_CELLS[key], first_h_BH.shape
    new = x_BTE.new_empty
    if lengths_B is None:
        num_valid: Any = batch_size * num_steps
        x_NE = new(0)
    else:
        num_valid = torch.library.get_ctx().new_dynamic_size()
        x_NE = new(num_valid, x_BTE.shape[2])
    return (
        new(batch_size, num_steps, size),
        torch.empty_like(first_h_BH),
        new(0) if first_c_BH is None else torch.empty_like(first_c_BH),
        new(num_valid, cell.saved * size),
        x_NE,
    )


@torch.library.custom_op("elman::recurrence_gradients", mutates_args=(), device_types="cpu")
def _recurrence_gradients(
    key: str,
    level: str,
    num_steps: int,
    lengths_B: Tensor | None,
    is_backward: bool,
    units: int,
    grads: list[Tensor | None],
    saved: list[Tensor | None],
    shape: list[int],
) -> list[Tensor]:
    """Return the gradients of x, h, c, weight_ih, weight_hh, bias_ih, bias_hh; none of c: empty."""
    course = Course(level, num_steps, lengths_B, is_backward, units)
    x_NE, first_c_BH, weight_ih, weight_hh, states_BTH, saved_NS = saved
    assert x_NE is not None
    assert weight_ih is not None
    assert weight_hh is not None
    assert saved_NS is not None
    kept = Kept(x_NE, first_c_BH, weight_ih, weight_hh, states_BTH, saved_NS)
    found = backward_pass(
        key,
        course,
        OutputGradients(*grads),
        kept,
        (shape[0], shape[1], shape[2]),
        (True,) * 7,
    )
    out = [torch.empty(0) if part is None else part for part in found]
    out[5] = out[5].clone()  # a view of the sums otherwise
    return out


def _gradient_shapes(
    key: str,
    level: str,
    num_steps: int,
    lengths_B: Tensor | None,
    is_backward: bool,
    units: int,
    grads: list[Tensor | None],
    saved: list[Tensor | None],
    shape: list[int],
) -> list[Tensor]:
    _, first_c_BH, weight_ih, weight_hh, _, _ = saved
    assert weight_ih is not None
    assert weight_hh is not None
    new = weight_ih.new_empty
    state = (shape[0], weight_hh.shape[1])
    return [
        new(shape),
        new(state),
        new(0) if first_c_BH is None else new(state),
        torch.empty_like(weight_ih),
        torch.empty_like(weight_hh),
        *(new(weight_ih.shape[0]) for _ in range(2)),
    ]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    key, *course, x_BTE, _, first_c_BH, weight_ih, weight_hh, _, _ = inputs
    states_BTH, _, _, saved_NS, x_NE = output
    ctx.key, ctx.course, ctx.shape = key, course, x_BTE.shape
    x_NE = x_BTE if course[2] is None else x_NE
    swept = Swept(states_BTH, states_BTH, None, saved_NS)
    ctx.set_materialize_grads(False)
    kept = kept_tensors(key, x_NE, first_c_BH, (weight_ih, weight_hh), swept)
    ctx.save_for_backward(*kept)


def _backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    nothing = (None,) * 6
    if all(grad is None for grad in grads[:3]):
        return (*nothing, *(None,) * 7)
    x_NE, *kept = ctx.saved_tensors
    x_NE = x_NE.contiguous().view(-1, x_NE.shape[-1])
    of_c = None if kept[0] is None else grads[2]
    found = _recurrence_gradients(
        ctx.key, *ctx.course, [grads[0], grads[1], of_c], [x_NE, *kept], list(ctx.shape)
    )
    return (*nothing, *found[:2], None if kept[0] is None else found[2], *found[3:])


recurrence_operator.register_fake(_recurrence_shapes)
recurrence_operator.register_autograd(_backward, setup_context=_save)
_recurrence_gradients.register_fake(_gradient_shapes)
