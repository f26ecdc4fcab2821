"""What each step adds to a shared gradient: the sum is the gradient, and each part is right."""

import pytest
import torch
from chance_cells import random_model

from elman.inspection.weight_uses import weight_uses
from elman.kernels.dispatch import KernelPlan

IDS = torch.tensor([[1, 5, 3, 2], [9, 0, 6, 2]])
NEXT = torch.tensor([[5, 3, 2, 7], [0, 6, 2, 2]])


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm", "mgu", "minlstm"])
def test_contributions_add_up_to_the_gradient(kind: str) -> None:
    model = random_model(kind)

    def loss_of(states_BTH: torch.Tensor) -> torch.Tensor:
        log_probs = model.readout.logits(states_BTH).log_softmax(dim=2)
        return -log_probs.gather(2, NEXT[:, :, None]).sum()

    x_BTE = model.inputs(IDS)
    found = weight_uses(model.stack, x_BTE, loss_of)
    states_BTH, _ = model.stack(x_BTE, None, None, plan=KernelPlan("reference"))
    names = dict(model.stack.named_parameters())
    grads = torch.autograd.grad(loss_of(states_BTH), list(names.values()))
    assert set(found.total) == set(names)
    for name, grad in zip(names, grads, strict=True):
        torch.testing.assert_close(found.total[name], grad, rtol=1e-10, atol=1e-12)
        assert found.norms[name].shape == (4,)


def test_a_step_after_the_loss_contributes_nothing() -> None:
    model = random_model("lstm", num_layers=1)
    found = weight_uses(model.stack, model.inputs(IDS), lambda states: states[:, 1].sum())
    assert (found.norms["cells.0.weight_ih"][2:] == 0).all()
    assert (found.norms["cells.0.weight_ih"][:2] > 0).all()


def test_one_step_of_an_identity_cell_is_the_closed_form() -> None:
    """h_2 = w (w h_0 + x_1) + x_2: dL/dw = h_1 of step 2 and w h_0 of step 1."""
    model = random_model("elman", num_layers=1, activation="identity", hidden_size=1)
    x_BTE = model.inputs(IDS[:1, :2])
    cell = model.stack.cell(0)
    state = (cell.pack_state([torch.full((1, 1), 0.5).double()]),)
    found = weight_uses(model.stack, x_BTE, lambda states: states[:, -1].sum(), state)
    w = cell.weight_hh.item()
    bias = cell.bias_ih + cell.bias_hh
    h_1 = (cell.weight_ih @ x_BTE[0, 0] + bias).item() + w * 0.5
    want = torch.tensor([abs(w * 0.5), abs(h_1)]).double()
    torch.testing.assert_close(found.norms["cells.0.weight_hh"], want, rtol=1e-6, atol=0)
