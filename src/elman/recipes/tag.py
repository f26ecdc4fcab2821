"""The tagger as a task: a tag for every token of a sentence."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from elman.checkpoints.run_folder import CACHE, RunFolder
from elman.config.settings import (
    DataSettings,
    ModelSettings,
    Settings,
    TextSettings,
    TrainingSettings,
)
from elman.data.batches import BatchSource
from elman.data.examples import TagBatch
from elman.errors import RunError
from elman.evaluation.tag_report import TagReport
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.tagger import SequenceTagger
from elman.recipes.learning import Run
from elman.recipes.tag_preparing import PreparedTags, prepare_tags
from elman.recipes.tag_vocabulary import TagVocabulary
from elman.recipes.tagging import TrainedTagger, new_tagger, tag_loss, tag_report
from elman.recipes.task import Task
from elman.recipes.trained import require_same_text
from elman.training.loop import Trainer
from elman.training.tag_objective import TagObjective, unknown_rates

TagRun = Run[PreparedTags, SequenceTagger, TagBatch]

VALIDATED_AT_ONCE = 128
LEAST_TOKENS = 5_000
"""A training part of fewer tokens is worth a word."""

MANY_TOKENS = 100_000

BASE = Settings(
    text=TextSettings(level="word", unit="line"),
    data=DataSettings(valid_fraction=0.1, test_fraction=0.1),
    model=ModelSettings(
        task="tag",
        bidirectional=True,
        embedding_size=100,
        hidden_size=200,
        dropout=0.5,
        embedding_dropout=0.3,
    ),
    training=TrainingSettings(optimizer="adamw", precision="float32", length_pool=8),
)
"""What a tagger is unless settings say otherwise; figures behind it are in `benchmarks/`."""


class TagTask(Task[PreparedTags, SequenceTagger, TagBatch]):
    """Sentences of tagged tokens, in CoNLL or CoNLL-U."""

    @property
    def base(self) -> Settings:
        """The defaults."""
        return BASE

    def prepare(self, settings: Settings, scratch: Path) -> PreparedTags:
        """Read, split and encode the sentences."""
        return prepare_tags(settings, scratch)

    def reopen(self, folder: RunFolder, recorded: Mapping[str, object]) -> PreparedTags:
        """Return the sentences as the run began with them, read from the files again."""
        vocabulary = TagVocabulary.of_files(folder.vocabularies)
        require_same_text(folder.settings.text, vocabulary.words, folder.path)
        cache = folder.path / CACHE
        cache.mkdir(exist_ok=True)
        prepared = prepare_tags(folder.settings, cache)
        same = prepared.vocabularies() == folder.vocabularies
        if not same or prepared.facts() != recorded:
            raise RunError(
                "the tagged data are not those that the run began with",
                got="other sentences from the files that config.toml names",
                hint="put the files back as they were, or train anew",
            )
        return replace(prepared, notices=())

    def suggestions(
        self, early: Settings, prepared: PreparedTags, *, with_budget: bool
    ) -> tuple[str, ...]:
        """Return sizes that fit the data, and a chain where tags tell spans."""
        suggestions = []
        if prepared.vocabulary.tags.learnt != "none":
            suggestions.append("model.head=crf")
        if not (with_budget or early.training.epochs or early.training.updates):
            many = prepared.num_targets >= MANY_TOKENS
            suggestions.append(f"training.epochs={10 if many else 30}")
        return tuple(suggestions)

    def size_notices(self, prepared: PreparedTags) -> tuple[str, ...]:
        """Return a line where there is too little to learn from."""
        tokens = prepared.num_targets
        if tokens >= LEAST_TOKENS:
            return ()
        some = f"{tokens:,} token{'s' * (tokens != 1)}"
        return (f"only {some} to learn from; {LEAST_TOKENS:,} are a beginning",)

    def model(self, settings: Settings, prepared: PreparedTags) -> SequenceTagger:
        """Return a new tagger."""
        return new_tagger(settings, prepared.vocabulary, seed=settings.training.seed)

    def objective(
        self, model: SequenceTagger, settings: Settings, prepared: PreparedTags
    ) -> TagObjective:
        """Return the likelihood of the tags, where rare words are now and then unknown."""
        counts_V = torch.from_numpy(prepared.word_counts_V)
        return TagObjective(
            model,
            unknown_rates_V=unknown_rates(counts_V, settings.model.word_dropout),
            unk_id=prepared.vocabulary.unk_id,
            label_smoothing=settings.training.label_smoothing,
            recompute=settings.training.recompute,
        )

    def source(
        self, settings: Settings, prepared: PreparedTags
    ) -> tuple[BatchSource[TagBatch], tuple[str, ...]]:
        """Return batches of sentences."""
        training = settings.training
        batches = prepared.batches(
            "train",
            batch_size=training.batch_size,
            seed=training.seed,
            order="shuffled",
            length_pool=training.length_pool,
        )
        return batches, ()

    def validation(
        self,
        settings: Settings,
        prepared: PreparedTags,
        trainer: Trainer[SequenceTagger, TagBatch],
    ) -> Callable[[], LossSum] | None:
        """Return the loss of the held-out sentences whose tags are all known; None without any."""
        part = prepared.parts.get("valid")
        if part is None or not len(part.ids):
            return None
        source = prepared.batches(
            "valid",
            batch_size=VALIDATED_AT_ONCE,
            seed=settings.training.seed,
            order="shuffled",
            length_pool=len(part.ids),
        )
        return lambda: tag_loss(trainer.model, source, plan=trainer.plan)

    def scores(
        self,
        model: SequenceTagger,
        settings: Settings,
        prepared: PreparedTags,
        plan: KernelPlan,
        on_scored: Callable[[int], None],
    ) -> Mapping[str, TagReport]:
        """Return the exact figures of the parts held out."""
        tagger = TrainedTagger(settings, prepared.vocabulary, model, plan)
        reports: dict[str, TagReport] = {}
        done = 0
        for name, part in prepared.parts.items():
            if name == "train":
                continue

            def tell(count: int, before: int = done) -> None:
                on_scored(before + count)

            rows = [(row.tokens, row.tags) for row in part.rows]
            reports[name] = tag_report(tagger, rows, on_scored=tell)
            done += part.num_tokens
        return reports
