"""Whole sequences through torch's own fused recurrences: oneDNN on a CPU, cuDNN on a GPU.

All functions here are `Kernel`s: (x_BTE, state, weights) → (states_BTH, state), forward in time,
every row of full length, weights in torch's order weight_ih, weight_hh, bias_ih, bias_hh.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import _VF, Tensor

KernelState = tuple[Tensor, ...]
KernelWeights = tuple[Tensor, Tensor, Tensor, Tensor]
Kernel = Callable[[Tensor, KernelState, KernelWeights], tuple[Tensor, KernelState]]


def fused_lstm(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run an LSTM; state (h_BH, c_BH)."""
    h_BH, c_BH = state
    hx = [h_BH.unsqueeze(0), c_BH.unsqueeze(0)]
    train = torch.is_grad_enabled()
    states_BTH, h_1BH, c_1BH = _VF.lstm(x_BTE, hx, list(weights), True, 1, 0.0, train, False, True)
    return states_BTH, (h_1BH.squeeze(0), c_1BH.squeeze(0))


def fused_gru(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run a GRU with reset after and update keep; state (h_BH,)."""
    return _run_single(_VF.gru, x_BTE, state, weights)


def fused_gru_replace(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run a GRU with reset after and update replace, as one that keeps: 1 − σ(a) = σ(−a).

    The rows of the update gate are negated, which is exact; only the rounding of σ can differ.
    """
    weights = (
        _negate_update(weights[0]),
        _negate_update(weights[1]),
        _negate_update(weights[2]),
        _negate_update(weights[3]),
    )
    return _run_single(_VF.gru, x_BTE, state, weights)


def fused_tanh(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run an Elman network with tanh; state (h_BH,)."""
    return _run_single(_VF.rnn_tanh, x_BTE, state, weights)


def fused_relu(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run an Elman network with relu; state (h_BH,)."""
    return _run_single(_VF.rnn_relu, x_BTE, state, weights)


TORCH_KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "elman/tanh": fused_tanh,
        "elman/relu": fused_relu,
        "gru/after/keep": fused_gru,
        "gru/after/replace": fused_gru_replace,
        "lstm": fused_lstm,
    }
)

WHY_NO_TORCH_KERNEL: Mapping[str, str] = MappingProxyType(
    {
        "elman/identity": "torch has no recurrence without an activation",
        "gru/before/keep": "torch's GRU applies the reset gate after the recurrent product only",
        "gru/before/replace": "torch's GRU applies the reset gate after the recurrent product only",
    }
)


def _run_single(
    op: Callable[..., tuple[Tensor, Tensor]],
    x_BTE: Tensor,
    state: KernelState,
    weights: KernelWeights,
) -> tuple[Tensor, KernelState]:
    (h_BH,) = state
    train = torch.is_grad_enabled()
    states_BTH, h_1BH = op(
        x_BTE, h_BH.unsqueeze(0), list(weights), True, 1, 0.0, train, False, True
    )
    return states_BTH, (h_1BH.squeeze(0),)


def _negate_update(weight: Tensor) -> Tensor:
    r, z, n = weight.chunk(3)
    return torch.cat([r, -z, n])
