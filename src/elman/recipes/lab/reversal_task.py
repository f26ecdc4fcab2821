"""The task that reverses names, ready for a small model: pairs as batches, a model that learnt."""

from collections.abc import Sequence
from dataclasses import dataclass

from elman.config.training_settings import TrainingSettings
from elman.data.examples import PairBatches
from elman.data.order import EpochOrder, RowOrder
from elman.data.pairs import TextPair
from elman.data.reversal import ALPHABET, invented_names, reversal_pairs
from elman.data.token_array import join_lines
from elman.decoding.translation_steps import TargetIds
from elman.kernels.dispatch import KernelPlan
from elman.models.encoder_decoder import EncoderDecoder
from elman.recipes.lab.instruments import lecture_model, letter_tokenizer
from elman.recipes.pair_preparing import target_ids
from elman.text.tokenizer import Tokenizer
from elman.training.loop import Trainer
from elman.training.translation_objective import TranslationObjective

NUM_HELD_OUT = 200
LONGEST_NAME = 6


@dataclass(frozen=True)
class ReversalLetters:
    """The letters of both sides, and their marks."""

    tokenizer: Tokenizer

    @property
    def ids(self) -> TargetIds:
        """Boundary, padding and unknown."""
        return target_ids(self.tokenizer)

    def batches(
        self, pairs: Sequence[TextPair], *, batch_size: int, order: RowOrder, seed: int = 1
    ) -> PairBatches:
        """Return the pairs as padded batches."""
        size, encode = len(self.tokenizer), self.tokenizer.encode
        sources = join_lines([encode(pair.source) for pair in pairs], size)
        targets = join_lines([encode(pair.target) for pair in pairs], size)
        rows = EpochOrder(sources.lengths_N, batch_size=batch_size, seed=seed, order=order)
        pad_id = self.ids.pad_id
        return PairBatches(sources, targets, rows, source_pad_id=pad_id, target_pad_id=pad_id)

    def model(self, seed: int, overrides: Sequence[str] = ()) -> EncoderDecoder:
        """Return a new model of the preset `lecture` for these letters, in float64."""
        size = len(self.tokenizer)
        return lecture_model(size, size, seed, overrides)


@dataclass(frozen=True)
class TrainedReverser:
    """A model that has learnt for a while, and pairs that it has never seen."""

    model: EncoderDecoder
    letters: ReversalLetters
    held_out: PairBatches


def reversal_letters() -> ReversalLetters:
    """Return the alphabet of the task."""
    return ReversalLetters(letter_tokenizer(ALPHABET))


def trained_reverser(seed: int, *, updates: int, units: int = 48) -> TrainedReverser:
    """Return a model after `updates` updates on names of up to six letters, 32 at a time."""
    letters = reversal_letters()
    names = [name for name in invented_names(4000, seed=seed) if len(name) <= LONGEST_NAME]
    pairs = list(reversal_pairs(names, seed=seed))
    model = letters.model(seed, (f"model.hidden_size={units}", "model.embedding_size=16")).float()
    settings = TrainingSettings(
        optimizer="adamw", learning_rate=0.01, schedule="constant", updates=updates, seed=seed
    )
    trainer = Trainer(
        TranslationObjective(model, settings, boundary_id=letters.ids.boundary_id),
        letters.batches(pairs[NUM_HELD_OUT:], batch_size=32, order="shuffled", seed=seed),
        settings,
        KernelPlan(),
        total_updates=updates,
    )
    while trainer.update < updates:
        trainer.step()
    held_out = letters.batches(pairs[:NUM_HELD_OUT], batch_size=50, order="stored")
    return TrainedReverser(model, letters, held_out)
