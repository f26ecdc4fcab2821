"""Numbers and operations counted, beside what the axes say."""

import pytest
import torch

from elman.recipes.lab import memory_cost
from elman.recipes.lab.instruments import ProductCounter, kept_for_backward


@pytest.mark.parametrize(("length", "targets", "width"), [(1, 1, 1), (7, 2, 3), (5, 9, 4)])
def test_a_target_costs_two_products(length: int, targets: int, width: int) -> None:
    assert memory_cost._stored(length, width) == length * width
    want = 2 * 2 * length * targets * width
    assert memory_cost._operations(length, targets, width) == want


def test_the_counter_knows_a_product() -> None:
    with ProductCounter() as counter:
        product = torch.ones(2, 3, 4) @ torch.ones(2, 4, 5)
        product = product + torch.ones(2, 3, 5)
    assert counter.operations == 2 * 2 * 3 * 4 * 5


def test_what_a_graph_keeps_is_counted_once_and_without_the_weights() -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    x_BE = torch.ones(2, 3)
    kept = kept_for_backward(lambda: (x_BE @ weight).tanh().sum() + (x_BE @ weight).sum(), [weight])
    assert sorted(kept) == [((2, 3), 6), ((2, 3), 6)]
