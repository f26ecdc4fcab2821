"""Overfitting: the loss of what is learnt from goes on falling while that of held-out lines rises.

    L_train(u) falls in u,   L_held-out(u) has a least value at some u* and rises after it

A model with room for every line of a short list learns the list; the weights at u* are those to
keep, and a third part, never looked at, says what they are worth.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.config.training_settings import TrainingSettings
from elman.data.lines import LineBatches
from elman.data.order import RowOrder
from elman.data.reversal import ALPHABET, invented_names
from elman.data.token_array import join_lines
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import TEN_SEEDS, letter_tokenizer
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.text.tokenizer import Tokenizer
from elman.training.events import TrainingEvent, ValidationEvent
from elman.training.fitting import fit
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

_LINES, _HELD_OUT, _UNITS = 32, 96, 64
_UPDATES, _EVERY = 72, 6
_RISE, _FALL = 1.05, 0.9
"""A twentieth up and a tenth down: beyond the noise of a hundred names."""


class _Course(NamedTuple):
    """After each validation: updates made, nats per token learnt from lately, and held out."""

    updates: list[int]
    training: list[float]
    held_out: list[float]

    @property
    def rise(self) -> float:
        """The last loss held out over the least one."""
        return self.held_out[-1] / min(self.held_out)

    @property
    def fall(self) -> float:
        """The last training loss over that at the least loss held out."""
        return self.training[-1] / self.training[self.held_out.index(min(self.held_out))]


def _run() -> Iterator[Measured]:
    """Yield the rise of the held-out loss above its least, while the training loss fell."""
    courses = [_course(seed) for seed in TEN_SEEDS]
    rises, falls = [one.rise for one in courses], [one.fall for one in courses]
    yield Measured(
        "000-37",
        [min(rises) > _RISE, max(falls) < _FALL],
        f"whether the held-out loss rose by more than {_RISE - 1:.0%} and the training loss fell "
        f"below {_FALL:.0%}, on all seeds: "
        f"ten models of {_UNITS} units, {_UPDATES} updates on {_LINES} invented names: the last "
        f"loss on {_HELD_OUT} other names over the least one ({min(rises):.3f} to {max(rises):.3f})"
        f", and the training loss over what it was then ({min(falls):.3f} to {max(falls):.3f})",
        tuple((rise, fall) for rise, fall in zip(rises, falls, strict=True)),
    )


def _course(seed: int) -> _Course:
    """Train one model to the end, validating all along."""
    tokenizer = letter_tokenizer(ALPHABET)
    names = invented_names(_LINES + _HELD_OUT, seed=seed)
    sizes = ("model.kind=gru", f"model.hidden_size={_UNITS}", "model.embedding_size=16")
    model_settings = apply_overrides(Settings(), sizes).model
    draw = generator(seed, "initialisation")
    model = RecurrentLanguageModel(model_settings, len(tokenizer), draw)
    settings = TrainingSettings(
        optimizer="adamw",
        learning_rate=0.01,
        schedule="constant",
        updates=_UPDATES,
        evaluate_every=_EVERY,
        seed=seed,
    )
    learnt = _batches(tokenizer, names[:_LINES], "shuffled", seed)
    held_out = _batches(tokenizer, names[_LINES:], "stored", seed)
    objective = LanguageObjective(model, settings)
    trainer = Trainer(objective, learnt, settings, KernelPlan(), total_updates=_UPDATES)

    def validate() -> LossSum:
        with torch.no_grad():
            losses = [
                objective.loss(
                    held_out.batch(0, index), None, plan=KernelPlan(), generator=draw
                ).loss.plain
                for index in range(held_out.batches_per_epoch(0))
            ]
        return sum(losses, LossSum.zero())

    course = _Course([], [], [])

    def take(event: TrainingEvent) -> None:
        if isinstance(event, ValidationEvent) and event.training_nats is not None:
            course.updates.append(event.update)
            course.training.append(event.training_nats)
            course.held_out.append(event.loss_nats / event.num_tokens)

    fit(trainer, validate=validate, on_event=take)
    return course


def _batches(tokenizer: Tokenizer, names: list[str], order: RowOrder, seed: int) -> LineBatches:
    assert tokenizer.vocabulary.boundary_id is not None
    assert tokenizer.vocabulary.pad_id is not None
    return LineBatches(
        join_lines([tokenizer.encode(name) for name in names], len(tokenizer)),
        batch_size=_LINES,
        boundary_id=tokenizer.vocabulary.boundary_id,
        pad_id=tokenizer.vocabulary.pad_id,
        seed=seed,
        order=order,
    )


def _draw(path: Path) -> None:
    """Draw both losses of three models."""
    draw_panels(path, [_courses])


def _courses(axes: Any) -> None:
    for seed in range(1, 4):
        course = _course(seed)
        first = seed == 1
        axes.plot(course.updates, course.training, "C0", label="learnt from" if first else None)
        axes.plot(course.updates, course.held_out, "C3", label="held out" if first else None)
        best = course.held_out.index(min(course.held_out))
        axes.plot(course.updates[best], course.held_out[best], "C3o")
    axes.set(xlabel="updates", ylabel="nats per letter", ylim=(0, None))
    axes.set_title(f"{_LINES} names learnt by heart; dots: the weights to keep")


OVERFITTING = Experiment(
    "overfitting",
    "the training loss falls while the loss of held-out lines rises",
    "document 000, Training choices and the cost of keeping history",
    _run,
    _draw,
    takes="minutes",
)
