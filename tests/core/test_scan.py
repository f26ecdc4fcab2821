"""The parallel scan holds where gates saturate, over long rows, from states of any sign."""

import pytest
import torch

from elman.cells.registry import CELLS
from elman.kernels.dispatch import KernelPlan
from elman.kernels.scan import STEPS_AT_ONCE, linear_scan
from elman.layers.recurrence import recur

seed = 9


def values_and_gradients(key: str, scale: float, shift: float, steps: int, path: str, dtype):
    generator = torch.Generator().manual_seed(seed)
    cell = CELLS[key](3, 4)
    with torch.no_grad():
        for weight in cell.weights:
            weight.normal_(0.0, scale, generator=generator)
        assert cell.bias_ih is not None
        cell.bias_ih.add_(shift)
    cell.to(dtype)
    x_BTE = torch.randn(2, steps, 3, generator=generator).to(dtype).requires_grad_()
    first_BH = (3 * torch.randn(2, 4, generator=generator)).to(dtype)
    states_BTH, _ = recur(cell, x_BTE, cell.pack_state([first_BH]), None, plan=KernelPlan(path))
    pull_BTH = torch.randn(states_BTH.shape, generator=generator).to(dtype)
    grads = torch.autograd.grad((states_BTH * pull_BTH).sum(), [x_BTE, *cell.weights])
    return [result.double() for result in (states_BTH, *grads)]


@pytest.mark.parametrize("key", ["mingru", "minlstm"])
@pytest.mark.parametrize(
    ("scale", "shift", "steps"),
    [(1, 0, 300), (1, 30, 300), (1, -30, 300), (1, 100, 300), (10, 0, 300), (100, 0, 128)],
)
def test_saturated_gates_cost_the_scan_no_digits_that_the_loop_keeps(
    key: str, scale: float, shift: float, steps: int
) -> None:
    exact = values_and_gradients(key, scale, shift, steps, "reference", torch.float64)
    loop = values_and_gradients(key, scale, shift, steps, "reference", torch.float32)
    scan = values_and_gradients(key, scale, shift, steps, "auto", torch.float32)
    for got, plain, want in zip(scan, loop, exact, strict=True):
        size = want.abs().max().clamp(min=1e-30)
        error, of_loop = (got - want).abs().max() / size, (plain - want).abs().max() / size
        # Sums over a few hundred steps: some 1e-5 of float32, or ten times what the loop loses.
        assert error <= max(1e-4, 10 * of_loop.item()), f"seed {seed}"


@pytest.mark.parametrize("steps", [1, 2, STEPS_AT_ONCE, STEPS_AT_ONCE + 1, 3 * STEPS_AT_ONCE - 1])
def test_blocks_join_without_a_seam(steps: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    keep_BTH = torch.rand(2, steps, 3, generator=generator, dtype=torch.float64)
    new_BTH = torch.rand(2, steps, 3, generator=generator, dtype=torch.float64)
    state_BH = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    got_BTH = linear_scan(keep_BTH.log(), new_BTH.log(), state_BH)
    for step in range(steps):
        state_BH = keep_BTH[:, step] * state_BH + new_BTH[:, step]
        torch.testing.assert_close(got_BTH[:, step], state_BH, rtol=1e-12, atol=1e-12)
