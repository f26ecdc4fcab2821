"""The tasks with a long lag as what can be learnt and scored: data, model, loss and score."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.adding import SumBatch, adding_batch
from elman.data.copying import NUM_COPIED, NUM_COPY_SYMBOLS, copying_batch
from elman.data.drawn import DrawnBatches
from elman.data.first_token import NUM_CLUES, NUM_SYMBOLS, first_token_batch
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import LossSum, TrainingLoss
from elman.models.classifier import SequenceClassifier
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator
from elman.training.label_objective import LabelObjective
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
from elman.training.objective import StepLoss

NUM_HELD_OUT = 1000
HELD_OUT_SEED = 0
"""Held-out sequences are the same for every seed of the weights, which are 1 and more."""
RIGHT_SHARE = 0.99
"""Copying is solved from this share of right symbols on."""
SMALL_ERROR = 0.01
"""Adding is solved up to this mean squared error."""


class LagLearner(NamedTuple):
    """A model on its way: make one update, or score it on the held-out sequences."""

    learn_once: Callable[[], object]
    score: Callable[[], float]


class LagTask(NamedTuple):
    """How a task is begun at a length, when a score solves it, and what knowing nothing scores."""

    begin: Callable[[ModelSettings, TrainingSettings, int], LagLearner]
    is_solved: Callable[[float], bool]
    chance: float


class SumObjective:
    """Σ over rows of (answer − sum)², the answer being the one logit of a classifier of numbers."""

    def __init__(self, model: SequenceClassifier) -> None:
        self.model = model

    def loss(
        self,
        batch: SumBatch,
        state: StackState | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator,
    ) -> StepLoss:
        """Return the squared errors of `batch`; there is no state before or after."""
        logits_B1 = self.model(batch.values_BTF, batch.lengths_B, plan=plan, generator=generator)
        errors = (logits_B1.squeeze(1) - batch.sums_B).double().square().sum()
        loss = LossSum(errors, batch.num_targets)
        return StepLoss(TrainingLoss(loss, loss), None)

    def zero_state(self, batch_size: int) -> None:
        """Return None: rows know nothing of each other."""
        return None


def _first_token(model: ModelSettings, settings: TrainingSettings, length: int) -> LagLearner:
    plan, draw = KernelPlan(), generator(settings.seed, "initialisation")
    learnt = SequenceClassifier(model, NUM_SYMBOLS, NUM_CLUES, draw)
    source = DrawnBatches(
        lambda chance: first_token_batch(settings.batch_size, length, chance), seed=settings.seed
    )
    objective = LabelObjective(learnt, answers="one")
    trainer = Trainer(objective, source, settings, plan, total_updates=settings.updates)
    held_out = first_token_batch(NUM_HELD_OUT, length, np.random.default_rng(HELD_OUT_SEED))

    def score() -> float:
        with torch.no_grad():
            logits_BC = learnt(held_out.inputs, held_out.lengths_B, plan=plan)
        right_B = logits_BC.argmax(dim=1) == held_out.labels_BC.argmax(dim=1)
        share: float = right_B.double().mean().item()
        return share

    return LagLearner(trainer.step, score)


def _copying(model: ModelSettings, settings: TrainingSettings, length: int) -> LagLearner:
    plan, draw = KernelPlan(), generator(settings.seed, "initialisation")
    learnt = RecurrentLanguageModel(model, NUM_COPY_SYMBOLS, draw)
    source = DrawnBatches(
        lambda chance: copying_batch(settings.batch_size, length, chance), seed=settings.seed
    )
    objective = LanguageObjective(learnt, settings)
    trainer = Trainer(objective, source, settings, plan, total_updates=settings.updates)
    held_out = copying_batch(NUM_HELD_OUT, length, np.random.default_rng(HELD_OUT_SEED))

    def score() -> float:
        with torch.no_grad():
            output = learnt(held_out.ids_BT, None, held_out.lengths_B, plan=plan)
            logits_BTV = output.readout.logits(output.states_BTH[:, -NUM_COPIED:])
        right_BT = logits_BTV.argmax(dim=2) == held_out.targets_BT[:, -NUM_COPIED:]
        share: float = right_BT.double().mean().item()
        return share

    return LagLearner(trainer.step, score)


def _adding(model: ModelSettings, settings: TrainingSettings, length: int) -> LagLearner:
    plan, draw = KernelPlan(), generator(settings.seed, "initialisation")
    learnt = SequenceClassifier(replace(model, input="series"), 2, 1, draw)
    source = DrawnBatches(
        lambda chance: adding_batch(settings.batch_size, length, chance), seed=settings.seed
    )
    objective = SumObjective(learnt)
    trainer = Trainer(objective, source, settings, plan, total_updates=settings.updates)
    held_out = adding_batch(NUM_HELD_OUT, length, np.random.default_rng(HELD_OUT_SEED))

    def score() -> float:
        with torch.no_grad():
            loss = objective.loss(held_out, None, plan=plan, generator=draw).loss.plain
        return loss.nats.item() / loss.count

    return LagLearner(trainer.step, score)


LAG_TASKS: Mapping[str, LagTask] = MappingProxyType(
    {
        "first-token": LagTask(_first_token, lambda share: share == 1.0, 1 / NUM_CLUES),
        "copying": LagTask(_copying, lambda share: share >= RIGHT_SHARE, 1 / 8),
        "adding": LagTask(_adding, lambda error: error <= SMALL_ERROR, 1 / 6),
    }
)
"""first-token and copying are scored by the share of right answers, adding by its squared error."""
