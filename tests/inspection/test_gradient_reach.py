"""Gradients at every earlier step against an unrolled loop of separate copies."""

import pytest
import torch
from chance_cells import random_model

from elman.inspection.gradient_reach import Scalar, gradient_reach
from elman.kernels.dispatch import KernelPlan

IDS = torch.tensor([[1, 5, 3, 2, 7, 4], [9, 9, 0, 6, 2, 2]])
NEXT = torch.tensor([3, 8])


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm", "mingru"])
def test_inputs_have_the_gradients_of_a_plain_run(kind: str) -> None:
    model = random_model(kind)
    x_BTE = model.embedding.weight[IDS].clone().requires_grad_(True)
    states_BTH, _ = model.stack(x_BTE, None, None, plan=KernelPlan())
    log_probs = model.readout.logits(states_BTH)[:, -1].log_softmax(dim=1)
    nats_B = -log_probs.gather(1, NEXT[:, None])[:, 0]
    (grad,) = torch.autograd.grad(nats_B.sum(), x_BTE)
    found = gradient_reach(model, IDS, NEXT)
    torch.testing.assert_close(found.scalar_B, nats_B, rtol=1e-10, atol=0)
    want = torch.linalg.vector_norm(grad, dim=2).flip(1)
    torch.testing.assert_close(found.inputs_BK, want, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("scalar", ["logit", "loss", "state"])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_states_have_the_gradients_of_runs_that_begin_with_them(kind: str, scalar: Scalar) -> None:
    model = random_model(kind)
    found = gradient_reach(model, IDS, NEXT, scalar)
    num_steps = IDS.shape[1]
    for back in range(num_steps):
        start = num_steps - 1 - back
        with torch.no_grad():
            state = (
                model(IDS[:, :start], plan=KernelPlan()).state
                if start
                else (model.zero_state(len(IDS)))
            )
        leaves = [[part.clone().requires_grad_(True) for part in each] for each in state]
        given = tuple(model.stack.cell(place).pack_state(each) for place, each in enumerate(leaves))
        output = model(IDS[:, start:], given, plan=KernelPlan())
        last_BH = output.states_BTH[:, -1]
        logits = model.readout.logits(last_BH)
        value = {
            "logit": logits.gather(1, NEXT[:, None]).sum(),
            "loss": -logits.log_softmax(dim=1).gather(1, NEXT[:, None]).sum(),
            "state": torch.linalg.vector_norm(last_BH, dim=1).sum(),
        }[scalar]
        flat = [part for each in leaves for part in each]
        grads = iter(torch.autograd.grad(value, flat, allow_unused=True))
        for layer, each in enumerate(leaves):
            parts = [next(grads) for _ in each]
            squares = sum(part.square().sum(dim=1) for part in parts if part is not None)
            torch.testing.assert_close(
                found.states_LBK[layer, :, back], squares.sqrt(), rtol=1e-9, atol=1e-13
            )


def test_looking_leaves_the_model_as_it_was() -> None:
    model = random_model("lstm")
    model.embedding.weight.grad = torch.ones_like(model.embedding.weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradient_reach(model, IDS, NEXT)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert (model.embedding.weight.grad == 1).all()
    assert all(p.grad is None for n, p in model.named_parameters() if n != "embedding.weight")
