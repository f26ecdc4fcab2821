"""What a recurrent model carries, what it spends on a token, and what training must keep.

    reading:  numbers carried = layers · d_h, steps = layers · tokens, at any length
    training: numbers kept for the backward pass = a + b · T

A prompt of P tokens and n sampled ones take P + n − 1 steps: nothing is read again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import count_steps, kept_for_backward, small_language_model
from elman.recipes.panels import draw_panels

_VOCABULARY, _UNITS, _LAYERS = 9, 6, 2
_SIZES = ("model.kind=elman", f"model.hidden_size={_UNITS}", "model.embedding_size=4")
_LENGTHS = (32, 64, 128, 256)


def _run() -> Iterator[Measured]:
    """Yield the steps of a generation, the numbers carried and the numbers kept."""
    carried, again = _steps_to_sample(prompt=5, sampled=7)
    yield Measured(
        "000-04",
        [carried, again],
        "steps of the cell for 5 given and 7 sampled tokens; the same, reading all again each time",
    )
    yield Measured(
        "000-06",
        [list(_reading(length)) for length in (10, 100, 1000)],
        f"numbers carried by {_LAYERS} layers of {_UNITS} units, and steps of their cells, after "
        "10, 100 and 1,000 tokens",
    )
    kept = [_numbers_kept(length) for length in _LENGTHS]
    slopes = [
        (kept[place + 1] - kept[place]) / (_LENGTHS[place + 1] - _LENGTHS[place])
        for place in range(len(kept) - 1)
    ]
    told = ", ".join(
        f"{numbers:,} at {length}" for length, numbers in zip(_LENGTHS, kept, strict=True)
    )
    yield Measured(
        "000-07",
        [min(slopes) > 0, max(slopes) / min(slopes), _numbers_kept(_LENGTHS[-1], learns=False)],
        f"whether each step adds to what a backward pass keeps ({told} steps), the greatest such "
        "addition over the least, and what is kept where nothing is learnt",
    )


def _steps_to_sample(*, prompt: int, sampled: int) -> tuple[int, int]:
    """Return the steps of the cell with a state that is carried, and without."""
    model = small_language_model(_VOCABULARY, 1, _SIZES)
    used = count_steps(model)[0].used
    settings = SamplingSettings(seed=1)
    plan = KernelPlan("reference")
    ids = [place % _VOCABULARY for place in range(prompt)]
    generation = Generation(model, settings, plan=plan)
    generation.feed(ids)
    made = list(generation.tokens(sampled))
    carried = len(used)
    for length in range(sampled):
        fresh = Generation(model, settings, plan=plan)
        fresh.feed([*ids, *made[:length]])
        fresh.step()
    return carried, len(used) - carried


def _reading(length: int) -> tuple[int, int]:
    """Return the numbers in the state after `length` tokens, and the steps that were made."""
    model = small_language_model(_VOCABULARY, 1, (*_SIZES, f"model.num_layers={_LAYERS}"))
    counting = count_steps(model)
    ids_BT = torch.arange(length).unsqueeze(0) % _VOCABULARY
    with torch.no_grad():
        state = model(ids_BT, plan=KernelPlan("reference")).state
    numbers = sum(part.numel() for cell in state for part in cell)
    return numbers, sum(len(cell.used) for cell in counting.values())


def _numbers_kept(length: int, *, learns: bool = True) -> int:
    """Return the numbers that one pass over `length` inputs keeps for its gradient."""
    model = small_language_model(_VOCABULARY, 1, _SIZES)
    stack: RecurrentStack = model.stack
    x_BTE = torch.zeros(1, length, stack.input_size, dtype=torch.float64)

    def read() -> None:
        with torch.set_grad_enabled(learns):
            stack(x_BTE, None, None, plan=KernelPlan("reference"))

    kept = kept_for_backward(read, [*stack.parameters()])
    return sum(piece.numbers for piece in kept)


def _draw(path: Path) -> None:
    """Draw what is kept against the length, in training and in reading."""
    draw_panels(path, [_memory, _work])


def _memory(axes: Any) -> None:
    lengths = (1, 2, 4, 8, 16, 32, 64, 128)
    kept = [_numbers_kept(length) for length in lengths]
    axes.plot(lengths, kept, marker="o", markersize=3, label="kept for the backward pass")
    carried = [_reading(length)[0] for length in lengths]
    axes.plot(lengths, carried, marker="o", markersize=3, label="carried to the next token")
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="numbers")


def _work(axes: Any) -> None:
    sampled = (1, 5, 10, 15, 20, 25)
    both = [_steps_to_sample(prompt=5, sampled=number) for number in sampled]
    axes.plot(sampled, [steps for _, steps in both], label="the prefix read again each time")
    axes.plot(sampled, [steps for steps, _ in both], label="the state carried")
    axes.set(xlabel="tokens sampled after five", ylabel="steps of the cell")


CONSTANT_STATE = Experiment(
    "constant-state",
    "what a model carries from token to token, and what training keeps of all of them",
    "document 000, Read a token and What constant memory means",
    _run,
    _draw,
)
