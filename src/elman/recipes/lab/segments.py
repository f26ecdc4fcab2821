"""Where a segment ends: credit stops, context goes on.

    loss of segment i:   Σ_t −log p(x_t | state at its start, x …),   state ← detach(state)

The state is carried on by value, so that a prediction depends on every token before it; a gradient
reaches back to the first step of its own segment and not beyond. Without the cut the next backward
pass runs into a graph that the one before has freed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import token_loss, token_nats
from elman.models.language_models import new_language_model
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
from elman.training.truncation import carry, detach

_SEGMENT = 35
_SEGMENTS = 3
_IDS = 7
_FREED = "a second time"
"""What torch's message says of a graph that is freed."""


def _run() -> Iterator[Measured]:
    """Yield what the cut does to credit, context and the next backward pass, and to a step."""
    reach_TS = _credit(detach)
    begin, end = _SEGMENT, 2 * _SEGMENT - 1
    yield Measured(
        "004-15",
        [_reach(reach_TS, begin), _reach(reach_TS, end), _is_seen_at(end)],
        f"segments of {_SEGMENT}: tokens that the gradient of the first and of the last loss of "
        "the second one meets; whether the last one depends on the first token of the text",
    )
    off, message = _second_backward(detach)[0], _second_backward(carry)[1]
    yield Measured(
        "004-33",
        [off, _FREED in message, _second_backward(detach)[1] == ""],
        "largest difference of a detached state from the state; whether the second backward pass "
        "fails on a freed graph without the cut; whether it runs with it",
    )
    yield Measured(
        "004-34",
        _clipped_step(0.01),
        "length of an update over rate · clip_norm, where the gradient is longer; its cosine with "
        "the gradient, turned around",
    )


def _model() -> RecurrentLanguageModel:
    """Return an LSTM of float64 whose forget gates stand open."""
    settings = ModelSettings(kind="lstm", embedding_size=4, hidden_size=6, forget_bias=5.0)
    model = new_language_model(settings, _IDS, generator(1, "initialisation")).double()
    assert isinstance(model, RecurrentLanguageModel)
    return model


def _stream(batch_size: int = 1) -> StreamBatches:
    ids = np.random.default_rng(1).integers(0, _IDS, batch_size * _SEGMENT * _SEGMENTS + 1)
    return StreamBatches(ids, batch_size=batch_size, window=_SEGMENT)


def _credit(between: Callable[[StackState], StackState]) -> Tensor:
    """Return |∂ loss_t / ∂ x_s| for all t and s, the state handed on through `between`."""
    model, stream, plan = _model(), _stream(), KernelPlan("reference")
    assert model.embedding is not None
    state: StackState | None = None
    inputs: list[Tensor] = []
    rows = []
    for index in range(_SEGMENTS):
        batch = stream.batch(0, index)
        with torch.no_grad():
            x_BTE = model.embedding(batch.ids_BT)
        inputs.append(x_BTE.requires_grad_())
        states_BTH, after = model.stack(x_BTE, state, None, plan=plan)
        for loss in token_nats(states_BTH, model.readout, batch.targets_BT)[0]:
            slopes = torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)
            norms = [_norms(slope) for slope in slopes]
            norms += [torch.zeros(_SEGMENT)] * (_SEGMENTS - len(norms))
            rows.append(torch.cat(norms))
        state = between(after)
    return torch.stack(rows)


def _norms(slope_BTE: Tensor | None) -> Tensor:
    """Return the length of the gradient at each step, 0 where there is none."""
    return torch.zeros(_SEGMENT) if slope_BTE is None else slope_BTE[0].norm(dim=1).float()


def _reach(credit_TS: Tensor, place: int) -> int:
    return int(credit_TS[place].count_nonzero())


def _nats(ids_T: Tensor) -> Tensor:
    """Return the loss of each token in segments whose states are carried and cut."""
    model, found = _model(), list[Tensor]()
    state: StackState | None = None
    for part_T in torch.split(ids_T[:-1], _SEGMENT):
        begin = sum(len(nats) for nats in found)
        output = model(part_T.unsqueeze(0), state, plan=KernelPlan("reference"))
        targets_BT = ids_T[begin + 1 : begin + 1 + len(part_T)].unsqueeze(0)
        found.append(token_nats(output.states_BTH, output.readout, targets_BT)[0])
        state = carry(detach(output.state))
    return torch.cat(found)


def _is_seen_at(place: int) -> bool:
    """Return whether another first token changes the loss at `place`."""
    one_T = torch.from_numpy(_stream().ids_N.astype(np.int64))
    other_T = one_T.clone()
    other_T[0] = (other_T[0] + 1) % _IDS
    return bool((_nats(one_T) - _nats(other_T))[place].abs() > 1e-9)


def _second_backward(between: Callable[[StackState], StackState]) -> tuple[float, str]:
    """Return how far `between` moves the state, and what a second backward pass fails with."""
    model, stream, plan = _model(), _stream(), KernelPlan("reference")
    state: StackState | None = None
    off = 0.0
    for index in range(2):
        batch = stream.batch(0, index)
        output = model(batch.ids_BT, state, plan=plan)
        loss = token_loss(output.states_BTH, output.readout, batch.targets_BT, plan=plan)
        try:
            torch.autograd.backward(loss.mean())
        except RuntimeError as error:
            return off, str(error)
        state = between(output.state)
        for one, other in zip(output.state[0], state[0], strict=True):
            off = max(off, (one - other).abs().max().item())
    return off, ""


def _clipped_step(clip_norm: float) -> list[float]:
    """Return the length of a trainer's step over rate · clip_norm, and its cosine with −gradient.

    Both are 1 only if clipping acts on a gradient that is there and was not applied yet.
    """
    model, stream, learning_rate = _model(), _stream(2), 0.5
    settings = TrainingSettings(
        optimizer="sgd",
        learning_rate=learning_rate,
        schedule="constant",
        warmup_updates=0,
        clip_norm=clip_norm,
    )
    plan = KernelPlan("reference")
    output = model(stream.batch(0, 0).ids_BT, plan=plan)
    loss = token_loss(output.states_BTH, output.readout, stream.batch(0, 0).targets_BT, plan=plan)
    slopes = torch.autograd.grad(loss.mean(), list(model.parameters()))
    slope_N = torch.cat([slope.flatten() for slope in slopes])
    before_N = _weights(model)
    trainer = Trainer(LanguageObjective(model, settings), stream, settings, plan, total_updates=1)
    event = trainer.step()
    if event.gradient_norm <= clip_norm:
        return [0.0, 0.0]
    step_N = _weights(model) - before_N
    length = step_N.norm()
    cosine = -(step_N @ slope_N) / (length * slope_N.norm())
    return [length.item() / (learning_rate * clip_norm), cosine.item()]


def _weights(model: RecurrentLanguageModel) -> Tensor:
    with torch.no_grad():
        return torch.cat([parameter.flatten() for parameter in model.parameters()])


def _draw(path: Path) -> None:
    """Draw which tokens each loss gives credit to, with the cut and without."""
    draw_panels(path, [_whole_panel, _cut_panel])


def _whole_panel(axes: Any) -> None:
    _credit_panel(axes, _credit(carry), "carried: credit reaches the first token")


def _cut_panel(axes: Any) -> None:
    _credit_panel(axes, _credit(detach), f"cut every {_SEGMENT}: credit ends, context does not")


def _credit_panel(axes: Any, credit_TS: Tensor, title: str) -> None:
    logs_TS = credit_TS.clamp(min=1e-30).log10()
    shown_TS = torch.where(credit_TS > 0.0, logs_TS, torch.full_like(logs_TS, torch.nan))
    image = axes.imshow(shown_TS.numpy(), cmap="viridis", vmin=-5.0, vmax=-0.5)
    axes.figure.colorbar(image, ax=axes, label="log10 |∂ loss_t / ∂ x_s|", shrink=0.85)
    edges = [index * _SEGMENT - 0.5 for index in range(1, _SEGMENTS)]
    for edge in edges:
        axes.axhline(edge, color="0.7", linewidth=0.6)
        axes.axvline(edge, color="0.7", linewidth=0.6)
    axes.set(xlabel="token s", ylabel="loss at step t")
    axes.set_title(title)


SEGMENTS = Experiment(
    "segments",
    "credit ends with the segment, context does not",
    "document 004, 3.2 and 7.3",
    _run,
    _draw,
)
