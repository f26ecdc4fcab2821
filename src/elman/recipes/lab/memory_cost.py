"""What each kind of memory costs: one state, a state for each source position, all questions.

    plain recurrence        O(D) numbers carried, at any length
    attention: storage      O(S D);  a question: O(S D) multiplications;  a target of U: O(S U D)
    attention in training   the weights, B × S × U numbers, are kept for the backward pass

Numbers are counted in the tensors themselves, operations in the products that the layer runs: one
for the scores and one for the mixture, a multiplication and an addition each.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from elman.kernels.dispatch import KernelPlan
from elman.layers.attention import DotAttention, SourceMemory
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import (
    ProductCounter,
    kept_for_backward,
    lecture_model,
    small_language_model,
)
from elman.recipes.panels import draw_panels

_SIZES = ((8, 3, 4), (16, 3, 4), (16, 6, 4), (16, 6, 8))
"""S, U, D: each axis doubled in turn."""
_SYMBOLS = 7


def _run() -> Iterator[Measured]:
    """Yield what is stored and computed against S, U and D, and what training keeps."""
    stored, asked, whole = [], [], []
    for length, targets, width in _SIZES:
        stored.append(_stored(length, width) / (length * width))
        asked.append(_operations(length, 1, width) / (length * width))
        whole.append(_operations(length, targets, width) / (length * targets * width))
    yield Measured(
        "000-30",
        [stored, asked, whole],
        "numbers of a source's memory over S · D; operations of one question over S · D; of a "
        f"target over S · U · D, at S, U, D = {', '.join(map(str, _SIZES))}",
    )
    rows, length, targets = 2, 5, 3
    kept = _weights_kept(rows, length, targets)
    yield Measured(
        "000-31",
        [kept, [_carried(tokens) for tokens in (1, 10, 100)]],
        f"numbers in what the graph keeps of the axes {rows} × {targets} × {length}; numbers "
        "carried by a plain model of 6 units after 1, 10 and 100 tokens",
    )


def _memory(length: int, width: int) -> SourceMemory:
    attention = DotAttention(width, width)
    return attention.prepare(torch.ones(1, length, width), torch.ones(1, length, dtype=torch.bool))


def _stored(length: int, width: int) -> int:
    """Return the numbers of a memory's keys and values, one piece of memory once."""
    memory = _memory(length, width)
    pieces = {tensor.data_ptr(): tensor.numel() for tensor in (memory.keys_BSA, memory.values_BSK)}
    return sum(pieces.values())


def _operations(length: int, targets: int, width: int) -> int:
    """Return multiplications and additions of `targets` questions to a source."""
    memory, attention = _memory(length, width), DotAttention(width, width)
    counter = ProductCounter()
    with counter:
        attention.attend(torch.ones(1, targets, width), memory)
    return counter.operations


def _weights_kept(rows: int, length: int, targets: int) -> int:
    """Return the numbers of the attention weights that a training step keeps."""
    model = lecture_model(_SYMBOLS, _SYMBOLS, 1)
    source_BS, inputs_BU = torch.full((rows, length), 2), torch.full((rows, targets), 3)

    def read() -> None:
        model(source_BS, torch.full((rows,), length), inputs_BU, plan=KernelPlan("reference"))

    kept = kept_for_backward(read, [*model.parameters()])
    shape = (rows, targets, length)
    found = [piece.numbers for piece in kept if piece.shape == shape]
    return max(found, default=0)


def _carried(tokens: int) -> int:
    sizes = ("model.kind=elman", "model.hidden_size=6", "model.embedding_size=4")
    model = small_language_model(_SYMBOLS, 1, sizes)
    with torch.no_grad():
        state = model(torch.full((1, tokens), 2), plan=KernelPlan("reference")).state
    return sum(part.numel() for cell in state for part in cell)


def _draw(path: Path) -> None:
    """Draw storage and work against the length of the source."""
    draw_panels(path, [_storage, _work])


def _storage(axes: Any) -> None:
    lengths = (1, 2, 4, 8, 16, 32, 64)
    axes.plot(
        lengths, [_stored(length, 6) for length in lengths], label="a state for each position"
    )
    axes.plot(lengths, [_carried(length) for length in lengths], label="one state, D = 6")
    axes.set(xscale="log", yscale="log", xlabel="source positions", ylabel="numbers")
    _name_powers(axes, lengths)
    axes.set_title("what is stored")


def _work(axes: Any) -> None:
    lengths = (4, 8, 16, 32, 64)
    for targets in (1, 8, 64):
        operations = [_operations(length, targets, 6) for length in lengths]
        axes.plot(lengths, operations, marker="o", markersize=3, label=_targets(targets))
    axes.set(
        xscale="log", yscale="log", xlabel="source positions", ylabel="operations of attention"
    )
    _name_powers(axes, lengths)
    axes.set_title("what is computed")


def _targets(count: int) -> str:
    return "1 target token" if count == 1 else f"{count} target tokens"


def _name_powers(axes: Any, lengths: Sequence[int]) -> None:
    """Write each length under its place on an axis of logarithms, and nothing between."""
    axes.set_xticks(lengths, map(str, lengths))
    axes.set_xticks([], minor=True)


MEMORY_COST = Experiment(
    "memory-cost",
    "numbers stored and operations made: one state, all source states, all questions",
    "document 000, Training choices and the cost of keeping history",
    _run,
    _draw,
)
