"""The rule of the step: torch's optimisers, with defaults that depend on which one it is."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from elman.cells.cell import Cell
from elman.config.training_settings import TrainingSettings
from elman.training.muon import Muon
from elman.training.plain_sgd import Optimiser, PlainSGD

PEAK_RATES: Mapping[str, float] = MappingProxyType(
    {"sgd": 1.0, "adam": 3e-3, "adamw": 3e-3, "muon": 5e-2}
)
"""Peak rate of each optimiser where `training.learning_rate` is 0."""

WEIGHT_DECAYS: Mapping[str, float] = MappingProxyType(
    {"sgd": 0.0, "adam": 0.0, "adamw": 0.01, "muon": 0.01}
)
"""Decay of each optimiser where `training.weight_decay` is negative."""

ADAM_EPSILON = 1e-8

MUON_MOMENTUM = 0.95

ADAMW_SHARE = 0.08
"""Under muon, the rate of what AdamW learns (embedding, readout, biases) as a share of its own."""


def peak_rate(settings: TrainingSettings) -> float:
    """Return the largest rate of a run: `learning_rate`, or the optimiser's own where it is 0."""
    return settings.learning_rate or PEAK_RATES[settings.optimizer]


def decay_of_weights(settings: TrainingSettings) -> float:
    """Return `weight_decay`, or the optimiser's own where that is negative."""
    if settings.weight_decay < 0.0:
        return WEIGHT_DECAYS[settings.optimizer]
    return settings.weight_decay


def build_optimiser(model: nn.Module, settings: TrainingSettings) -> Optimiser:
    """Return the optimiser over all parameters of `model`; the caller sets each group's `lr`.

        sgd    v ← μ v + g;  w ← w − rate · v
        adam   w ← w − rate · m̂ / (√v̂ + ε)      (D. P. Kingma, J. Ba, arXiv:1412.6980, algorithm 1)
        adamw  the same, and w ← w − rate · decay · w apart from it
               (I. Loshchilov, F. Hutter, arXiv:1711.05101, algorithm 2)
        muon   the matrices of the recurrence by orthogonalised momentum (`elman.training.muon`),
               all else by adamw at ADAMW_SHARE of the rate

    For sgd and adam the decay is added to the gradient. It acts on matrices only: a bias that is
    shrunk shifts what the model predicts and keeps nothing small that grows. One fused pass over
    memory for each update; values differ from torch's loop over tensors by rounding alone. With
    μ = 0 sgd is `PlainSGD`.
    """
    decay = decay_of_weights(settings)
    if settings.optimizer == "muon":
        return _build_muon(model, settings, decay)
    matrices = [p for p in model.parameters() if p.ndim >= 2 and p.requires_grad]
    others = [p for p in model.parameters() if p.ndim < 2 and p.requires_grad]
    groups = [
        {"params": parameters, "weight_decay": share}
        for parameters, share in ((matrices, decay), (others, 0.0))
        if parameters
    ]
    peak, betas = peak_rate(settings), (settings.beta1, settings.beta2)
    if settings.optimizer == "sgd" and settings.momentum == 0.0:
        return PlainSGD(groups, lr=peak)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=peak, momentum=settings.momentum, fused=True)
    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, lr=peak, betas=betas, eps=ADAM_EPSILON, fused=True)


def set_rate(optimiser: Optimiser, value: float) -> None:
    """Let the next step use the rate `value`."""
    for group in optimiser.param_groups:
        group["lr"] = value * group.get("rate_share", 1.0)


def apply_gradients(optimiser: Optimiser, factor: float) -> None:
    """Make one step with all gradients times `factor`; they may be scaled in place."""
    if isinstance(optimiser, PlainSGD):
        optimiser.step(factor=factor)
        return
    if factor != 1.0:
        for group in optimiser.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)
    optimiser.step()


def takes_rows(settings: TrainingSettings) -> bool:
    """Return whether the gradient of a matrix may come as its rows that have one, and no others.

    It may where rows without a gradient stay as they are: by `PlainSGD` without decay.
    """
    is_plain = settings.optimizer == "sgd" and settings.momentum == 0.0
    return is_plain and decay_of_weights(settings) == 0.0


def _build_muon(model: nn.Module, settings: TrainingSettings, decay: float) -> Muon:
    """Group the piles of gate matrices by the rows of one gate; the rest goes to AdamW."""
    groups: list[dict[str, Any]] = []
    recurrent: set[Tensor] = set()
    for module in model.modules():
        if isinstance(module, Cell):
            piles = [weight for weight in module.weights if weight.shape[0] == module.num_rows]
            piles = [weight for weight in piles if weight.ndim == 2]
            groups.append({"params": piles, "block_rows": module.hidden_size, "weight_decay": 0.0})
            recurrent.update(piles)
    others = [p for p in model.parameters() if p.requires_grad and p not in recurrent]
    for parameters, share in (
        ([p for p in others if p.ndim >= 2], decay),
        ([p for p in others if p.ndim < 2], 0.0),
    ):
        groups.append({"params": parameters, "weight_decay": share, "rate_share": ADAMW_SHARE})
    return Muon(
        [group for group in groups if group["params"]],
        momentum=MUON_MOMENTUM,
        products=torch.bfloat16 if settings.precision == "bfloat16" else torch.float32,
        betas=(settings.beta1, settings.beta2),
        eps=ADAM_EPSILON,
    )
