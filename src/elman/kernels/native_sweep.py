"""Sweeps over time in C++: the checked boundary, which raises before it hands on an address.

A sweep takes the rows of a batch over their valid steps, N = Σ lengths of them: arrays [N, …] hold
them row after row. Everything is float32, C-contiguous, on a CPU.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from elman.errors import ShapeError
from elman.kernels import native_module
from elman.kernels.native_arrays import require_array, require_axes


class SweepCell(NamedTuple):
    """What a sweep must know of a cell: its equations and blocks of H that a step has.

    gates: blocks of weight_hh and of the projected input; saved: blocks that the backward sweep
    needs, h_{t−1} the last of them; grads: blocks of gradients; has_memory: there is a second part
    of the state, c. replaces: the update gate of a GRU lets the candidate in.
    """

    equations: str
    gates: int
    saved: int
    grads: int
    has_memory: bool = False
    replaces: bool = False


class Course(NamedTuple):
    """How a sweep goes: the instruction set, which steps of [B, T] are valid, and which way.

    lengths_B int64, None: every row has T steps. units: how many threads share rows and split the
    hidden units, 0: as the kernel decides.
    """

    level: str
    num_steps: int
    lengths_B: Tensor | None = None
    is_backward: bool = False
    units: int = 0

    def num_valid(self, batch_size: int) -> int:
        """Return N. Raises `ShapeError` where lengths_B does not fit."""
        lengths_B = self.lengths_B
        if lengths_B is None:
            return batch_size * self.num_steps
        if lengths_B.dtype != torch.int64 or not lengths_B.is_cpu:
            raise TypeError(f"lengths_B must be int64 on a CPU, got {lengths_B.dtype}")
        if lengths_B.shape != (batch_size,) or not lengths_B.is_contiguous():
            raise ShapeError("lengths_B must be contiguous [B]", got=str(tuple(lengths_B.shape)))
        if batch_size and not 0 <= int(lengths_B.min()) <= int(lengths_B.max()) <= self.num_steps:
            raise ShapeError("lengths_B must be from 0 to T", got=str(lengths_B.tolist()))
        return int(lengths_B.sum())


class Swept(NamedTuple):
    """What a forward sweep gives; last_c_BH and saved_NS are None where there is none."""

    states_BTH: Tensor
    last_h_BH: Tensor
    last_c_BH: Tensor | None
    saved_NS: Tensor | None


def sweep_forward(
    cell: SweepCell,
    course: Course,
    xg_NG: Tensor,
    first_h_BH: Tensor,
    first_c_BH: Tensor | None,
    weight_hh: Tensor,
    bias_hh: Tensor,
    *,
    keeps: bool,
) -> Swept:
    """Run the recurrence on projected inputs xg_NG = x W_ih^T + b_ih; `keeps` what gradients need.

    Outputs beyond a row's length are 0, and the last state is that of its last valid step. Raises
    `TypeError` and `ShapeError` where an argument does not fit, `ValueError` where a size is 0.
    """
    batch_size, size = _two_sizes("first_h_BH", first_h_BH)
    num_valid = course.num_valid(batch_size)
    new = first_h_BH.new_empty
    states_BTH = new(batch_size, course.num_steps, size)
    last_h_BH = torch.empty_like(first_h_BH)
    last_c_BH = torch.empty_like(first_h_BH) if cell.has_memory else None
    saved_NS = new(num_valid, cell.saved * size) if keeps else None
    native_module.native.sweep_forward(
        course.level,
        torch.get_num_threads(),
        course.units,
        cell.equations,
        cell.replaces,
        course.is_backward,
        batch_size,
        course.num_steps,
        size,
        0 if course.lengths_B is None else course.lengths_B.data_ptr(),
        _address("weight_hh", weight_hh, (cell.gates * size, size)),
        _address("bias_hh", bias_hh, (cell.gates * size,)),
        _address("first_h_BH", first_h_BH, (batch_size, size)),
        _address("first_c_BH", first_c_BH, (batch_size, size)) if cell.has_memory else 0,
        _address("xg_NG", xg_NG, (num_valid, cell.gates * size)),
        states_BTH.data_ptr(),
        last_h_BH.data_ptr(),
        0 if last_c_BH is None else last_c_BH.data_ptr(),
        0 if saved_NS is None else saved_NS.data_ptr(),
    )
    return Swept(states_BTH, last_h_BH, last_c_BH, saved_NS)


class OutputGradients(NamedTuple):
    """The gradients of what a forward sweep gives; None stands for zeros."""

    states_BTH: Tensor | None
    last_h_BH: Tensor | None
    last_c_BH: Tensor | None


class SweptBack(NamedTuple):
    """What a backward sweep gives: gradients of the gates at each step, and of the first state."""

    grads_NG: Tensor
    first_h_BH: Tensor
    first_c_BH: Tensor | None


def sweep_backward(
    cell: SweepCell,
    course: Course,
    grads: OutputGradients,
    saved_NS: Tensor,
    states_BTH: Tensor | None,
    first_c_BH: Tensor | None,
    weight_hh: Tensor,
    *,
    batch_size: int,
) -> SweptBack:
    """Return the gradients of the gates [N, grads · H], in the order of `recurrence.h`.

    `states_BTH` are needed for Elman cells, `first_c_BH` for cells with a
    memory. Raises as `sweep_forward` does.
    """
    size = _two_sizes("weight_hh", weight_hh)[1]
    num_valid, num_steps = course.num_valid(batch_size), course.num_steps
    shape, state = (batch_size, num_steps, size), (batch_size, size)
    grads_NG = weight_hh.new_empty(num_valid, cell.grads * size)
    first_h_BH = weight_hh.new_empty(state)
    first_c_BH_grad = weight_hh.new_empty(state) if cell.has_memory else None
    native_module.native.sweep_backward(
        course.level,
        torch.get_num_threads(),
        course.units,
        cell.equations,
        cell.replaces,
        course.is_backward,
        batch_size,
        num_steps,
        size,
        0 if course.lengths_B is None else course.lengths_B.data_ptr(),
        _address("weight_hh", weight_hh, (cell.gates * size, size)),
        _address("first_c_BH", first_c_BH, state) if cell.has_memory else 0,
        _address("states_BTH", states_BTH, shape) if cell.gates == 1 else 0,
        _address("saved_NS", saved_NS, (num_valid, cell.saved * size)),
        0 if grads.states_BTH is None else _address("grad_states_BTH", grads.states_BTH, shape),
        0 if grads.last_h_BH is None else _address("grad_last_h_BH", grads.last_h_BH, state),
        0 if grads.last_c_BH is None else _address("grad_last_c_BH", grads.last_c_BH, state),
        grads_NG.data_ptr(),
        first_h_BH.data_ptr(),
        0 if first_c_BH_grad is None else first_c_BH_grad.data_ptr(),
    )
    return SweptBack(grads_NG, first_h_BH, first_c_BH_grad)


def _two_sizes(name: str, tensor: Tensor) -> tuple[int, int]:
    require_axes(name, tensor, 2)
    return tensor.shape[0], tensor.shape[1]


def _address(name: str, tensor: Tensor | None, shape: tuple[int, ...]) -> int:
    require_array(name, tensor, shape)
    assert tensor is not None
    if not tensor.is_contiguous() or tensor.is_neg():
        raise TypeError(f"{name} must be contiguous and no negated view")
    return tensor.data_ptr()
