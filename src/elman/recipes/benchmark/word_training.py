"""A word language model ready for its first update, in Elman and in plain torch."""

import numpy as np
import numpy.typing as npt

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource, TokenBatch
from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan, Precision
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.benchmark.rows import SEED, ModelSizes
from elman.recipes.benchmark.torch_word_model import TorchWordModel, TorchWordTraining
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

WordTrainer = Trainer[RecurrentLanguageModel, TokenBatch]

BATCH_SIZE, WINDOW, WINDOWS_IN_TEXT = 20, 35, 200
RATE, CLIP_NORM, DROPOUT = 20.0, 0.25, 0.2
DEVIATION = 0.0577
"""As even draws from −0.1 to 0.1, which the examples use."""

ZIPF_SHIFT = 2.7
_NO_END = 10**12


def zipf_ids(vocabulary_size: int) -> npt.NDArray[np.int32]:
    """Return ids of a made-up text whose words are as unevenly frequent as those of a language.

    The frequency of the word of rank r is as 1 / (r + ZIPF_SHIFT). One id more than fills every
    window of every lane.
    """
    weights_V = 1.0 / (np.arange(1, vocabulary_size + 1) + ZIPF_SHIFT)
    cumulative_V = np.cumsum(weights_V)
    uniform_N = np.random.default_rng(SEED).random(BATCH_SIZE * WINDOW * WINDOWS_IN_TEXT + 1)
    ids_N: npt.NDArray[np.int32] = np.searchsorted(
        cumulative_V, uniform_N * cumulative_V[-1]
    ).astype(np.int32)
    return ids_N


def elman_training(
    sizes: ModelSizes,
    *,
    dropout: float,
    precision: Precision = "float32",
    rate: float = RATE,
    source: BatchSource[TokenBatch] | None = None,
) -> WordTrainer:
    """Return Elman's own trainer of the model, ready for its first update.

    Without a `source` it reads `zipf_ids`.
    """
    settings = ModelSettings(
        kind="lstm",
        embedding_size=sizes.hidden_size,
        hidden_size=sizes.hidden_size,
        num_layers=sizes.num_layers,
        embedding_std=DEVIATION,
        dropout=dropout,
        embedding_dropout=dropout,
        forget_bias=0.0,
    )
    training = TrainingSettings(
        batch_size=BATCH_SIZE,
        window=WINDOW,
        optimizer="sgd",
        learning_rate=rate,
        schedule="constant",
        warmup_updates=0,
        clip_norm=CLIP_NORM,
        precision=precision,
    )
    model = RecurrentLanguageModel(
        settings, sizes.vocabulary_size, generator(SEED, "initialisation")
    )
    if source is None:
        ids_N = zipf_ids(sizes.vocabulary_size)
        source = StreamBatches(ids_N, batch_size=BATCH_SIZE, window=WINDOW)
    plan = KernelPlan("auto", precision)
    return Trainer(
        LanguageObjective(model, training), source, training, plan, total_updates=_NO_END
    )


def torch_training(trainer: WordTrainer, *, dropout: float) -> TorchWordTraining:
    """Return torch's training of a model that begins with the weights of `trainer`'s."""
    model, rate = TorchWordModel(trainer.model, dropout), trainer.settings.learning_rate
    return TorchWordTraining(model, trainer.source, rate=rate, clip_norm=CLIP_NORM)
