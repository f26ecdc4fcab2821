"""Forward and backward through a native recurrence: a sweep, and the large products around it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.kernels.native_arrays import plain_array, require_array, require_axes
from elman.kernels.native_sweep import (
    Course,
    OutputGradients,
    SweepCell,
    Swept,
    sweep_backward,
    sweep_forward,
)
from elman.kernels.products import has_onednn

NATIVE_CELLS: Mapping[str, SweepCell] = MappingProxyType(
    {
        "elman/tanh": SweepCell("tanh", 1, 1, 1),
        "elman/relu": SweepCell("relu", 1, 1, 1),
        "elman/identity": SweepCell("identity", 1, 1, 1),
        "gru/after/keep": SweepCell("gru/after", 3, 5, 4),
        "gru/after/replace": SweepCell("gru/after", 3, 5, 4, replaces=True),
        "gru/before/keep": SweepCell("gru/before", 3, 5, 3),
        "gru/before/replace": SweepCell("gru/before", 3, 5, 3, replaces=True),
        "lstm": SweepCell("lstm", 4, 6, 4, has_memory=True),
    }
)
"""The cells that have a native kernel, by the key of their equations."""


def project(x_NE: Tensor, weight_GE: Tensor, bias_G: Tensor | None) -> Tensor:
    """Return x W^T + b [N, G], by oneDNN where it is there: the faster one at the sizes of a sweep.

    The library is not measured, so that equal runs have equal bits without a record.
    oneDNN reads bias_G at its address, whatever its shape, strides and device, and takes no negated
    view for one: all must be checked and plain before.
    """
    if x_NE.numel() and weight_GE.numel() and has_onednn():
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x_NE, weight_GE, bias_G, "none", [], ""
        )
        return product
    return linear(x_NE, weight_GE, bias_G)


def weight_gradient(grads_NG: Tensor, x_NE: Tensor, out: Tensor) -> None:
    """Write Σ_n g_n x_n^T [G, E] to `out`; both factors may be columns of wider arrays."""
    torch.mm(grads_NG.t(), x_NE, out=out)


def _valid_steps(course: Course) -> Tensor:
    """Return where the valid steps stand among all B · T, row after row."""
    assert course.lengths_B is not None
    steps_T = torch.arange(course.num_steps)
    return (steps_T < course.lengths_B.unsqueeze(1)).view(-1).nonzero().squeeze(1)


def forward_pass(
    key: str,
    course: Course,
    x_BTE: Tensor,
    first_h_BH: Tensor,
    first_c_BH: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
    *,
    keeps: bool,
) -> tuple[Swept, Tensor]:
    """Return what the sweep gives, and the inputs of the valid steps [N, E].

    Raises as `sweep_forward` does.
    """
    cell = NATIVE_CELLS[key]
    for name, part, num_axes in (("x_BTE", x_BTE, 3), ("first_h_BH", first_h_BH, 2)):
        require_axes(name, part, num_axes)
    (batch_size, num_steps, width), size = x_BTE.shape, first_h_BH.shape[1]
    require_array("x_BTE", x_BTE, (first_h_BH.shape[0], course.num_steps, width))
    require_array("first_h_BH", first_h_BH, (batch_size, size))
    require_array("weight_ih", weight_ih, (cell.gates * size, width))
    require_array("bias_ih", bias_ih, (cell.gates * size,))
    x_NE = plain_array(x_BTE).view(batch_size * num_steps, width)
    if course.lengths_B is not None:
        course.num_valid(batch_size)  # raises before anything is looked up
        x_NE = x_NE.index_select(0, _valid_steps(course))
    swept = sweep_forward(
        cell,
        course,
        project(x_NE, weight_ih.resolve_neg(), plain_array(bias_ih)),
        plain_array(first_h_BH),
        None if first_c_BH is None else plain_array(first_c_BH),
        plain_array(weight_hh),
        plain_array(bias_hh),
        keeps=keeps,
    )
    return swept, x_NE


class Kept(NamedTuple):
    """What the backward pass needs of the forward pass; states_BTH for Elman cells alone."""

    x_NE: Tensor
    first_c_BH: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor
    states_BTH: Tensor | None
    saved_NS: Tensor


def kept_for_gradients(
    key: str, x_NE: Tensor, first_c_BH: Tensor | None, weights: tuple[Tensor, ...], swept: Swept
) -> Kept:
    """Return what the backward pass needs."""
    assert swept.saved_NS is not None
    states_BTH = swept.states_BTH if NATIVE_CELLS[key].gates == 1 else None
    return Kept(x_NE, first_c_BH, weights[0], weights[1], states_BTH, swept.saved_NS)


def backward_pass(
    key: str,
    course: Course,
    grads: OutputGradients,
    kept: Kept,
    shape: tuple[int, int, int],
    needs: tuple[bool, ...],
) -> list[Tensor | None]:
    """Return the gradients of x, h, c, weight_ih, weight_hh, bias_ih, bias_hh that are needed.

    `shape` is that of x_BTE.
    """
    cell, size = NATIVE_CELLS[key], kept.weight_hh.shape[1]
    grads_NG, grad_h_BH, grad_c_BH = sweep_backward(
        cell,
        course,
        OutputGradients(*(None if grad is None else plain_array(grad) for grad in grads)),
        kept.saved_NS,
        kept.states_BTH,
        None if kept.first_c_BH is None else plain_array(kept.first_c_BH),
        plain_array(kept.weight_hh),
        batch_size=shape[0],
    )
    rows = cell.gates * size
    input_NG = grads_NG[:, :rows]  # in torch's order; a GRU has one block more, of W_hn h + b_hn
    found: list[Tensor | None] = [None, grad_h_BH, grad_c_BH, None, None, None, None]
    if needs[0]:
        grad_x_NE = project(input_NG, kept.weight_ih.resolve_neg().t(), None)
        if course.lengths_B is not None:
            all_NE = grad_x_NE.new_zeros(shape[0] * shape[1], shape[2])
            grad_x_NE = all_NE.index_copy_(0, _valid_steps(course), grad_x_NE)
        found[0] = grad_x_NE.view(shape)
    if needs[3]:
        found[3] = grad_ih = torch.empty_like(kept.weight_ih)
        weight_gradient(input_NG, kept.x_NE, grad_ih)
    if needs[4]:
        found[4] = _recurrent_gradient(cell, grads_NG, kept.saved_NS, size)
    if needs[5] or needs[6]:
        bias_G = grads_NG.sum(0)
        found[5] = bias_G[:rows]
        found[6] = torch.cat([bias_G[: rows - size], bias_G[-size:]])
    return found


def _recurrent_gradient(cell: SweepCell, grads_NG: Tensor, saved_NS: Tensor, size: int) -> Tensor:
    """Return the gradient of weight_hh; a GRU's candidate has factors of its own."""
    out = grads_NG.new_empty(cell.gates * size, size)
    before_NH, rows = saved_NS[:, -size:], cell.gates * size
    if not cell.equations.startswith("gru"):
        weight_gradient(grads_NG, before_NH, out)
        return out
    passed_NH = saved_NS[:, 3 * size : 4 * size] if cell.equations == "gru/before" else before_NH
    weight_gradient(grads_NG[:, : 2 * size], before_NH, out[: 2 * size])
    weight_gradient(grads_NG[:, -size:], passed_NH, out[2 * size : rows])
    return out
