"""Muon: momentum, orthogonalised, for the matrices of a recurrence."""

from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor

NEWTON_SCHULZ_STEPS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)
"""a, b, c of X ← a·X + (b·A + c·A²)·X with A = X·Xᵀ: singular values come near 1 in few steps."""


class Muon(torch.optim.Optimizer):
    """Muon for the groups that name a block of rows, AdamW for all others.

        M ← μ·M + (1 − μ)·G;  U = (1 − μ)·G + μ·M;  W ← W − rate · orthogonal(U)
        orthogonal(U): U with all its singular values moved to about 1, by Newton–Schulz steps

    A recurrent matrix is a pile of one matrix a gate; each is orthogonalised by itself, since the
    gates do different work. The direction of largest gradient no longer drowns the others, which is
    worth about twice the updates of AdamW for these models (`benchmarks/RESULTS.md`).
    K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024).

    Groups: `block_rows` > 0 gives the rows of one gate and makes it a Muon group; 0 an AdamW group.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        momentum: float,
        products: torch.dtype,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        super().__init__(groups, {"lr": 0.0, "weight_decay": 0.0, "block_rows": 0})
        self._momentum, self._products = momentum, products
        ordinary = [group for group in self.param_groups if not group["block_rows"]]
        self._adamw = torch.optim.AdamW(ordinary, lr=0.0, betas=betas, eps=eps, fused=True)
        # One memory and one set of rates for both halves: what is saved and set here acts there.
        self._adamw.state = self.state
        for group in ordinary:
            group.update({k: v for k, v in self._adamw.defaults.items() if k not in group})
        self._adamw.param_groups = ordinary

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one step from the gradients that are there."""
        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                if group["block_rows"]:
                    for weight in group["params"]:
                        self._step_matrix(weight, group)
        self._adamw.step()
        return loss

    def _step_matrix(self, weight: Tensor, group: dict[str, Any]) -> None:
        if weight.grad is None:
            return
        memory = self.state[weight]
        if "momentum" not in memory:
            memory["momentum"] = torch.zeros_like(weight)
        memory["momentum"].lerp_(weight.grad, 1.0 - self._momentum)
        ahead = weight.grad.lerp(memory["momentum"], self._momentum)
        blocks = ahead.view(-1, group["block_rows"], weight.shape[1])
        weight.mul_(1.0 - group["lr"] * group["weight_decay"])
        weight.add_(
            orthogonalised(blocks, self._products).reshape(weight.shape), alpha=-group["lr"]
        )


def orthogonalised(blocks: Tensor, products: torch.dtype) -> Tensor:
    """Return each matrix of `blocks` [N, rows, columns] with singular values between 0.7 and 1.2.

    Products are made in the type `products`; bfloat16 is exact enough, and the fastest where the
    processor has it. The result is of the type given. A matrix of zeros stays one.
    """
    a, b, c = QUINTIC
    wide = blocks.to(products)
    wide = wide / (wide.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = wide.shape[-2] > wide.shape[-1]
    wide = wide.mT.contiguous() if tall else wide
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = torch.bmm(wide, wide.mT)
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        wide = torch.baddbmm(wide, factor, wide, beta=a)
    turned: Tensor = wide.mT if tall else wide
    return turned.to(blocks.dtype)
