import ast
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from tiny_runs import V, tiny_model
from torch import Tensor
from torch.nn.functional import cross_entropy

from elman.kernels.dispatch import KernelPlan
from elman.training.truncation import carry, detach, reset

SOURCES = Path(__file__).resolve().parents[2] / "src"


class Pair(NamedTuple):
    h_BH: Tensor
    c_BH: Tensor


def nested_state() -> tuple[Pair, tuple[Tensor, ...]]:
    w = torch.tensor([[0.5, -0.25]], requires_grad=True)
    return Pair(w * 2, w * 3), (w * 4,)


def test_carry_keeps_value_and_gradient() -> None:
    state = nested_state()
    carried = carry(state)
    assert torch.equal(carried[0].h_BH, torch.tensor([[1.0, -0.5]]))
    assert carried[0].h_BH.requires_grad
    assert carried[1][0].requires_grad


def test_detach_keeps_every_value_and_the_structure_and_cuts_every_gradient() -> None:
    state = nested_state()
    cut = detach(state)
    assert type(cut[0]) is Pair
    assert torch.equal(cut[0].c_BH, torch.tensor([[1.5, -0.75]]))
    assert torch.equal(cut[1][0], state[1][0])
    leaves = (*cut[0], *cut[1])
    assert not any(leaf.requires_grad for leaf in leaves)
    assert state[0].h_BH.requires_grad, "the state given is left as it was"


def test_detach_of_no_state_is_no_state() -> None:
    assert detach(None) is None


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="tensors and tuples"):
        detach([torch.zeros(1)])


def test_reset_discards_value_and_gradient() -> None:
    model, plan = tiny_model(), KernelPlan()
    ids_BT = torch.tensor([[1, 2, 3]])
    state = model(ids_BT, plan=plan).state
    after_reset = model(ids_BT, reset(state), plan=plan).states_BTH
    assert torch.equal(after_reset, model(ids_BT, None, plan=plan).states_BTH)
    assert not torch.equal(after_reset, model(ids_BT, carry(state), plan=plan).states_BTH)


def test_truncation_cuts_the_gradient_and_keeps_the_value() -> None:
    """Two windows: the second loss reaches the first window's embedding row only when carried."""
    model, plan = tiny_model(), KernelPlan()
    first_BT, second_BT = torch.tensor([[4, 5]]), torch.tensor([[6, 7]])
    outputs, row_gradients = [], []
    for between in (carry, detach, reset):
        model.zero_grad()
        state = model(first_BT, plan=plan).state
        output = model(second_BT, between(state), plan=plan)
        cross_entropy(output.readout.logits(output.states_BTH)[0], torch.tensor([7, 8])).backward()
        outputs.append(output.states_BTH)
        gradient_VE = model.embedding.weight.grad
        assert gradient_VE is not None
        row_gradients.append(float(gradient_VE[[4, 5]].abs().sum()))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert row_gradients[0] > 0.0
    assert row_gradients[1:] == [0.0, 0.0]


def test_without_detach_the_second_backward_meets_a_freed_graph() -> None:
    model, plan = tiny_model(), KernelPlan()
    ids_BT = torch.randint(0, V, (2, 3), generator=torch.Generator().manual_seed(1))
    state = model(ids_BT, plan=plan).state
    state[0][0].sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        model(ids_BT, carry(state), plan=plan).states_BTH.sum().backward()
    state = model(ids_BT, plan=plan).state
    state[0][0].sum().backward()
    model(ids_BT, detach(state), plan=plan).states_BTH.sum().backward()


def test_states_are_detached_in_one_file() -> None:
    """What goes to another program's file, or into C++ as an array, has no graph to keep."""
    callers = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("detach", "detach_"):
                callers.add(str(path.relative_to(SOURCES)))
    out = ("elman/checkpoints/foreign/", "elman/kernels/native_")
    on_the_way_out = {path for path in callers if path.startswith(out)}
    assert callers - on_the_way_out == {"elman/training/truncation.py"}
