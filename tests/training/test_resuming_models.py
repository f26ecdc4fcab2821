"""Models without a recurrence go on from a saved moment to the same bits, whatever is carried."""

from typing import Any

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import TokenBatch
from elman.data.streams import StreamBatches
from elman.errors import RunError
from elman.kernels.dispatch import KernelPlan
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
from elman.training.trainer_state import TrainerState

KINDS: dict[str, dict[str, Any]] = {
    "window": {"kind": "window", "context_length": 4},
    "transformer": {"kind": "transformer", "context_length": 9, "num_layers": 2, "num_heads": 2},
    "learned": {
        "kind": "transformer",
        "context_length": 5,
        "num_heads": 2,
        "positions": "learned",
    },
}


def trainer_of(kind: str) -> Trainer[LanguageModel, TokenBatch]:
    model = ModelSettings(hidden_size=8, embedding_size=6, dropout=0.3, **KINDS[kind])
    settings = TrainingSettings(window_deviation=2.0, window=6, average_decay=0.9)
    ids = np.random.default_rng(1).integers(0, 9, 500)
    source = StreamBatches(ids, batch_size=4, window=6, deviation=2.0, seed=1)
    objective = LanguageObjective(
        new_language_model(model, 9, generator(1, "initialisation")), settings
    )
    return Trainer(objective, source, settings, KernelPlan(), total_updates=60)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 7])
def test_a_saved_moment_goes_on_to_the_same_bits(kind: str, steps: int) -> None:
    first, second = trainer_of(kind), trainer_of(kind)
    for _ in range(steps):
        first.step()
    second.restore(first.state())
    for _ in range(30):
        assert first.step().loss_nats == second.step().loss_nats
    for mine, theirs in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_state_of_another_shape_is_refused() -> None:
    first, second = trainer_of("window"), trainer_of("window")
    first.step()
    state = first.state()
    tensors = dict(state.tensors)
    tensors["carried.0"] = tensors["carried.0"][:, :-1]
    with pytest.raises(RunError, match="does not fit the model"):
        second.restore(TrainerState(tensors, state.facts))
