"""Whole sequences through Elman's own kernels: float32, on a CPU, forward in time.

The functions in `NATIVE_KERNELS` are kernels as `elman.kernels.torch_fused` has them. The input
projection is one product over all steps and made by torch, and so are the gradients of the weights;
the recurrence between is C++ (`elman/kernels/native/`). Their twin is the readable loop over
`Cell.step`; values and gradients agree to about 1e-6 of the largest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.kernels import native_module
from elman.kernels.native_module import NOT_BUILT, native_level
from elman.kernels.torch_fused import Kernel, KernelState, KernelWeights

SAVED = 4
"""Blocks of H that a GRU keeps for each step: r, z, n and W_hn h + b_hn; as many gradients."""


def find_native(key: str, x_BTE: Tensor) -> tuple[Kernel | None, str]:
    """Return the native kernel for cells of `key` on inputs like x_BTE, or None, and why."""
    if native_module.native is None:
        return None, NOT_BUILT
    if key not in NATIVE_KERNELS:
        return None, "no native kernel has these equations"
    if x_BTE.device.type != "cpu" or x_BTE.dtype != torch.float32:
        return None, "native kernels take float32 on a CPU"
    if x_BTE.numel() == 0:
        return None, "there is nothing to run over"
    return NATIVE_KERNELS[key], f"native: {native_level()}"


def native_gru(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run a GRU with reset after and update keep; state (h_BH,)."""
    return _run("gru", x_BTE, state, weights)


def native_tanh(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run an Elman network with tanh; state (h_BH,)."""
    return _run("tanh", x_BTE, state, weights)


def native_relu(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run an Elman network with relu; state (h_BH,)."""
    return _run("relu", x_BTE, state, weights)


NATIVE_KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {"gru/after/keep": native_gru, "elman/tanh": native_tanh, "elman/relu": native_relu}
)


def _run(
    cell: str, x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    everything = (x_BTE, *state, *weights)
    if torch.is_grad_enabled() and any(part.requires_grad for part in everything):
        states_BTH, last_BH, _ = _recurrence(cell, *everything)
    else:
        states_BTH, _ = _forward(cell, *everything, keeps_gates=False)
        last_BH = states_BTH[:, -1]
    return states_BTH, (last_BH,)


@torch.library.custom_op("elman::recurrence", mutates_args=(), device_types="cpu")
def _recurrence(
    cell: str,
    x_BTE: Tensor,
    first_BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return states_BTH, the last state, and the gates that the backward sweep needs."""
    states_BTH, gates_BTG = _forward(
        cell, x_BTE, first_BH, weight_ih, weight_hh, bias_ih, bias_hh, keeps_gates=True
    )
    return states_BTH, states_BTH[:, -1].clone(), gates_BTG


def _recurrence_shapes(
    cell: str, x_BTE: Tensor, first_BH: Tensor, *weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    batch_size, num_steps = x_BTE.shape[:2]
    size = first_BH.shape[1]
    return (
        x_BTE.new_empty(batch_size, num_steps, size),
        x_BTE.new_empty(batch_size, size),
        x_BTE.new_empty(*_saved_shape(cell, batch_size, num_steps, size)),
    )


@torch.library.custom_op("elman::recurrence_gradients", mutates_args=(), device_types="cpu")
def _recurrence_gradients(
    cell: str,
    grad_BTH: Tensor | None,
    grad_last_BH: Tensor | None,
    saved: list[Tensor],
    needs_input: bool,
) -> list[Tensor]:
    """Return the gradients of x, state, weight_ih, weight_hh, bias_ih, bias_hh, in this order.

    `saved` are x, state, weight_ih, weight_hh, states and gates. Where no input needs a gradient
    that of x is empty.
    """
    x_BTE, first_BH, weight_ih, weight_hh, states_BTH, gates_BTG = (
        part.detach().contiguous() for part in saved
    )
    batch_size, num_steps, size = states_BTH.shape
    blocks = SAVED if cell == "gru" else 1
    grads_BTG = x_BTE.new_empty(batch_size, num_steps, blocks * size)
    grad_first_BH = torch.empty_like(first_BH)
    native_module.native.backward(
        cell,
        None if grad_BTH is None else grad_BTH.detach().contiguous(),
        None if grad_last_BH is None else grad_last_BH.detach().contiguous(),
        first_BH,
        weight_hh,
        states_BTH,
        gates_BTG if cell == "gru" else None,
        grads_BTG,
        grad_first_BH,
        torch.get_num_threads(),
        native_level(),
    )
    grads_NG = grads_BTG.view(-1, blocks * size)
    before_NH = torch.cat([first_BH.unsqueeze(1), states_BTH[:, :-1]], dim=1).view(-1, size)
    x_NE = x_BTE.view(-1, x_BTE.shape[2])
    bias_G = grads_NG.sum(0)
    if cell == "gru":  # blocks n, r, z for what the input adds to, r, z, hn for the product
        input_NG, state_NG = grads_NG[:, : 3 * size], grads_NG[:, size:]
        by_input = torch.cat([weight_ih[2 * size :], weight_ih[: 2 * size]])
        grad_x_NE = _times(input_NG, by_input) if needs_input else x_BTE.new_empty(0)
        grad_ih, bias_ih = _rolled(input_NG.t() @ x_NE, size), _rolled(bias_G[: 3 * size], size)
        return [
            grad_x_NE.view(x_BTE.shape) if needs_input else grad_x_NE,
            grad_first_BH,
            grad_ih,
            state_NG.t() @ before_NH,
            bias_ih,
            bias_G[size:].clone(),
        ]
    return [
        _times(grads_NG, weight_ih).view(x_BTE.shape) if needs_input else x_BTE.new_empty(0),
        grad_first_BH,
        grads_NG.t() @ x_NE,
        grads_NG.t() @ before_NH,
        bias_G,
        bias_G.clone(),
    ]


def _gradient_shapes(
    cell: str,
    grad_BTH: Tensor | None,
    grad_last_BH: Tensor | None,
    saved: list[Tensor],
    needs_input: bool,
) -> list[Tensor]:
    x_BTE, first_BH, weight_ih, weight_hh = saved[:4]
    grad_x = torch.empty_like(x_BTE) if needs_input else x_BTE.new_empty(0)
    biases = [weight_ih.new_empty(weight_ih.shape[0]) for _ in range(2)]
    return [grad_x, *(torch.empty_like(part) for part in (first_BH, weight_ih, weight_hh)), *biases]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    cell, x_BTE, first_BH, weight_ih, weight_hh, *_ = inputs
    ctx.cell = cell
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x_BTE, first_BH, weight_ih, weight_hh, output[0], output[2])


def _backward(
    ctx: Any, grad_BTH: Tensor | None, grad_last_BH: Tensor | None, _: Tensor | None
) -> tuple[Tensor | None, ...]:
    if grad_BTH is None and grad_last_BH is None:
        return (None,) * 7
    needs_input = ctx.needs_input_grad[1]
    grads = _recurrence_gradients(
        ctx.cell, grad_BTH, grad_last_BH, list(ctx.saved_tensors), needs_input
    )
    return (None, grads[0] if needs_input else None, *grads[1:])


_recurrence.register_fake(_recurrence_shapes)
_recurrence.register_autograd(_backward, setup_context=_save)
_recurrence_gradients.register_fake(_gradient_shapes)


def _forward(
    cell: str,
    x_BTE: Tensor,
    first_BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
    *,
    keeps_gates: bool,
) -> tuple[Tensor, Tensor]:
    x_BTE, first_BH, weight_ih, weight_hh, bias_ih, bias_hh = (
        part.detach().contiguous()
        for part in (x_BTE, first_BH, weight_ih, weight_hh, bias_ih, bias_hh)
    )
    batch_size, num_steps = x_BTE.shape[:2]
    size = first_BH.shape[1]
    bias_n = bias_hh
    if cell == "gru":  # the reset gate acts on b_hn, which therefore stays with the product
        bias_n = bias_hh[2 * size :]
        bias_hh = torch.cat([bias_hh[: 2 * size], torch.zeros_like(bias_n)])
    xg_BTG = _project(x_BTE, weight_ih, bias_ih + bias_hh)
    states_BTH = x_BTE.new_empty(batch_size, num_steps, size)
    keeps_gates = keeps_gates and cell == "gru"
    gates_BTG = x_BTE.new_empty(
        *(_saved_shape(cell, batch_size, num_steps, size) if keeps_gates else (0,))
    )
    native_module.native.forward(
        cell,
        xg_BTG,
        first_BH,
        weight_hh,
        bias_n,
        states_BTH,
        gates_BTG if keeps_gates else None,
        torch.get_num_threads(),
        native_level(),
    )
    return states_BTH, gates_BTG


def _saved_shape(cell: str, batch_size: int, num_steps: int, size: int) -> tuple[int, ...]:
    return (batch_size, num_steps, SAVED * size) if cell == "gru" else (0,)


def _project(x_BTE: Tensor, weight_GE: Tensor, bias_G: Tensor) -> Tensor:
    xg_NG = _affine(x_BTE.view(-1, x_BTE.shape[2]), weight_GE, bias_G)
    return xg_NG.view(*x_BTE.shape[:2], -1)


def _times(grads_NG: Tensor, weight_GE: Tensor) -> Tensor:
    return _affine(grads_NG, weight_GE.t(), None)


def _affine(x_NF: Tensor, weight_GF: Tensor, bias_G: Tensor | None) -> Tensor:
    if _HAS_ONEDNN:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x_NF, weight_GF, bias_G, "none", [], ""
        )
        return product
    return linear(x_NF, weight_GF, bias_G)


_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(  # type: ignore[no-untyped-call]
    torch.ops.mkldnn, "_linear_pointwise"
)


def _rolled(blocks: Tensor, size: int) -> Tensor:
    """Return the blocks n, r, z in torch's order r, z, n."""
    return torch.cat([blocks[size:], blocks[:size]])
