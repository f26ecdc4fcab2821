"""The tagger as a task: a tag for every token of a sentence."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from elman.checkpoints.run_folder import RunFolder
from elman.config.data_settings import DataSettings
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource
from elman.data.examples import TagBatch
from elman.evaluation.tag_report import TagReport
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.tagger import SequenceTagger
from elman.recipes.learning import Run
from elman.recipes.row_task import RowTask, held_out_parts
from elman.recipes.tag_preparing import PreparedTags, prepare_tags
from elman.recipes.tag_vocabulary import TagVocabulary
from elman.recipes.tagging import TrainedTagger, new_tagger, tag_loss, tag_report
from elman.recipes.trained import require_same_text
from elman.training.tag_objective import TagObjective, unknown_rates

TagRun = Run[PreparedTags, SequenceTagger, TagBatch]

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


class TagTask(RowTask[PreparedTags, SequenceTagger, TagBatch]):
    """Sentences of tagged tokens, in CoNLL or CoNLL-U."""

    @property
    def base(self) -> Settings:
        """The defaults."""
        return BASE

    @property
    def called(self) -> tuple[str, str]:
        """Tagged data, in sentences."""
        return "tagged data", "sentences"

    def prepare(self, settings: Settings, scratch: Path) -> PreparedTags:
        """Read, split and encode the sentences."""
        return prepare_tags(settings, scratch)

    def require_own(self, folder: RunFolder) -> None:
        """Require the words of the run to be those of its settings."""
        vocabulary = TagVocabulary.of_files(folder.vocabularies)
        require_same_text(folder.settings.text, vocabulary.words, folder.path)

    def suggestions(
        self, early: Settings, prepared: PreparedTags, *, budget_seconds: float | None
    ) -> tuple[str, ...]:
        """Return sizes that fit the data, and a chain where tags tell spans."""
        suggestions = []
        if prepared.vocabulary.tags.learnt != "none":
            suggestions.append("model.head=crf")
        if not (budget_seconds or early.training.epochs or early.training.updates):
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

    def held_out_loss(
        self,
        model: SequenceTagger,
        prepared: PreparedTags,
        source: BatchSource[TagBatch],
        plan: KernelPlan,
    ) -> LossSum:
        """Return the loss of the sentences whose tags are all known."""
        return tag_loss(model, source, plan=plan)

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
        for name, part, tell in held_out_parts(
            prepared.parts, on_scored, lambda part: part.num_tokens
        ):
            rows = [(row.tokens, row.tags) for row in part.rows]
            reports[name] = tag_report(tagger, rows, on_scored=tell)
        return reports
