"""A source and a target: the axes, the factors of a probability, and where a context may enter.

    p(y | x) = Π_{t=1}^{U} p(y_t | y_{<t}, x),  the stop mark being y_U

A fixed context can make the decoder's first state, enter its transition, or enter the output. With
attention in the output alone, known targets make the same decoder states whatever is retrieved.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.data.examples import PairBatch
from elman.data.reversal import reversal_pairs
from elman.decoding.search import StepFunctions
from elman.decoding.translation_steps import Between, translation_steps
from elman.evaluation.translation_report import forced_score
from elman.kernels.dispatch import KernelPlan
from elman.models.attending_decoder import SourceView
from elman.models.encoder_decoder import EncoderDecoder
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import lecture_model
from elman.recipes.panels import draw_panels
from elman.recipes.presets import PRESETS
from elman.recipes.translate import BASE
from elman.training.schedules import rate

_SYMBOLS, _BOUNDARY = 7, 1
_SOURCE, _TARGET = (2, 3, 4, 5, 6), (4, 3)
_PLACES: tuple[Literal["state", "transition", "output"], ...] = ("state", "transition", "output")
_EPOCHS, _UPDATES = 4, 3


def _run() -> Iterator[Measured]:
    """Yield the factors, the places of a context, the axes, the task's rule and the preset."""
    model = lecture_model(_SYMBOLS, _SYMBOLS, 1)
    nats, count = _forced(model)
    yield Measured(
        "000-18",
        [len(_SOURCE), count, nats - _stepwise(model)],
        "source tokens, factors of the target with its stop mark, and the loss under teacher "
        "forcing less the sum of −log p over the steps of a search, one token at a time",
    )
    yield Measured(
        "000-19",
        [_entered(place) for place in _PLACES],
        "numbers read at a step by the decoder and by the output, and whether the first state "
        "depends on the source: context in the first state, the transition, the output",
    )
    yield Measured("000-23", _shapes(model), "B = 2, S = 5, U = 3, D = 6, V = 7 in the preset")
    (pair,) = reversal_pairs(["sophia"])
    yield Measured(
        "000-26",
        [pair.source[::2], len(pair.source), pair.target],
        f"the task's own pair of sophia, {pair.source}: every other letter, length, target",
    )
    moved = _moved_by_context("output")
    fed = _moved_by_context("transition")
    yield Measured(
        "000-35",
        [moved[0], moved[1] > 1e-3, fed[0] > 1e-3],
        "another memory for the same first state and target: greatest change of a decoder state, "
        "whether logits change; whether states change where the context enters the transition",
    )
    yield Measured(
        "000-36",
        _preset(model),
        f"shares of the peak rate at {_UPDATES} updates each of {_EPOCHS} epochs; updates of "
        "warm-up; whether the recurrent weights fill ±1/√D and nothing beyond, as Xavier's would",
    )


def _pair() -> PairBatch:
    source_BS, target_BT = torch.tensor([_SOURCE]), torch.tensor([_TARGET])
    lengths = torch.tensor([len(_SOURCE)]), torch.tensor([len(_TARGET)])
    return PairBatch(source_BS, lengths[0], target_BT, lengths[1])


def _forced(model: EncoderDecoder) -> tuple[float, int]:
    plan = KernelPlan("reference")
    score = forced_score([model], [_pair()], boundary_id=_BOUNDARY, plan=plan)
    return score.loss_nats, score.num_tokens


def _stepwise(model: EncoderDecoder) -> float:
    """Return Σ −log p of the target and its stop mark, by the step that a search makes."""
    batch, plan = _pair(), KernelPlan("reference")
    steps: StepFunctions[Between] = translation_steps(model, plan)
    nats, last = 0.0, _BOUNDARY
    with torch.no_grad():
        read = model.read(batch.source_BS, batch.source_lengths_B, plan=plan)
        state = Between(read.state, read.view, torch.zeros(1, dtype=torch.int64), None)
        for token in (*_TARGET, _BOUNDARY):
            log_probs_NV, state = steps.step(state, torch.tensor([last]))
            nats, last = nats - log_probs_NV[0, token].item(), token
    return nats


def _entered(place: str) -> list[int | bool]:
    """Return the widths that the decoder and the output read, and what the first state shows."""
    model = lecture_model(_SYMBOLS, _SYMBOLS, 1, ("model.attention=none", f"model.context={place}"))
    lengths_B, plan = torch.tensor([len(_SOURCE)]), KernelPlan("reference")
    firsts = [
        model.read(source_BS, lengths_B, plan=plan).state.stack[0][0]
        for source_BS in (torch.tensor([_SOURCE]), torch.tensor([_SOURCE[::-1]]))
    ]
    shows = not torch.equal(*firsts)
    return [model.decoder.stack.input_size, model.decoder.output_size, shows]


def _shapes(model: EncoderDecoder) -> list[list[int]]:
    """Return keys, queries, scores and weights, contexts, features and logits: their axes."""
    plan = KernelPlan("reference")
    source_BS, inputs_BU = torch.full((2, 5), 2), torch.full((2, 3), 3)
    lengths_B = torch.tensor([5, 5])
    read = model.read(source_BS, lengths_B, plan=plan)
    assert model.decoder.embedding is not None
    assert model.decoder.attention is not None
    assert read.view.memory is not None
    embedded_BUE = model.decoder.embedding(inputs_BU)
    states_BUD, _ = model.decoder.stack(embedded_BUE, read.state.stack, None, plan=plan)
    found = model.decoder.attention.attend(states_BUD, read.view.memory)
    scores_BSU = torch.bmm(read.view.memory.keys_BSA, states_BUD.transpose(1, 2))
    output = model.answer(read, inputs_BU, plan=plan)
    tensors = (
        read.view.memory.values_BSK,
        states_BUD,
        scores_BSU,
        found.weights_BTS.transpose(1, 2),
        found.context_BTC,
        output.features_BTF,
        output.readout.logits(output.features_BTF),
    )
    return [list(tensor.shape) for tensor in tensors]


def _moved_by_context(place: str) -> tuple[float, float]:
    """Return how far another memory moves the decoder's states, and the logits."""
    model = lecture_model(_SYMBOLS, _SYMBOLS, 1, (f"model.context={place}",))
    plan, inputs_BT = KernelPlan("reference"), torch.tensor([[_BOUNDARY, *_TARGET]])
    read = model.read(torch.tensor([_SOURCE]), torch.tensor([len(_SOURCE)]), plan=plan)
    assert read.view.memory is not None
    turned = read.view.memory._replace(values_BSK=read.view.memory.values_BSK.flip(1).mul(3.0))
    finals, logits = list[Tensor](), list[Tensor]()
    for view in (read.view, SourceView(turned, None)):
        steps = model.decoder(inputs_BT, read.state, view, plan=plan)
        finals.append(steps.state.stack[0][0])
        logits.append(model.readout.logits(steps.features_BTF))
    return _apart(*finals), _apart(*logits)


def _preset(model: EncoderDecoder) -> list[list[float] | float | bool]:
    """Return the shares of the peak rate, updates of warm-up, and whether weights are uniform."""
    settings: Settings = apply_overrides(BASE, PRESETS["lecture"])
    training = apply_overrides(settings, ("training.learning_rate=1.0",)).training
    total = _EPOCHS * _UPDATES
    shares = [
        rate(update, training, total_updates=total, updates_per_epoch=_UPDATES)
        for update in range(1, total + 1)
    ]
    weight = model.encoder.stack.cell(0).weight_hh
    return [shares, training.warmup_updates, _is_uniform(weight)]


def _is_uniform(weight: Tensor) -> bool:
    """Return whether entries fill ±1/√D and nothing beyond; Xavier's bound √(6 / 2D) is wider."""
    most = weight.abs().max().item() * math.sqrt(weight.shape[1])
    return 0.9 < most <= 1.0


def _apart(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()


def _draw(path: Path) -> None:
    """Draw how far each place of a context lets a changed source reach, and the preset's rate."""
    draw_panels(path, [_reach, _rates])


def _reach(axes: Any) -> None:
    places = ("output", "transition", "both")
    moved = [_moved_by_context(place) for place in places]
    left = range(len(places))
    for number, name in enumerate(("decoder's last state", "logits")):
        bars = axes.bar(
            [place + 0.4 * (number - 0.5) for place in left],
            [pair[number] for pair in moved],
            0.38,
            label=name,
        )
        axes.bar_label(bars, fmt="%.2g", fontsize=8)
    axes.set_xticks(left, [f"context in the {name}" if name != "both" else name for name in places])
    axes.tick_params(axis="x", labelsize=8)
    axes.set(ylabel="change", title="another memory, the same target")


def _rates(axes: Any) -> None:
    training = apply_overrides(BASE, (*PRESETS["lecture"], "training.learning_rate=1.0")).training
    updates = range(1, 61)
    rates = [rate(n, training, total_updates=60, updates_per_epoch=6) for n in updates]
    axes.step(updates, rates, where="mid")
    axes.set(xlabel="update, six in an epoch", ylabel="share of the peak rate", ylim=(0, 1.05))
    axes.set_title("a cosine that moves once an epoch")


TWO_SEQUENCES = Experiment(
    "two-sequences",
    "a source and a target: axes, factors, the places of a context, the task that reverses",
    "document 000, Conditional generation, Follow the tensor axes, Training choices",
    _run,
    _draw,
)
