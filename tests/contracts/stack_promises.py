"""The promises of layers: every registered cell, one direction and two, any depth, every option."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from independent import ROWS
from subjects import EXACT_32, EXACT_64, PARITY_32, PARITY_64, assert_close, normal
from torch import Tensor

from elman.cells.registry import CELLS
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_passes import NATIVE_CELLS
from elman.layers.stack import RecurrentStack, StackOptions

LENGTHS = torch.tensor([4, 0, 7, 1, 4, 6])
STEPS, INPUT, HIDDEN = 7, 3, 4
OPTIONS: Mapping[str, StackOptions] = MappingProxyType(
    {
        "plain": StackOptions(),
        "residual, layer norm": StackOptions(residual=True, layer_norm=True),
    }
)


@dataclass(frozen=True)
class StackSubject:
    """Layers of one registered cell."""

    key: str
    directions: int
    depth: int
    options: str

    def __str__(self) -> str:
        ways = "one way" if self.directions == 1 else "both ways"
        return f"{self.key}, {self.depth} deep, {ways}, {self.options}"

    def stack(self, *, seed: int, dtype: torch.dtype = torch.float64) -> RecurrentStack:
        """Layers whose parameters are normal, of a deviation that keeps unbounded cells calm."""
        cells, width = [], INPUT
        for _ in range(self.depth):
            row = [CELLS[self.key](width, HIDDEN) for _ in range(self.directions)]
            cells += row
            width = sum(cell.output_size for cell in row)
        stack = RecurrentStack(cells, num_directions=self.directions, options=OPTIONS[self.options])
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in stack.parameters():
                parameter.normal_(0.0, 0.3, generator=generator)
        return stack.to(dtype)

    def state(self, stack: RecurrentStack, batch_size: int, *, seed: int) -> Any:
        dtype = next(stack.parameters()).dtype
        return tuple(
            stack.cell(place).pack_state(
                [
                    normal(batch_size, size, seed=seed + 10 * place + part, dtype=dtype)
                    for part, size in enumerate(stack.cell(place).state_sizes)
                ]
            )
            for place in range(len(stack.cells))
        )


def run(stack: RecurrentStack, x_BTE: Tensor, state: Any = None, lengths_B: Any = None, path=""):
    return stack(x_BTE, state, lengths_B, plan=KernelPlan(path or "auto"))


def flat(result: Any) -> list[Tensor]:
    states_BTH, state = result
    return [states_BTH, *(part for cell in state for part in cell)]


def none_state_is_zeros_bit_for_bit(subject: StackSubject) -> None:
    stack, x_BTE = subject.stack(seed=1), normal(6, STEPS, INPUT, seed=2)
    zeros = stack.zero_state(6)
    for got, want in zip(
        flat(run(stack, x_BTE, None, LENGTHS)), flat(run(stack, x_BTE, zeros, LENGTHS)), strict=True
    ):
        assert torch.equal(got, want)


def equals_numpy_layer_by_layer(subject: StackSubject) -> None:
    """Each layer of each row, alone, by the independent reference, with norm and residual."""
    stack, x_BTE = subject.stack(seed=3), normal(6, STEPS, INPUT, seed=4)
    first = subject.state(stack, 6, seed=5)
    states, last = stack.all_layers(x_BTE, first, LENGTHS, plan=KernelPlan())
    for row, length in enumerate(LENGTHS.tolist()):
        if not length:
            continue
        read_TE = x_BTE[row, :length].numpy()
        for layer in range(subject.depth):
            halves = []
            for way in range(subject.directions):
                place = layer * subject.directions + way
                turn = slice(None, None, -1 if way else 1)
                weights = {
                    name: weight.detach().numpy()
                    for name, weight in stack.cell(place).named_parameters()
                }
                begin = tuple(part[row].numpy() for part in first[place])
                reference = ROWS[subject.key.split(",")[0]]
                out_TH, end = reference(read_TE[turn], begin, weights)
                halves.append(out_TH[turn])
                for got, want in zip(last[place], end, strict=True):
                    assert_close(got[row], torch.from_numpy(want), PARITY_64, f"state {place}")
            wrote_TH = np.concatenate(halves, axis=1)
            if subject.options != "plain":
                norm = stack.norms[layer]
                mean, var = wrote_TH.mean(1, keepdims=True), wrote_TH.var(1, keepdims=True)
                wrote_TH = (wrote_TH - mean) / np.sqrt(var + 1e-5)
                wrote_TH = wrote_TH * norm.weight.detach().numpy() + norm.bias.detach().numpy()
                if wrote_TH.shape == read_TE.shape:
                    wrote_TH = wrote_TH + read_TE
            got_TH = states[layer][row, :length]
            assert_close(got_TH, torch.from_numpy(wrote_TH.copy()), PARITY_64, f"layer {layer}")
            read_TE = wrote_TH


def fast_equals_readable_with_gradients(subject: StackSubject) -> None:
    """In float64, and for native kernels in float32, against the loop in float64."""
    tolerances = {torch.float64: PARITY_64}
    if subject.key in NATIVE_CELLS:
        tolerances[torch.float32] = PARITY_32
    for dtype, tolerance in tolerances.items():
        results = [
            results_on(subject, path, dtype if path == "auto" else torch.float64)
            for path in ("auto", "reference")
        ]
        for got, want in zip(*results, strict=True):
            size = max(1.0, want.abs().max().item())
            assert_close(got, want, tolerance * size, f"values and gradients in {dtype}")


def results_on(subject: StackSubject, path: str, dtype: torch.dtype) -> list[Tensor]:
    """Outputs, final states and all gradients of one stack, on the same values in any type."""
    stack = subject.stack(seed=6)
    first = subject.state(stack, 6, seed=8)
    first = tuple(
        stack.cell(place).pack_state([part.to(dtype) for part in state])
        for place, state in enumerate(first)
    )
    stack.to(dtype)
    x_BTE = normal(6, STEPS, INPUT, seed=7).to(dtype).requires_grad_()
    outputs = flat(run(stack, x_BTE, first, LENGTHS, path))
    grads = torch.autograd.grad(
        sum(output.sin().sum() for output in outputs),
        [x_BTE, *stack.parameters()],
        materialize_grads=True,
        allow_unused=True,
    )
    return [*outputs, *grads]


def padding_is_invisible(subject: StackSubject) -> None:
    stack, clean_BTE = subject.stack(seed=9), normal(6, STEPS, INPUT, seed=10)
    first = subject.state(stack, 6, seed=11)
    pad_BT = torch.arange(STEPS) >= LENGTHS.unsqueeze(1)
    x_BTE = clean_BTE.masked_fill(pad_BT.unsqueeze(2), torch.nan).requires_grad_()
    states_BTH, last = run(stack, x_BTE, first, LENGTHS)
    assert states_BTH[pad_BT].eq(0).all(), "outputs at padding must be exactly 0"
    (grad_BTE,) = torch.autograd.grad(states_BTH.sin().sum(), [x_BTE])
    assert grad_BTE[pad_BT].eq(0).all(), "gradients at padding must be exactly 0"
    for row, length in enumerate(LENGTHS.tolist()):
        begin = tuple(
            stack.cell(place).pack_state([part[row : row + 1] for part in state])
            for place, state in enumerate(first)
        )
        alone_BTH, alone = run(stack, clean_BTE[row : row + 1, :length], begin)
        assert_close(states_BTH[row : row + 1, :length], alone_BTH, EXACT_64, "outputs")
        for got, want in zip(last, alone, strict=True):
            for left, right in zip(got, want, strict=True):
                assert_close(left[row : row + 1], right, EXACT_64, "final state")


def batch_order_and_size_change_nothing(subject: StackSubject) -> None:
    order = torch.tensor([3, 5, 0, 4, 1, 2])
    for dtype, tolerance in ((torch.float64, EXACT_64), (torch.float32, EXACT_32)):
        stack = subject.stack(seed=12, dtype=dtype)
        x_BTE = normal(6, STEPS, INPUT, seed=13, dtype=dtype)
        whole = flat(run(stack, x_BTE, None, LENGTHS))
        for rows in (order, order[:1]):
            some = flat(run(stack, x_BTE[rows], None, LENGTHS[rows]))
            for got, want in zip(some, whole, strict=True):
                assert_close(got, want[rows], tolerance, f"rows {rows.tolist()}")


def two_chunks_are_the_whole(subject: StackSubject) -> None:
    stack, x_BTE = subject.stack(seed=14), normal(6, STEPS, INPUT, seed=15)
    whole = flat(run(stack, x_BTE, None, LENGTHS))
    for cut in (1, 4):
        early, state = run(stack, x_BTE[:, :cut], None, LENGTHS.clamp(max=cut))
        late = run(stack, x_BTE[:, cut:], state, (LENGTHS - cut).clamp(min=0))
        joined = [torch.cat([early, late[0]], dim=1), *flat(late)[1:]]
        for got, want in zip(joined, whole, strict=True):
            assert_close(got, want, EXACT_64, f"cut at {cut}")


STACK_PROMISES: Mapping[str, Callable[[StackSubject], None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            none_state_is_zeros_bit_for_bit,
            equals_numpy_layer_by_layer,
            fast_equals_readable_with_gradients,
            padding_is_invisible,
            batch_order_and_size_change_nothing,
            two_chunks_are_the_whole,
        )
    }
)


def all_stacks() -> list[StackSubject]:
    """Every registered cell, both numbers of directions, two depths, every option."""
    return [
        StackSubject(key, directions, depth, options)
        for key in CELLS
        for directions in (1, 2)
        for depth in (1, 3)
        for options in OPTIONS
    ]


def why_not_for_stack(promise: str, subject: StackSubject) -> str | None:
    if promise == "two_chunks_are_the_whole" and subject.directions == 2:
        return "a backward reader begins at the end of the row, which the first chunk has not"
    return None
