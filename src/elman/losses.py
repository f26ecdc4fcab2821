"""states, readout → loss: the loss of tokens as a sum and a count, in nats."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy, linear

from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_loss import (
    native_loss_precision,
    row_nats,
    summed_nats,
    why_no_native_loss,
)
from elman.kernels.products import ProductPlan
from elman.layers.readout import Readout
from elman.shapes import require_shape

LOGITS_AT_ONCE = 1 << 22
"""The most logits that exist at one time (16 MiB in float32), unless a single row has more."""


@dataclass(frozen=True)
class LossSum:
    """A loss as what can be added: total nats (a float64 scalar), how many tokens they cover."""

    nats: Tensor
    count: int

    def __add__(self, other: "LossSum") -> "LossSum":
        """Return the loss over both sets of tokens."""
        return LossSum(self.nats + other.nats, self.count + other.count)

    @classmethod
    def zero(cls) -> "LossSum":
        """Return the loss of no tokens, the start of every sum."""
        return cls(torch.zeros((), dtype=torch.float64), 0)

    def mean(self) -> Tensor:
        """Return nats per token, the one place where a mean is taken; 0 without tokens."""
        return self.nats / max(self.count, 1)


def token_nats(
    states_BTH: Tensor,
    readout: Readout,
    targets_BT: Tensor,
    lengths_B: Tensor | None = None,
    *,
    plan: KernelPlan | None = None,
) -> Tensor:
    """Return nats_BT = −log p(targets_BT), one for each token, exactly 0 at padding.

    states_BTH [B, T, H], targets_BT [B, T] ids in 0 … V − 1; steps t ≥ lengths_B are padding, and
    lengths_B None means that there is none. The type is that of the states. Differentiable, but
    then every logit is kept for the backward pass: `token_loss` is the one to train with. `plan`
    chooses between the native loss and torch's operators, None as a new `KernelPlan` does.
    """
    valid_N = _valid_steps(states_BTH, targets_BT, lengths_B)
    features_NF, targets_N = _valid_rows(states_BTH, readout, targets_BT, valid_N)
    arrays = (features_NF, readout.weight, readout.bias)
    if not _wants_gradients(arrays) and _runs_natively(
        arrays, KernelPlan() if plan is None else plan
    ):
        nats_N = row_nats(*arrays, targets_N).to(features_NF.dtype)
    else:
        nats_N = torch.cat(
            [
                cross_entropy(
                    linear(features_NF[rows], readout.weight, readout.bias),
                    targets_N[rows],
                    reduction="none",
                )
                for rows in _row_blocks(features_NF.shape[0], readout.weight.shape[0])
            ]
        )
    if valid_N is not None:
        nats_N = nats_N.new_zeros(targets_BT.numel()).index_copy(0, valid_N, nats_N)
    return nats_N.view(targets_BT.shape)


def token_loss(
    states_BTH: Tensor,
    readout: Readout,
    targets_BT: Tensor,
    lengths_B: Tensor | None = None,
    *,
    plan: KernelPlan | None = None,
) -> LossSum:
    """Return the sum of −log p(targets_BT) over valid steps, in nats, and how many there are.

    Arguments as in `token_nats`. The sum is accumulated in float64. Differentiable once, with
    gradients made in the same sweep over blocks of rows, so that neither pass holds more than
    `LOGITS_AT_ONCE` logits (`NATIVE_LOGITS_AT_ONCE` in the native one). No valid step at all gives
    0 nats, count 0 and zero gradients. With a plan of precision bfloat16 the products of the native
    sweep that makes gradients are in bfloat16, where the processor has them.
    """
    valid_N = _valid_steps(states_BTH, targets_BT, lengths_B)
    features_NF, targets_N = _valid_rows(states_BTH, readout, targets_BT, valid_N)
    arrays, count = (features_NF, readout.weight, readout.bias), int(targets_N.shape[0])
    nats = _nats_of_rows(arrays, targets_N, count, KernelPlan() if plan is None else plan)
    return LossSum(nats, count)


def _nats_of_rows(
    arrays: tuple[Tensor, Tensor, Tensor], targets_N: Tensor, count: int, plan: KernelPlan
) -> Tensor:
    """Return the summed nats of features, weight and bias; `count` tokens share the mean."""
    wants = _wants_gradients(arrays)
    if _runs_natively(arrays, plan):
        if not wants:
            return row_nats(*arrays, targets_N).sum()
        precision, kernel = native_loss_precision(plan.precision)
        plan.note("loss", kernel)
        return summed_nats(*arrays, targets_N, count=count, precision=precision)[0]
    if wants:
        nats: Tensor = _SummedNats.apply(*arrays, targets_N, plan.products)  # type: ignore[no-untyped-call]
        return nats
    return _sweep(*arrays, targets_N, None, plan.products)


def _wants_gradients(arrays: tuple[Tensor, Tensor, Tensor]) -> bool:
    return torch.is_grad_enabled() and any(array.requires_grad for array in arrays)


def _runs_natively(arrays: tuple[Tensor, Tensor, Tensor], plan: KernelPlan) -> bool:
    """Return whether the native loss is to run, and let the plan record why."""
    why_not = f"{plan.choice} was asked for"
    if plan.choice in ("auto", "native"):
        why_not = why_no_native_loss(*arrays)
    plan.note("loss", f"torch: {why_not}" if why_not else native_loss_precision("float32")[1])
    return not why_not


class _SummedNats(torch.autograd.Function):
    """Σ_n −log softmax(W f_n + b)[target_n] with its gradients, without ever holding all logits."""

    @staticmethod
    def forward(
        ctx: Any,
        features_NF: Tensor,
        weight_VF: Tensor,
        bias_V: Tensor,
        targets_N: Tensor,
        products: ProductPlan,
    ) -> Tensor:
        gradients = _Gradients(
            torch.empty_like(features_NF), torch.zeros_like(weight_VF), torch.zeros_like(bias_V)
        )
        nats = _sweep(features_NF, weight_VF, bias_V, targets_N, gradients, products)
        ctx.save_for_backward(gradients.features_NF, gradients.weight_VF, gradients.bias_V)
        return nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        features_NF, weight_VF, bias_V = ctx.saved_tensors
        scale = scale.to(features_NF.dtype)
        return features_NF * scale, weight_VF * scale, bias_V * scale, None, None


@dataclass(frozen=True)
class _Gradients:
    """Where the sweep leaves the gradients of its sum."""

    features_NF: Tensor
    weight_VF: Tensor
    bias_V: Tensor


def _sweep(
    features_NF: Tensor,
    weight_VF: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    gradients: _Gradients | None,
    products: ProductPlan,
) -> Tensor:
    """Return the summed nats (float64 scalar); fill `gradients` block by block when given.

    With e = exp(logits − max) and s = Σ e of each row, nats = log s − (logit − max)[target], and
    the gradient of the logits is d / s with d = e − s · onehot(target): each product below uses d
    and divides on its narrow side, which saves a pass over the wide one.
    """
    nats = torch.zeros((), dtype=torch.float64, device=features_NF.device)
    for rows in _row_blocks(features_NF.shape[0], weight_VF.shape[0]):
        block_NF, targets_N1 = features_NF[rows], targets_N[rows].unsqueeze(1)
        e_NV = products.project(block_NF, weight_VF, bias_V)
        e_NV.sub_(e_NV.amax(dim=1, keepdim=True))
        shifted_N1 = e_NV.gather(1, targets_N1)
        s_N1 = e_NV.exp_().sum(dim=1, keepdim=True)
        nats += (s_N1.log() - shifted_N1).double().sum()
        if gradients is not None:
            d_NV = e_NV.scatter_add_(1, targets_N1, -s_N1)
            torch.mm(d_NV, weight_VF, out=gradients.features_NF[rows]).div_(s_N1)
            gradients.weight_VF.addmm_(d_NV.t(), block_NF / s_N1)
            gradients.bias_V.addmv_(d_NV.t(), s_N1.reciprocal().squeeze(1))
    return nats


def _row_blocks(num_rows: int, vocabulary_size: int) -> Iterator[slice]:
    """Yield at least one slice, all of nearly equal size, `LOGITS_AT_ONCE` logits or one row."""
    most = max(1, LOGITS_AT_ONCE // vocabulary_size)
    num_blocks = max(1, -(-num_rows // most))
    for block in range(num_blocks):
        yield slice(block * num_rows // num_blocks, (block + 1) * num_rows // num_blocks)


def _valid_steps(states_BTH: Tensor, targets_BT: Tensor, lengths_B: Tensor | None) -> Tensor | None:
    """Return the positions t + b · T of steps that are not padding, or None when all are valid."""
    require_shape("targets_BT", targets_BT, states_BTH.shape[:2])
    batch_size, num_steps = targets_BT.shape
    if lengths_B is None:
        return None
    require_shape("lengths_B", lengths_B, (batch_size,))
    steps_T = torch.arange(num_steps, device=targets_BT.device)
    valid_BT = steps_T < lengths_B.to(targets_BT.device).unsqueeze(1)
    return None if bool(valid_BT.all()) else valid_BT.flatten().nonzero().squeeze(1)


def _valid_rows(
    states_BTH: Tensor, readout: Readout, targets_BT: Tensor, valid_N: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the features and targets of valid steps, one row each."""
    states_NH, targets_N = states_BTH.flatten(0, 1), targets_BT.flatten().long()
    if valid_N is not None:
        states_NH, targets_N = states_NH.index_select(0, valid_N), targets_N[valid_N]
    return readout.project(states_NH), targets_N
