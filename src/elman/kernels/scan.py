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
"""Steps scanned together. Sums of logarithms grow with it and lose digits; products of the shares
kept over more steps than this have long vanished or are near 1."""


def linear_scan(log_keep_BTH: Tensor, log_new_BTH: Tensor, first_BH: Tensor) -> Tensor:
    """Return h_BTH of h_t = keep_t ∘ h_{t−1} + new_t, given ln keep ≤ 0 and ln new.

        A_t = Σ_{s ≤ t} ln keep_s;  h_t = e^{A_t} ∘ h_0 + e^{A_t + ln Σ_{s ≤ t} e^{ln new_s − A_s}}

    `first_BH` may have any sign. Source: F. A. Heinsen, arXiv:2311.06281, with the initial state
    outside of the logarithm. The sum over s is cut into blocks of STEPS_AT_ONCE steps, each going
    on from the state the one before has reached.
    """
    blocks = []
    state_BH = first_BH
    for start in range(0, log_keep_BTH.shape[1], STEPS_AT_ONCE):
        part = slice(start, start + STEPS_AT_ONCE)
        total_BTH = log_keep_BTH[:, part].cumsum(1)
        fresh_BTH = torch.exp(
            total_BTH + torch.logcumsumexp(log_new_BTH[:, part] - total_BTH, dim=1)
        )
        block_BTH = torch.exp(total_BTH) * state_BH.unsqueeze(1) + fresh_BTH
        blocks.append(block_BTH)
        state_BH = block_BTH[:, -1]
    return torch.cat(blocks, dim=1)


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
