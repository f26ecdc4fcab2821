"""Tiny models and data that the tests of training share."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource, TokenBatch
from elman.data.lines import LineBatches
from elman.data.streams import StreamBatches
from elman.data.token_array import join_lines
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
from elman.training.trainer_state import TrainerState

V = 11


def tiny_model(
    kind: str = "lstm", *, dropout: float = 0.0, tie_weights: bool = False, seed: int = 3
) -> RecurrentLanguageModel:
    settings = ModelSettings(
        kind=kind,  # type: ignore[arg-type]
        embedding_size=8,
        hidden_size=8,
        num_layers=2,
        dropout=dropout,
        tie_weights=tie_weights,
    )
    return RecurrentLanguageModel(settings, V, generator(seed, "initialisation"))


def tiny_stream(num_ids: int = 90, *, batch_size: int = 3, window: int = 6) -> StreamBatches:
    ids_N = np.random.default_rng(5).integers(0, V, num_ids)
    return StreamBatches(ids_N, batch_size=batch_size, window=window)


def tiny_lines(num_lines: int = 20, *, batch_size: int = 4) -> LineBatches:
    draw = np.random.default_rng(6)
    lines = [draw.integers(2, V, length) for length in draw.integers(1, 9, num_lines)]
    return LineBatches(
        join_lines(lines, V),
        batch_size=batch_size,
        boundary_id=1,
        pad_id=0,
        seed=1,
        order="shuffled",
    )


def tiny_trainer(
    source: BatchSource,
    settings: TrainingSettings,
    *,
    kind: str = "lstm",
    dropout: float = 0.0,
    total_updates: int = 12,
) -> Trainer:
    model = tiny_model(kind, dropout=dropout)
    return Trainer(
        LanguageObjective(model, settings),
        source,
        settings,
        KernelPlan(),
        total_updates=total_updates,
    )


def weights_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return {name: p.clone() for name, p in trainer.model.named_parameters()}


def assert_same_bits(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), f"{name} differs"


def assert_same_state(left: TrainerState, right: TrainerState) -> None:
    assert left.facts == right.facts
    assert_same_bits(left.tensors, right.tensors)


class Batches:
    """A source over a list of batches, the same in every epoch."""

    def __init__(self, batches: Sequence[TokenBatch]) -> None:
        self.batches = list(batches)
        self.asked: list[tuple[int, int]] = []

    @property
    def num_targets(self) -> int:
        return sum(batch.num_targets for batch in self.batches)

    @property
    def num_sequences(self) -> int:
        return sum(len(batch.lengths_B) for batch in self.batches)

    def batches_per_epoch(self, epoch: int) -> int:
        return len(self.batches)

    def batch(self, epoch: int, index: int) -> TokenBatch:
        self.asked.append((epoch, index))
        return self.batches[index]


def token_batch(ids: Sequence[Sequence[int]], *, continues: bool = False) -> TokenBatch:
    """Rows of ids; each but the first of a row is a target. A row of one id has no target."""
    lengths = [len(row) - 1 for row in ids]
    width = max(1, *lengths)
    inputs_BT = torch.zeros((len(ids), width), dtype=torch.int64)
    targets_BT = torch.zeros((len(ids), width), dtype=torch.int64)
    for row, row_ids in enumerate(ids):
        inputs_BT[row, : lengths[row]] = torch.tensor(row_ids[:-1], dtype=torch.int64)
        targets_BT[row, : lengths[row]] = torch.tensor(row_ids[1:], dtype=torch.int64)
    return TokenBatch(inputs_BT, targets_BT, torch.tensor(lengths), continues)


def counting_clock(seconds: float) -> Callable[[], float]:
    """A clock that moves on by `seconds` at every look."""
    looks = iter(range(10**9))
    return lambda: next(looks) * seconds
