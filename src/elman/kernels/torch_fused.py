"""Whole sequences through torch's own fused recurrences: oneDNN on a CPU, cuDNN on a GPU.

All functions here are `Kernel`s: (x_BTE, state, weights) → (states_BTH, state), forward in time,
every row of full length, weights as `Cell.kernel_weights`: weight_ih, weight_hh, bias_ih, bias_hh
in torch's order, and what a cell has beside them.
"""

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import _VF, Tensor

KernelState = tuple[Tensor, ...]
KernelWeights = tuple[Tensor, ...]
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


def fused_projected_lstm(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run an LSTM that projects its output by a fifth weight; state (h_BP, c_BH)."""
    with warnings.catch_warnings():  # torch warns that oneDNN has no such operator
        warnings.simplefilter("ignore", UserWarning)
        return fused_lstm(x_BTE, state, weights)


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
    negated = tuple(_negate_update(weight) for weight in weights)
    return _run_single(_VF.gru, x_BTE, state, negated)


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
        "lstm+projection": fused_projected_lstm,
    }
)

WHY_NO_TORCH_KERNEL: Mapping[str, str] = MappingProxyType(
    {
        "elman/identity": "torch has no recurrence without an activation",
        "gru/before/keep": "torch's GRU applies the reset gate after the recurrent product only",
        "gru/before/replace": "torch's GRU applies the reset gate after the recurrent product only",
        "mgu": "torch has no minimal gated unit",
    }
)

NO_REASON = "no fused operator has these equations"
NO_SUCH_LSTM = "torch's LSTM has no peepholes, coupled gates, normalisation or full projection"


def why_no_torch_kernel(key: str) -> str:
    """Return why torch has no fused operator for cells of `key`."""
    if key in TORCH_KERNELS:
        return NO_REASON
    if key.startswith("lstm+"):
        return NO_SUCH_LSTM
    return WHY_NO_TORCH_KERNEL.get(key, NO_REASON)


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
