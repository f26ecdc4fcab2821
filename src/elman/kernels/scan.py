"""Linear recurrences whose gates are known beforehand: all steps at once, in log-space.

The functions named in `SCANS` are kernels as `elman.kernels.torch_fused` has them, with the weights
weight_ih and bias_ih alone.
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn.functional import linear, logsigmoid, softplus

from elman.kernels.torch_fused import Kernel, KernelState, KernelWeights

STEPS_AT_ONCE = 64
"""Steps scanned together, in six doublings; each block goes on from the state of the one before."""


def linear_scan(log_keep_BTH: Tensor, log_new_BTH: Tensor, first_BH: Tensor) -> Tensor:
    """Return h_BTH of h_t = keep_t ∘ h_{t−1} + new_t, given ln keep ≤ 0 and ln new.

        h_t = e^{K_t} ∘ h_0 + e^{N_t},  where (K, N) of the steps s + 1 … t after those up to s are
        K = K_1 + K_2,  N = ln(e^{N_1 + K_2} + e^{N_2})

    `first_BH` may have any sign: it stays outside of the logarithm. Spans are doubled until they
    cover the block (W. D. Hillis, G. L. Steele, Data Parallel Algorithms, CACM 29 (1986)). No sum
    of logarithms is ever taken back by a difference, as ln Σ e^{ln new_s − A_s} + A_t would, so
    that gates may be as saturated as they like.
    """
    blocks = []
    state_BH = first_BH
    for start in range(0, log_keep_BTH.shape[1], STEPS_AT_ONCE):
        part = slice(start, start + STEPS_AT_ONCE)
        keep_BTH, new_BTH = _spans_from_the_start(log_keep_BTH[:, part], log_new_BTH[:, part])
        block_BTH = torch.exp(keep_BTH) * state_BH.unsqueeze(1) + torch.exp(new_BTH)
        blocks.append(block_BTH)
        state_BH = block_BTH[:, -1]
    return torch.cat(blocks, dim=1)


def _spans_from_the_start(log_keep_BTH: Tensor, log_new_BTH: Tensor) -> tuple[Tensor, Tensor]:
    """Return (K, N) of the span from the first step to each step."""
    keep_BTH, new_BTH = log_keep_BTH, log_new_BTH
    width = 1
    while width < keep_BTH.shape[1]:
        joined_BTH = torch.logaddexp(new_BTH[:, :-width] + keep_BTH[:, width:], new_BTH[:, width:])
        new_BTH = torch.cat([new_BTH[:, :width], joined_BTH], dim=1)
        longer_BTH = keep_BTH[:, :-width] + keep_BTH[:, width:]
        keep_BTH = torch.cat([keep_BTH[:, :width], longer_BTH], dim=1)
        width *= 2
    return keep_BTH, new_BTH


def scan_min_gru(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run a minGRU; state (h_BH,)."""
    z_BTH, n_BTH = linear(x_BTE, weights[0], weights[1]).chunk(2, dim=2)
    states_BTH = linear_scan(logsigmoid(-z_BTH), logsigmoid(z_BTH) + log_positive(n_BTH), state[0])
    return states_BTH, (states_BTH[:, -1],)


def scan_min_lstm(
    x_BTE: Tensor, state: KernelState, weights: KernelWeights
) -> tuple[Tensor, KernelState]:
    """Run a minLSTM; state (h_BH,)."""
    f_BTH, i_BTH, n_BTH = linear(x_BTE, weights[0], weights[1]).chunk(3, dim=2)
    difference_BTH = logsigmoid(f_BTH) - logsigmoid(i_BTH)
    log_new_BTH = logsigmoid(-difference_BTH) + log_positive(n_BTH)
    states_BTH = linear_scan(logsigmoid(difference_BTH), log_new_BTH, state[0])
    return states_BTH, (states_BTH[:, -1],)


def log_positive(a_BTH: Tensor) -> Tensor:
    """Return ln g(a): ln(a + 0.5) where a ≥ 0, ln σ(a) = −softplus(−a) elsewhere."""
    above_BTH = torch.log(torch.relu(a_BTH) + 0.5)
    return torch.where(a_BTH >= 0.0, above_BTH, -softplus(-a_BTH))


SCANS: Mapping[str, Kernel] = MappingProxyType({"mingru": scan_min_gru, "minlstm": scan_min_lstm})
