"""states, readout → loss: the loss of tokens as a sum and a count, in nats."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy, linear

from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_loss import (
    native_loss_precision,
    row_nats,
    summed_nats,
    why_no_native_loss,
)
from elman.kernels.products import ProductPlan
from elman.layers.readout import Softmax, SoftmaxReadout, TokenReadout
from elman.processes import Processes
from elman.shapes import require_shape

LOGITS_AT_ONCE = 1 << 22
"""The most logits that exist at one time (16 MiB in float32), unless a single row has more."""

IGNORED = -100
"""The target of a step that does not count, as `torch.nn.functional.cross_entropy` has it."""


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

    def over(self, processes: Processes) -> "LossSum":
        """Return the loss over the tokens of all processes: the sum of sums, the sum of counts."""
        if processes.size == 1:
            return self
        nats = processes.sum_of(self.nats.item())
        return LossSum(
            torch.tensor(nats, dtype=torch.float64), int(processes.sum_of(float(self.count)))
        )

    def mean(self) -> Tensor:
        """Return nats per token, the one place where a mean is taken; 0 without tokens."""
        return self.nats / max(self.count, 1)


class TrainingLoss(NamedTuple):
    """What training minimises, and what it reports: the same, unless targets are smoothed."""

    minimised: LossSum
    plain: LossSum


def token_nats(
    states_BTH: Tensor,
    readout: TokenReadout,
    targets_BT: Tensor,
    lengths_B: Tensor | None = None,
    *,
    plan: KernelPlan | None = None,
) -> Tensor:
    """Return nats_BT = −log p(targets_BT), one for each token, exactly 0 at padding.

    states_BTH [B, T, H], targets_BT [B, T] ids in 0 … V − 1, or IGNORED where a step is not to
    count; steps t ≥ lengths_B are padding, and lengths_B None means that there is none. The type is
    that of the states, float64 where the readout looks probabilities up. Differentiable, but
    then every logit is kept for the backward pass: `token_loss` is the one to train with. `plan`
    chooses between the native loss and torch's operators, None as a new `KernelPlan` does.
    """
    plan = KernelPlan() if plan is None else plan
    valid_N = _valid_steps(states_BTH, targets_BT, lengths_B)
    states_NH, targets_N = _valid_rows(states_BTH, targets_BT, valid_N)
    nats_N = readout.nats(states_NH, targets_N, partial(_nats_of_rows, plan=plan))
    if valid_N is not None:
        nats_N = nats_N.new_zeros(targets_BT.numel()).index_copy(0, valid_N, nats_N)
    return nats_N.view(targets_BT.shape)


def token_loss(
    states_BTH: Tensor,
    readout: TokenReadout,
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
    return training_loss(states_BTH, readout, targets_BT, lengths_B, plan=plan).minimised


def training_loss(
    states_BTH: Tensor,
    readout: TokenReadout,
    targets_BT: Tensor,
    lengths_B: Tensor | None = None,
    *,
    label_smoothing: float = 0.0,
    plan: KernelPlan | None = None,
) -> TrainingLoss:
    """Return `token_loss` of smoothed targets to minimise, beside that of the targets themselves.

        minimised = Σ_n (1 − e) · (−log p(target_n)) + e · mean over v of (−log p(v))

    with e = `label_smoothing`, as `torch.nn.functional.cross_entropy` has it. Both come from one
    sweep. The plain loss carries no gradient where e > 0; at e = 0 both are the same. Raises
    `SettingError` unless 0 ≤ e < 1, and for a readout that is no `SoftmaxReadout`.
    Source: C. Szegedy et al., arXiv:1512.00567, section 7.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise SettingError(
            "label_smoothing must be at least 0 and below 1", got=repr(label_smoothing)
        )
    if not isinstance(readout, SoftmaxReadout):
        raise SettingError("only softmaxes can be trained", got=readout.describe())
    valid_N = _valid_steps(states_BTH, targets_BT, lengths_B)
    states_NH, targets_N = _valid_rows(states_BTH, targets_BT, valid_N)
    softmaxes, count = readout.softmaxes(states_NH, targets_N), int(targets_N.shape[0])
    if label_smoothing and len(softmaxes) > 1:
        raise SettingError(
            "smoothed targets need every word of every row, which classes are there to avoid",
            got=f"label_smoothing = {label_smoothing:g} with {len(softmaxes)} softmaxes",
            allowed='training.label_smoothing = 0, or model.softmax = "full"',
        )
    plan = KernelPlan() if plan is None else plan
    sums = [_nats_of_softmax(softmax, count, label_smoothing, plan) for softmax in softmaxes]
    minimised = LossSum(_added([nats for nats, _ in sums]), count)
    if not label_smoothing:
        return TrainingLoss(minimised, minimised)
    return TrainingLoss(minimised, LossSum(_added([plain for _, plain in sums]), count))


def _nats_of_rows(softmax: Softmax, plan: KernelPlan) -> Tensor:
    """Return −log softmax(W f_n + b)[target_n] of each row, block by block."""
    features_NF, weight_VF, bias_V, targets_N, _ = softmax
    arrays = (features_NF, weight_VF, bias_V)
    if not _wants_gradients(arrays) and _runs_natively(arrays, plan):
        return row_nats(*arrays, targets_N, level=plan.level).to(features_NF.dtype)
    pieces = [
        cross_entropy(
            linear(features_NF[rows], weight_VF, bias_V), targets_N[rows], reduction="none"
        )
        for rows in _row_blocks(features_NF.shape[0], weight_VF.shape[0])
    ]
    return torch.cat(pieces)


def _nats_of_softmax(
    softmax: Softmax, count: int, smoothing: float, plan: KernelPlan
) -> tuple[Tensor, Tensor]:
    """Return the summed nats of all rows, of smoothed targets and of plain ones.

    `count` tokens share the mean to come, for which the native sweep scales its gradients.
    """
    features_NF, weight_VF, bias_V, targets_N, _ = softmax
    arrays = (features_NF, weight_VF, bias_V)
    wants = _wants_gradients(arrays)
    if _runs_natively(arrays, plan) and (wants or not smoothing):
        if not wants:
            nats = row_nats(*arrays, targets_N, level=plan.level).sum()
            return nats, nats
        precision, kernel = native_loss_precision(plan.precision, plan.level)
        plan.note("loss", kernel)
        return summed_nats(
            *arrays,
            targets_N,
            count=count,
            smoothing=smoothing,
            precision=precision,
            level=plan.level,
        )
    if wants:
        nats, plain_nats = _SummedNats.apply(*arrays, targets_N, plan.products, smoothing)  # type: ignore[no-untyped-call]
        return nats, plain_nats
    plain_nats, uniform_nats = _sweep(*arrays, targets_N, None, plan.products, smoothing)
    return _smoothed(plain_nats, uniform_nats, smoothing), plain_nats


def _wants_gradients(arrays: tuple[Tensor, Tensor, Tensor]) -> bool:
    return torch.is_grad_enabled() and any(array.requires_grad for array in arrays)


def _runs_natively(arrays: tuple[Tensor, Tensor, Tensor], plan: KernelPlan) -> bool:
    """Return whether the native loss is to run, and let the plan record why."""
    why_not = f"{plan.choice} was asked for"
    if plan.choice in ("auto", "native"):
        why_not = why_no_native_loss(*arrays, level=plan.level)
    plan.note(
        "loss", f"torch: {why_not}" if why_not else native_loss_precision("float32", plan.level)[1]
    )
    return not why_not


def _added(sums: list[Tensor]) -> Tensor:
    return sums[0] if len(sums) == 1 else torch.stack(sums).sum()


def _smoothed(nats: Tensor, uniform_nats: Tensor, smoothing: float) -> Tensor:
    return (1.0 - smoothing) * nats + smoothing * uniform_nats if smoothing else nats


class _SummedNats(torch.autograd.Function):
    """Σ_n −log softmax(W f_n + b)[target_n] with its gradients, without ever holding all logits.

    Returns the smoothed sum, and beside it the plain one, which carries no gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features_NF: Tensor,
        weight_VF: Tensor,
        bias_V: Tensor,
        targets_N: Tensor,
        products: ProductPlan,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        gradients = _Gradients(
            torch.empty_like(features_NF), torch.zeros_like(weight_VF), torch.zeros_like(bias_V)
        )
        nats, uniform_nats = _sweep(
            features_NF, weight_VF, bias_V, targets_N, gradients, products, smoothing
        )
        ctx.save_for_backward(gradients.features_NF, gradients.weight_VF, gradients.bias_V)
        plain_nats = nats.clone()
        ctx.mark_non_differentiable(plain_nats)
        return _smoothed(nats, uniform_nats, smoothing), plain_nats

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, scale: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        features_NF, weight_VF, bias_V = ctx.saved_tensors
        scale = scale.to(features_NF.dtype)
        return features_NF * scale, weight_VF * scale, bias_V * scale, None, None, None


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
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    """Return the summed nats (float64 scalar); fill `gradients` block by block when given.

    With e = exp(logits − max) and s = Σ e of each row, nats = log s − (logit − max)[target], and
    the gradient of the logits is d / s with d = e − s · onehot(target): each product below uses d
    and divides on its narrow side, which saves a pass over the wide one.

    The second scalar is Σ_n mean over v of −log p(v), 0 without `smoothing`; with it, the gradients
    are those of the smoothed sum, d = e − s · ((1 − smoothing) · onehot(target) + smoothing / V).
    """
    nats = torch.zeros((), dtype=torch.float64, device=features_NF.device)
    uniform_nats = torch.zeros_like(nats)
    for rows in _row_blocks(features_NF.shape[0], weight_VF.shape[0]):
        block_NF, targets_N1 = features_NF[rows], targets_N[rows].unsqueeze(1)
        e_NV = products.project(block_NF, weight_VF, bias_V)
        e_NV.sub_(e_NV.amax(dim=1, keepdim=True))
        shifted_N1 = e_NV.gather(1, targets_N1)
        mean_N1 = e_NV.mean(dim=1, keepdim=True) if smoothing else shifted_N1
        s_N1 = e_NV.exp_().sum(dim=1, keepdim=True)
        nats += (s_N1.log() - shifted_N1).double().sum()
        if smoothing:
            uniform_nats += (s_N1.log() - mean_N1).double().sum()
        if gradients is not None:
            d_NV = e_NV.scatter_add_(1, targets_N1, s_N1 * (smoothing - 1.0))
            if smoothing:
                d_NV.sub_(s_N1 * (smoothing / weight_VF.shape[0]))
            gradients.features_NF[rows] = products.input_gradient(d_NV, weight_VF).div_(s_N1)
            gradients.weight_VF.add_(products.weight_gradient(d_NV, block_NF / s_N1))
            gradients.bias_V.addmv_(d_NV.t(), s_N1.reciprocal().squeeze(1))
    return nats, uniform_nats


def _row_blocks(num_rows: int, vocabulary_size: int) -> Iterator[slice]:
    """Yield at least one slice, all of nearly equal size, `LOGITS_AT_ONCE` logits or one row."""
    most = max(1, LOGITS_AT_ONCE // vocabulary_size)
    num_blocks = max(1, -(-num_rows // most))
    for block in range(num_blocks):
        yield slice(block * num_rows // num_blocks, (block + 1) * num_rows // num_blocks)


def _valid_steps(states_BTH: Tensor, targets_BT: Tensor, lengths_B: Tensor | None) -> Tensor | None:
    """Return the positions t + b · T of steps that have a target, or None when all have one."""
    require_shape("targets_BT", targets_BT, states_BTH.shape[:2])
    batch_size, num_steps = targets_BT.shape
    valid_BT = targets_BT != IGNORED
    if lengths_B is not None:
        require_shape("lengths_B", lengths_B, (batch_size,))
        steps_T = torch.arange(num_steps, device=targets_BT.device)
        valid_BT &= steps_T < lengths_B.to(targets_BT.device).unsqueeze(1)
    return None if bool(valid_BT.all()) else valid_BT.flatten().nonzero().squeeze(1)


def _valid_rows(
    states_BTH: Tensor, targets_BT: Tensor, valid_N: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the states and targets of valid steps, one row each."""
    states_NH, targets_N = states_BTH.flatten(0, 1), targets_BT.flatten().long()
    if valid_N is not None:
        states_NH, targets_N = states_NH.index_select(0, valid_N), targets_N[valid_N]
    return states_NH, targets_N
