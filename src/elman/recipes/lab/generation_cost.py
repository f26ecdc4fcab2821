"""What a generated token costs: one evaluation from a state, t of them from the whole prefix.

    recurrent, or attention with its keys and values kept:   T evaluations for T tokens
    the whole prefix read again for each:                    1 + 2 + … + T = T (T + 1) / 2

A recurrent state is as wide after 10,000 tokens as after 3; a cache of keys and values grows with
what was read. With gradients recorded, the graph behind the state is as deep as the text.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elman.config.model_settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.decoding.sampling import choose_greedy, widen
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_IDS = 9
_LENGTHS = (10, 20, 40)
_FAR = 1000
_GREEDY = SamplingSettings(temperature=0.0)
_FIRST = 1


def _run() -> Iterator[Measured]:
    """Yield evaluations, widths of states, and the depth of graphs."""
    near, far = (_step_at(_model("lstm"), position) for position in (3, 10_000))
    yield Measured(
        "004-19",
        [near[0], far[0], far[1] / near[1]],
        "tokens evaluated for the one at position 3 and at 10,000; width of the state after 10,000 "
        "over that after 3",
    )
    counts = [_evaluated(_from_state, _model("elman"), length)[0] for length in _LENGTHS]
    again = [_evaluated(_from_prefix, _model("transformer"), length)[0] for length in _LENGTHS]
    yield Measured(
        "004-35",
        [counts, again, _widest_input(_from_state, "elman"), _widest_input(_from_prefix, "elman")],
        f"token evaluations for {_LENGTHS} tokens from a state, and by attention over the whole "
        f"prefix; tokens in the longest input of either for {_LENGTHS[0]}",
    )
    cached = [_evaluated(_from_state, _model("transformer"), length) for length in _LENGTHS]
    _, same = _evaluated(_from_prefix, _model("transformer"), _LENGTHS[-1])
    yield Measured(
        "004-41",
        [_at(_FAR, [count for count, _ in cached]), _at(_FAR, again), cached[-1][1] == same],
        f"token evaluations with and without kept keys and values, counted for {_LENGTHS} tokens, "
        f"by the parabola through them for {_FAR:,}; whether both write the same tokens",
    )
    yield Measured(
        "004-39",
        [_graph_depth(_recorded_state(_FAR)), _graph_depth(_generated_state(_FAR))],
        f"steps in the graph behind the state after {_FAR:,} tokens: recorded, and generated",
    )


def _model(kind: str) -> LanguageModel:
    settings = ModelSettings(
        kind=kind,  # type: ignore[arg-type]  # literals of this file
        embedding_size=6,
        hidden_size=8,
        num_heads=2,
        context_length=64,
    )
    return new_language_model(settings, _IDS, generator(1, "initialisation")).double()


class _Counter:
    """Counts the tokens that a model evaluates while it is open, and the widest input."""

    def __init__(self, model: nn.Module) -> None:
        self.tokens, self.widest = 0, 0
        self._hook = model.register_forward_pre_hook(self._see)

    def _see(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.tokens += inputs[0].numel()
        self.widest = max(self.widest, inputs[0].shape[1])

    def close(self) -> None:
        self._hook.remove()


def _step_at(model: LanguageModel, position: int) -> tuple[int, int]:
    """Return the tokens evaluated for the one at `position`, and the numbers in the state then."""
    generation = Generation(model, _GREEDY, plan=KernelPlan())
    generation.feed([_FIRST] * (position - 1))
    counter = _Counter(model)
    generation.step()
    counter.close()
    return counter.tokens, _width(generation.state().model_state)


def _width(state: StackState | None) -> int:
    return 0 if state is None else sum(part.numel() for cell_state in state for part in cell_state)


_Writer = Callable[[LanguageModel, int], list[int]]


def _evaluated(write: _Writer, model: LanguageModel, length: int) -> tuple[int, list[int]]:
    """Return how many tokens `model` evaluates while `length` are written, and which those are."""
    counter = _Counter(model)
    written = write(model, length)
    counter.close()
    return counter.tokens, written


def _widest_input(write: _Writer, kind: str) -> int:
    model = _model(kind)
    counter = _Counter(model)
    write(model, _LENGTHS[0])
    counter.close()
    return counter.widest


def _from_state(model: LanguageModel, length: int) -> list[int]:
    """Write greedily, each token after the state that the one before has left."""
    generation = Generation(model, _GREEDY, plan=KernelPlan("reference"))
    generation.feed([_FIRST])
    return list(generation.tokens(length))


def _from_prefix(model: LanguageModel, length: int) -> list[int]:
    """Write greedily, the whole prefix read again for each token."""
    written = [_FIRST]
    with torch.inference_mode():
        for _ in range(length):
            output = model(torch.tensor([written]), plan=KernelPlan("reference"))
            written.append(choose_greedy(widen(output.readout(output.states_BTH[0, -1]))))
    return written[1:]


def _at(length: int, counts: list[int]) -> int:
    """Return the value at `length` of the parabola through the counts for `_LENGTHS` tokens."""
    total = Fraction(0)
    for place, count in zip(_LENGTHS, counts, strict=True):
        weight = Fraction(1)
        for other in _LENGTHS:
            if other != place:
                weight *= Fraction(length - other, place - other)
        total += count * weight
    return int(total) if total.denominator == 1 else -1


def _recorded_state(length: int) -> StackState:
    """Return the state after so many tokens, fed one by one while gradients are recorded."""
    model, plan = _model("elman"), KernelPlan("reference")
    state, ids_BT = model.zero_state(1), torch.tensor([[_FIRST]])
    for _ in range(length):
        state = model(ids_BT, state, plan=plan).state
    return state


def _generated_state(length: int) -> StackState:
    """Return the state after so many tokens that were generated."""
    generation = Generation(_model("elman"), _GREEDY, plan=KernelPlan("reference"))
    generation.feed([_FIRST])
    for _ in range(length):
        generation.step()
    state = generation.state().model_state
    assert state is not None
    return state


def _graph_depth(state: StackState) -> int:
    """Return how many tanh the recorded graph behind the state holds, 0 where none is recorded."""
    h_BH: Tensor = state[0][0]
    waiting: list[Any] = [] if h_BH.grad_fn is None else [h_BH.grad_fn]
    seen, steps = set(waiting), 0
    while waiting:
        node = waiting.pop()
        steps += node.name() == "TanhBackward0"
        behind = {following for following, _ in node.next_functions if following is not None}
        waiting += behind - seen
        seen |= behind
    return steps


def _draw(path: Path) -> None:
    """Draw evaluations and widths of the state against the number of tokens."""
    draw_panels(path, [_evaluations_panel, _width_panel])


def _evaluations_panel(axes: Any) -> None:
    lengths = (1, 2, 5, 10, 20, 40, 60)
    kinds: tuple[tuple[str, str, _Writer, str], ...] = (
        ("the whole prefix again", "transformer", _from_prefix, "o-"),
        ("keys and values kept", "transformer", _from_state, "s-"),
        ("recurrent state", "elman", _from_state, "x--"),
    )
    for label, kind, write, style in kinds:
        counts = [_evaluated(write, _model(kind), length)[0] for length in lengths]
        axes.plot(lengths, counts, style, label=label)
    axes.set(xscale="log", yscale="log", xlabel="tokens written", ylabel="token evaluations")
    axes.set_title("a state saves the prefix")


def _width_panel(axes: Any) -> None:
    positions = (3, 5, 10, 20, 40, 64)
    for label, kind in (("transformer, cache", "transformer"), ("LSTM", "lstm")):
        widths = [_step_at(_model(kind), position)[1] for position in positions]
        axes.plot(positions, widths, marker="o", label=label)
    axes.set(xlabel="position", ylabel="numbers in the state", ylim=(0, None))
    axes.set_title("and a recurrent one stays as wide as it is")


GENERATION_COST = Experiment(
    "generation-cost",
    "one evaluation a token from a state, the whole prefix without one",
    "document 004, 4 and 7.4",
    _run,
    _draw,
)
