"""A whole training step of a word model against the same step written in plain torch."""

import subprocess
import sys

import numpy as np
import torch

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.benchmark.torch_word_model import TorchWordModel, TorchWordTraining
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

V, UNITS, LANES, WINDOW, RATE, CLIP = 1200, 24, 4, 12, 2.0, 0.25


def test_a_hundred_updates_have_the_losses_of_plain_torch() -> None:
    updates = 100
    ids_N = (np.random.default_rng(1).zipf(1.2, LANES * WINDOW * updates + 1) - 1) % V
    source = StreamBatches(ids_N, batch_size=LANES, window=WINDOW)
    model = RecurrentLanguageModel(
        ModelSettings(
            kind="lstm", embedding_size=UNITS, hidden_size=UNITS, num_layers=2, dropout=0.0
        ),
        V,
        generator(1, "initialisation"),
    )
    plain = TorchWordTraining(TorchWordModel(model, dropout=0.0), source, rate=RATE, clip_norm=CLIP)
    settings = TrainingSettings(
        optimizer="sgd",
        learning_rate=RATE,
        schedule="constant",
        warmup_updates=0,
        clip_norm=CLIP,
        batch_size=LANES,
        window=WINDOW,
    )
    objective = LanguageObjective(model, settings)
    trainer = Trainer(objective, source, settings, KernelPlan(), total_updates=updates)
    events = [trainer.step() for _ in range(updates)]
    got = [event.loss_nats / event.num_tokens for event in events]
    want = [plain.step() for _ in range(updates)]
    assert max(event.gradient_norm for event in events) > CLIP  # clipping took part
    # Rounding differs, and a hundred updates let differences grow.
    np.testing.assert_allclose(got, want, rtol=0.0, atol=1e-4)
    assert want[0] - want[-1] > 0.5  # something was learnt


def test_embedding_gradients_by_rows_change_no_weight_beyond_rounding() -> None:
    ids_N = np.random.default_rng(2).integers(0, 50, 500)  # most words of V are never met
    source = StreamBatches(ids_N, batch_size=LANES, window=WINDOW)
    ends = []
    for momentum in (0.0, 1e-12):  # with momentum gradients are dense; this much is none
        model = RecurrentLanguageModel(
            ModelSettings(kind="gru", embedding_size=8, hidden_size=8, num_layers=1),
            V,
            generator(2, "initialisation"),
        )
        settings = TrainingSettings(
            optimizer="sgd", learning_rate=1.0, momentum=momentum, clip_norm=0.2
        )
        objective = LanguageObjective(model, settings)
        trainer = Trainer(objective, source, settings, KernelPlan(), total_updates=8)
        for _ in range(8):
            trainer.step()
        assert model.embedding is not None
        ends.append(dict(model.named_parameters()))
    for name, left in ends[0].items():
        torch.testing.assert_close(left, ends[1][name], rtol=1e-5, atol=1e-6)


def test_training_by_plain_descent_does_not_load_torchs_compiler() -> None:
    code = """
import sys
import numpy as np
from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
source = StreamBatches(np.arange(81) % 7, batch_size=2, window=8)
sizes = ModelSettings(kind="lstm", embedding_size=8, hidden_size=8)
model = RecurrentLanguageModel(sizes, 7, generator(1, "initialisation"))
settings = TrainingSettings(optimizer="sgd", batch_size=2, window=8)
objective = LanguageObjective(model, settings)
print(Trainer(objective, source, settings, KernelPlan(), total_updates=1).step().num_tokens)
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["16", "False"]
