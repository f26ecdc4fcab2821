"""A linear layer with softmax and cross-entropy in one native sweep: float32, on a CPU.

Gradients are made in the sweep that makes the loss, block by block, so that logits are never stored
whole (`elman/kernels/native/softmax.inl` tells how). The twin is the sweep in torch operators in
`elman.losses`. Against float64, values agree to about 1e-7, and gradients mostly to 1e-5 of the
largest: 4e-5 is the worst that was measured. In bfloat16 the three products round their factors to
8 bits and add up in float32; exponentials and sums stay float32.
"""

import mmap
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from elman.errors import ShapeError
from elman.kernels import native_module
from elman.kernels.native_arrays import plain_array, require_array, require_axes
from elman.kernels.native_module import NO_LEVEL, NOT_BUILT, is_transformed, native_levels

NATIVE_LOGITS_AT_ONCE = 1 << 23
"""The most logits that exist at one time, unless a panel of rows has more; in bfloat16 double.

Fewer than twice as many are 3 % slower at 33,278 words, half as many 8 %: W and its gradient pass
through the memory once for each block of rows.
"""

LARGE_BYTES = 4 << 20
"""From this size on a gradient is in memory of its own."""


def why_no_native_loss(
    features_NF: Tensor, weight_VF: Tensor, bias_V: Tensor, *, level: str
) -> str:
    """Return why the native sweep at `level` cannot take these arrays; "": it can."""
    if native_module.native is None:
        return NOT_BUILT
    if level not in native_levels():
        return f"the instruction set {level} of the run is not offered here" if level else NO_LEVEL
    arrays = (features_NF, weight_VF, bias_V)
    if any(part.device.type != "cpu" or part.dtype != torch.float32 for part in arrays):
        return "the native loss takes float32 on a CPU"
    if any(is_transformed(part) for part in arrays):
        return "the native loss has a backward pass alone"
    if features_NF.shape[1] == 0 or weight_VF.shape[0] == 0:
        return "there is nothing to multiply"
    return ""


def native_loss_precision(precision: str, level: str) -> tuple[str, str]:
    """Return the precision to use where `precision` is asked for, and what runs, for the record."""
    if precision == "float32":
        return "float32", f"native: {level}"
    if level == "avx512" and native_module.native.has_bfloat16():
        return "bfloat16", f"native: {level}, products in bfloat16"
    return "float32", f"native: {level} in float32, as it has no products in bfloat16"


def summed_nats(
    features_NF: Tensor,
    weight_VF: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    *,
    count: int,
    smoothing: float = 0.0,
    precision: str = "float32",
    level: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Return the loss to minimise and the plain one (float64 scalars) for logits X W^T + b.

        plain = Σ_n −log p_{target_n};   minimised = (1 − ε) plain + ε Σ_n −(Σ_v log p_v) / V

    with ε = `smoothing`; at ε = 0 both are one. features_NF [N, F], weight_VF [V, F], bias_V [V]
    are float32, targets_N [N] int64 in 0 … V − 1, all on a CPU, else `TypeError` or `ShapeError`;
    F and V at least 1, else `ValueError`. The first is differentiable, once.
    Its gradients are made in the same sweep, divided by `count`, the tokens that the mean to come
    covers: a backward pass from that mean takes them as they are, any other scales them.
    """
    _require_arrays(features_NF, weight_VF, bias_V, targets_N)
    scale = 1.0 / max(count, 1)
    made = _softmax_loss(
        features_NF, weight_VF, bias_V, targets_N, smoothing, scale, precision, level
    )
    if not smoothing:
        return made[0], made[0]
    with torch.no_grad():
        return made[0], made[1].clone()


def row_nats(
    features_NF: Tensor,
    weight_VF: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    *,
    level: str = "auto",
) -> Tensor:
    """Return −log p_{target_n} of each row in float64, without recording gradients.

    Arguments as in `summed_nats`. No logit leaves the cache.
    """
    _require_arrays(features_NF, weight_VF, bias_V, targets_N)
    with torch.no_grad():
        nats_N: Tensor = _softmax_nats(features_NF, weight_VF, bias_V, targets_N, level)
        return nats_N


def _require_arrays(
    features_NF: Tensor, weight_VF: Tensor, bias_V: Tensor, targets_N: Tensor
) -> None:
    require_axes("features_NF", features_NF, 2)
    require_axes("weight_VF", weight_VF, 2)
    num_rows, width = features_NF.shape
    require_array("features_NF", features_NF, (num_rows, width))
    require_array("weight_VF", weight_VF, (weight_VF.shape[0], width))
    require_array("bias_V", bias_V, (weight_VF.shape[0],))
    require_array("targets_N", targets_N, (num_rows,), torch.int64)
    _require_range(targets_N, weight_VF.shape[0])


def _require_range(targets_N: Tensor, vocabulary_size: int) -> None:
    if torch.compiler.is_compiling() or targets_N.numel() == 0:
        return  # the native code looks again
    low, high = (int(end) for end in torch.aminmax(targets_N))
    if low < 0 or high >= vocabulary_size:
        raise ShapeError(
            "targets must be ids of the vocabulary",
            got=str(low if low < 0 else high),
            allowed=f"0 … {vocabulary_size - 1}",
        )


def _loss_on_cpu(
    features_NF: Tensor,
    weight_VF: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    smoothing: float,
    scale: float,
    precision: str,
    level: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return minimised and plain nats, and gradients of scale · minimised: of X, W and b."""
    arrays = [plain_array(part.data) for part in (features_NF, weight_VF, bias_V)]
    gradients = [_in_own_pages(part) for part in arrays]
    nats_N = arrays[0].new_empty(arrays[0].shape[0], dtype=torch.float64)
    uniform_N = torch.empty_like(nats_N) if smoothing else None
    _call(arrays, targets_N, nats_N, uniform_N, gradients, scale, smoothing, precision, level)
    plain = nats_N.sum()
    minimised = plain.clone()
    if uniform_N is not None:
        minimised = (1.0 - smoothing) * plain + smoothing * uniform_N.sum()
    return minimised, plain, gradients[0], gradients[1], gradients[2]


def _in_own_pages(like: Tensor) -> Tensor:
    """Return a new tensor like a float32 one; a large one goes back to the system when dropped.

    The allocator of C keeps what is freed, in a heap that small tensors cut up: the gradient of W,
    made anew at every update, then lies in two or three places in turn.
    """
    size = like.numel() * like.element_size()
    if size < LARGE_BYTES or sys.platform == "win32":
        return torch.empty_like(like)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=like.dtype).view(like.shape)


def _nats_on_cpu(
    features_NF: Tensor, weight_VF: Tensor, bias_V: Tensor, targets_N: Tensor, level: str
) -> Tensor:
    """Return the nats of each row."""
    arrays = [plain_array(part.data) for part in (features_NF, weight_VF, bias_V)]
    nats_N = arrays[0].new_empty(arrays[0].shape[0], dtype=torch.float64)
    _call(arrays, targets_N, nats_N, None, [None] * 3, 1.0, 0.0, "float32", level)
    return nats_N


def _call(
    arrays: list[Tensor],
    targets_N: Tensor,
    nats_N: Tensor,
    uniform_N: Tensor | None,
    gradients: list[Tensor] | list[None],
    scale: float,
    smoothing: float,
    precision: str,
    level: str,
) -> None:
    native_module.native.softmax_loss(
        *arrays,
        plain_array(targets_N.data),
        nats_N,
        uniform_N,
        *gradients,
        scale,
        smoothing,
        NATIVE_LOGITS_AT_ONCE,
        precision,
        torch.get_num_threads(),
        level,
    )


def _loss_shapes(
    features_NF: Tensor, weight_VF: Tensor, bias_V: Tensor, *_: object
) -> tuple[Tensor, ...]:
    nats = features_NF.new_empty((), dtype=torch.float64)
    gradients = (torch.empty_like(part) for part in (features_NF, weight_VF, bias_V))
    return nats, torch.empty_like(nats), *gradients


def _nats_shape(features_NF: Tensor, *_: object) -> Tensor:
    return features_NF.new_empty(features_NF.shape[0], dtype=torch.float64)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.scale = inputs[5]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[2:])


def _backward(ctx: Any, grad: Tensor | None, *others: Tensor | None) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled() or any(other is not None for other in others):
        raise RuntimeError("the native loss has first derivatives only")
    if grad is None:
        return (None,) * 8
    made: list[Tensor] = list(ctx.saved_tensors)
    if torch.compiler.is_compiling() or float(grad) != ctx.scale:
        made = [part * (grad / ctx.scale).to(part.dtype) for part in made]
    needs = ctx.needs_input_grad
    return (*(part if need else None for part, need in zip(made, needs, strict=False)), *[None] * 5)


def _register(function: Callable[..., Any], name: str, shapes: Callable[..., Any]) -> Any:
    """Return `function` as an operator of torch for a CPU, of its own signature.

    As `torch.library.custom_op` does, whose operators load torch's compiler at their first call:
    70 MiB and half a second or more.
    """
    schema = torch.library.infer_schema(function, mutates_args=())
    torch.library.define(f"elman::{name}", schema)
    torch.library.impl(f"elman::{name}", "cpu", function)
    torch.library.register_fake(f"elman::{name}", shapes)
    return getattr(torch.ops.elman, name).default


_softmax_loss = _register(_loss_on_cpu, "softmax_loss", _loss_shapes)
torch.library.register_autograd("elman::softmax_loss", _backward, setup_context=_save)
_softmax_nats = _register(_nats_on_cpu, "softmax_nats", _nats_shape)
