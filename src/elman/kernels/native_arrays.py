"""The form and the check of arrays before an address is handed to C++."""

import torch
from torch import Tensor

from elman.errors import ShapeError


def require_array(
    name: str, tensor: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> None:
    """Raise unless `tensor` is a dense array of `dtype` and `shape` in the memory of a CPU.

    `TypeError` where it is none, `ShapeError` where its shape is another. Strides may be any.
    """
    if (
        not isinstance(tensor, Tensor)
        or tensor.dtype != dtype
        or not tensor.is_cpu
        or tensor.layout != torch.strided
    ):
        raise TypeError(f"{name} must be a {str(dtype).removeprefix('torch.')} tensor on a CPU")
    if tensor.shape != shape:
        raise ShapeError(f"{name} must be {list(shape)}", got=str(list(tensor.shape)))


def plain_array(tensor: Tensor) -> Tensor:
    """Return `tensor` as its numbers lie in memory: contiguous, no negated view; copied if need be.

    One that is not dense is returned as it is, for `require_array` to refuse.
    """
    if tensor.layout != torch.strided:
        return tensor
    return tensor.resolve_neg().contiguous()


def require_axes(name: str, tensor: Tensor | None, num_axes: int) -> None:
    """Raise `TypeError` unless `tensor` is a tensor of that many axes."""
    if not isinstance(tensor, Tensor) or tensor.dim() != num_axes:
        raise TypeError(f"{name} must be a tensor with {num_axes} axes")
