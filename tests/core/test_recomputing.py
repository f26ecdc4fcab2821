"""Blocks run again in the backward pass: the same values, the same gradients, less kept."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from elman.cells.registry import CELLS
from elman.config.model_settings import ModelSettings
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.noise import NoiseRates
from elman.layers.stack import RecurrentStack, StackOptions
from elman.losses import token_loss
from elman.models.recurrent import RecurrentLanguageModel

seed = 11
ALL_NOISE = NoiseRates(recurrent_dropout=0.3, zoneout=0.2, zoneout_cell=0.1, weight_dropout=0.3)
LENGTHS = torch.tensor([9, 0, 4, 9, 1, 6])


def stack_of(key: str, options: StackOptions | None = None, num_layers: int = 2) -> RecurrentStack:
    generator = torch.Generator().manual_seed(seed)
    first = CELLS[key](3, 4)
    cells = [first, *(CELLS[key](first.output_size, 4) for _ in range(num_layers - 1))]
    stack = RecurrentStack(cells, options=options).double()
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return stack


def everything(stack, plan, recompute, *, lengths_B=None, noisy=False):
    """Return outputs, last state, and gradients of inputs, first state and all parameters."""
    generator = torch.Generator().manual_seed(seed)
    dtype = stack.cell(0).weight_ih.dtype
    x_BTE = torch.randn(6, 9, 3, dtype=dtype, generator=generator).requires_grad_()
    first = [
        [torch.randn(part.shape, dtype=dtype, generator=generator) for part in cell_state]
        for cell_state in stack.zero_state(6)
    ]
    leaves = [part.requires_grad_() for parts in first for part in parts]
    state = tuple(stack.cell(place).pack_state(parts) for place, parts in enumerate(first))
    noise = torch.Generator().manual_seed(seed + 1) if noisy else None
    states_BTH, last = stack(
        x_BTE, state, lengths_B, plan=plan, generator=noise, recompute=recompute
    )
    ends = [part for cell_state in last for part in cell_state]
    weights = [
        torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in (states_BTH, *ends)
    ]
    total = sum((t * w).sum() for t, w in zip((states_BTH, *ends), weights, strict=True))
    inputs = [x_BTE, *leaves, *stack.parameters()]
    gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    drawn = None if noise is None else noise.get_state()
    return [states_BTH, *ends, *gradients], drawn


def assert_same(got, want, *, bits: bool) -> None:
    for place, (left, right) in enumerate(zip(got, want, strict=True)):
        if right is None:
            assert left is None
        elif bits:
            assert torch.equal(left, right), f"tensor {place}, seed {seed}"
        else:  # Sums over time are cut elsewhere: some roundings of float64.
            torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("key", CELLS)
@pytest.mark.parametrize("recompute", [1, 4, 8])
def test_the_readable_loop_gives_the_same_values_to_the_bit_in_blocks(key, recompute) -> None:
    options = StackOptions(dropout=0.4, residual=True, layer_norm=True, noise=ALL_NOISE)
    stack, plan = stack_of(key, options), KernelPlan("reference")
    num_values = 1 + 2 * len(stack.cell(0).state_names)
    for noisy in (False, True):
        want, drawn_whole = everything(stack, plan, 0, noisy=noisy)
        got, drawn = everything(stack, plan, recompute, noisy=noisy)
        assert_same(got[:num_values], want[:num_values], bits=True)
        assert_same(got, want, bits=False)
        assert noisy == (drawn is not None)
        assert drawn is None or torch.equal(drawn, drawn_whole)


@pytest.mark.parametrize("key", ["elman/tanh", "elman/relu", "lstm", "lstm, one bias"])
@pytest.mark.parametrize("recompute", [1, 4, 8])
def test_a_state_with_two_readers_has_its_gradient_to_the_bit_in_blocks(key, recompute) -> None:
    """The sum of two addends has no order: the output and the next step."""
    noise = NoiseRates(recurrent_dropout=0.3, weight_dropout=0.3)
    stack = stack_of(key, StackOptions(dropout=0.4, noise=noise))
    want, _ = everything(stack, KernelPlan("reference"), 0, noisy=True)
    got, _ = everything(stack, KernelPlan("reference"), recompute, noisy=True)
    assert_same(got, want, bits=True)


@pytest.mark.parametrize("key", CELLS)
@pytest.mark.parametrize("choice", ["auto", "torch", "reference"])
@pytest.mark.parametrize("kind", ["ordinary", "locked"])
def test_every_kernel_gives_the_same_gradients_in_blocks_of_ragged_rows(key, choice, kind) -> None:
    noise = ALL_NOISE if choice == "reference" else NoiseRates(weight_dropout=0.3)
    stack = stack_of(key, StackOptions(dropout=0.4, dropout_kind=kind, noise=noise))
    for lengths_B in (None, LENGTHS):
        want, _ = everything(stack, KernelPlan(choice), 0, lengths_B=lengths_B, noisy=True)
        for recompute in (2, 4):
            got, _ = everything(
                stack, KernelPlan(choice), recompute, lengths_B=lengths_B, noisy=True
            )
            assert_same(got, want, bits=False)


@pytest.mark.parametrize("key", ["elman/tanh", "gru/after/keep", "gru/before/keep", "lstm"])
@pytest.mark.parametrize("lengths_B", [None, LENGTHS], ids=["full", "ragged"])
def test_float32_kernels_give_the_same_gradients_in_blocks(key, lengths_B) -> None:
    stack = stack_of(key, StackOptions(dropout=0.4)).float()
    want, _ = everything(stack, KernelPlan(), 0, lengths_B=lengths_B, noisy=True)
    got, _ = everything(stack, KernelPlan(), 4, lengths_B=lengths_B, noisy=True)
    for place, (left, right) in enumerate(zip(got, want, strict=True)):
        worst = (left - right).abs().max() / right.abs().max().clamp_min(1.0)
        assert worst < 1e-5, f"tensor {place}, seed {seed}"  # some hundred roundings of 6e-8


def test_noise_makes_a_difference_that_the_second_run_must_meet() -> None:
    options = StackOptions(dropout=0.4, noise=ALL_NOISE)
    stack, plan = stack_of("lstm", options), KernelPlan("reference")
    noisy, _ = everything(stack, plan, 4, noisy=True)
    plain, _ = everything(stack, plan, 4)
    assert not torch.allclose(noisy[0], plain[0])


def test_nothing_within_a_block_is_kept() -> None:
    stack = stack_of("lstm")
    generator = torch.Generator().manual_seed(seed)
    x_BTE = torch.randn(6, 40, 3, dtype=torch.float64, generator=generator).requires_grad_()

    def kept(recompute: int) -> int:
        sizes: list[int] = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            stack(x_BTE, None, None, plan=KernelPlan("reference"), recompute=recompute)
        return sum(sizes)

    assert kept(0) > 40 * 6 * 4 * 2  # at least every state of both layers
    assert kept(8) == x_BTE.numel()  # what the blocks read, and nothing of what they make
    assert kept(40) == kept(0)  # a block as long as the window is the plain run


def test_without_gradients_there_are_no_blocks() -> None:
    stack, plan = stack_of("gru/after/keep"), KernelPlan("torch")
    generator = torch.Generator().manual_seed(seed)
    x_BTE = torch.randn(2, 7, 3, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        whole, _ = stack(x_BTE, None, None, plan=plan)
        got, _ = stack(x_BTE, None, None, plan=plan, recompute=3)
    assert torch.equal(got, whole)


def test_a_stack_of_two_directions_is_refused() -> None:
    cells = [CELLS["lstm"](3, 4), CELLS["lstm"](3, 4)]
    stack = RecurrentStack(cells, num_directions=2)
    with pytest.raises(SettingError, match="only a stack of one direction"):
        stack(torch.zeros(1, 5, 3), None, None, plan=KernelPlan(), recompute=2)


@pytest.mark.parametrize("kind", ["lstm", "gru", "elman"])
def test_a_language_model_with_all_its_noise_learns_the_same_in_blocks(kind: str) -> None:
    settings = ModelSettings(
        kind=kind,  # type: ignore[arg-type]
        embedding_size=5,
        hidden_size=6,
        num_layers=2,
        dropout=0.3,
        embedding_dropout=0.2,
        token_dropout=0.2,
        recurrent_dropout=0.2,
        weight_dropout=0.3,
        zoneout=0.1,
    )
    model = RecurrentLanguageModel(settings, 17, torch.Generator().manual_seed(seed)).double()
    ids_BT = torch.randint(0, 17, (4, 13), generator=torch.Generator().manual_seed(seed))

    def learnt(recompute: int) -> list[torch.Tensor]:
        output = model(
            ids_BT,
            plan=KernelPlan("reference"),
            generator=torch.Generator().manual_seed(3),
            recompute=recompute,
        )
        loss = token_loss(output.states_BTH, output.readout, ids_BT)
        return [loss.nats, *torch.autograd.grad(loss.mean(), list(model.parameters()))]

    assert_same(learnt(4), learnt(0), bits=False)
