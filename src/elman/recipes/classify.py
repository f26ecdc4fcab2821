"""The classifier as a task: a label, or several, for a text or a series as a whole."""

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor

from elman.config.data_settings import DataSettings
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource
from elman.data.examples import LabelBatch
from elman.data.row_log import MEND_OR_SKIP
from elman.evaluation.label_report import LabelReport, label_report
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.classifier import SequenceClassifier
from elman.recipes.classifying import LogProbs, TrainedClassifier, counted_rows, label_loss
from elman.recipes.label_baselines import baseline_labels
from elman.recipes.label_preparing import PreparedLabels, prepare_labels
from elman.recipes.labelled import BUILT_IN_SERIES, labelled_files
from elman.recipes.learning import Run
from elman.recipes.prepared_text import PartName
from elman.recipes.row_task import RowTask, held_out_parts
from elman.seeding import generator
from elman.training.label_objective import LabelObjective

ClassifierRun = Run[PreparedLabels, SequenceClassifier, LabelBatch]

LOOKED_AT = 2000
"""Rows that are looked at to find out whether texts are words of their own or many words."""

FEW_WORDS, LONG_WORDS = 2.0, 15.0
"""Texts of fewer words than the first, or of words longer than the second, are read by letters."""

MANY_WORDS = 5_000
FEW_ROWS, MANY_ROWS = 200, 50_000

BASE = Settings(
    text=TextSettings(level="word", unit="line"),
    data=DataSettings(valid_fraction=0.1, test_fraction=0.1, max_length=1000),
    model=ModelSettings(
        task="classify",
        bidirectional=True,
        pooling="max",
        hidden_size=128,
        dropout=0.5,
    ),
    training=TrainingSettings(optimizer="adamw", batch_size=32, length_pool=8),
)
"""What a classifier is unless settings say otherwise; figures behind it are in `benchmarks/`."""


class ClassifyTask(RowTask[PreparedLabels, SequenceClassifier, LabelBatch]):
    """Labels of whole texts or series, in tables or folders of classes."""

    @property
    def base(self) -> Settings:
        """The defaults."""
        return BASE

    @property
    def called(self) -> tuple[str, str]:
        """Labelled data, in rows."""
        return "labelled data", "rows"

    def first_suggestions(self, early: Settings, scratch: Path) -> tuple[str, ...]:
        """Return what texts look like: words of their own are read letter by letter."""
        data = early.data
        if BUILT_IN_SERIES in data.train:
            return ("model.input=series",)
        if early.model.input == "series" or not data.train:
            return ()
        files = labelled_files(data.train, early, scratch, advice=MEND_OR_SKIP)
        texts = [row.given for row in islice(files.rows(), LOOKED_AT) if isinstance(row.given, str)]
        if not texts:
            return ()
        words = [len(text.split()) for text in texts]
        length = sum(map(len, texts)) / max(1, sum(words))
        if median(words) <= FEW_WORDS or length > LONG_WORDS:
            return ("text.level=char",)
        # A word seen once teaches nothing; as an unknown one it teaches what to do with those.
        return ("text.min_count=2",) if sum(words) >= MANY_WORDS else ()

    def prepare(self, settings: Settings, scratch: Path) -> PreparedLabels:
        """Read, split and encode the rows."""
        return prepare_labels(settings, scratch)

    def suggestions(
        self, early: Settings, prepared: PreparedLabels, *, budget_seconds: float | None
    ) -> tuple[str, ...]:
        """Return sizes that fit the rows."""
        suggestions = []
        rows = prepared.num_targets
        if early.model.input == "series":
            suggestions += ["model.hidden_size=64", "model.dropout=0.1", "model.pooling=final"]
        elif early.text.level in ("char", "byte"):
            suggestions += ["model.hidden_size=256"]
        else:
            suggestions += ["model.embedding_dropout=0.3"]
            if early.model.input == "embedding":
                suggestions += ["model.embedding_size=128"]
        if rows >= MANY_ROWS:
            suggestions += ["training.batch_size=64", "model.dropout=0.3"]
        if not (budget_seconds or early.training.epochs or early.training.updates):
            suggestions.append(f"training.epochs={_epochs(rows)}")
        return tuple(suggestions)

    def size_notices(self, prepared: PreparedLabels) -> tuple[str, ...]:
        """Return a line where there is too little to learn from."""
        rows = prepared.num_targets
        if rows >= FEW_ROWS:
            return ()
        some = f"{rows:,} row{'s' * (rows != 1)}"
        return (f"only {some} to learn from; {FEW_ROWS:,} are a beginning",)

    def model(self, settings: Settings, prepared: PreparedLabels) -> SequenceClassifier:
        """Return a new classifier."""
        return SequenceClassifier(
            settings.model,
            prepared.encoder.input_size,
            len(prepared.labels),
            generator(settings.training.seed, "initialisation"),
        )

    def objective(
        self, model: SequenceClassifier, settings: Settings, prepared: PreparedLabels
    ) -> LabelObjective:
        """Return the likelihood of the labels, rare ones weighing more where that was asked for."""
        weights_C = None
        if settings.training.class_weights == "balanced":
            weights_C = balanced_weights(prepared)
        return LabelObjective(
            model,
            answers=prepared.labels.answers,
            class_weights_C=weights_C,
            label_smoothing=settings.training.label_smoothing,
            recompute=settings.training.recompute,
        )

    def held_out_loss(
        self,
        model: SequenceClassifier,
        prepared: PreparedLabels,
        source: BatchSource[LabelBatch],
        plan: KernelPlan,
    ) -> LossSum:
        """Return the loss of the labels."""
        return label_loss(model, source, prepared.labels.answers, plan=plan)

    def scores(
        self,
        model: SequenceClassifier,
        settings: Settings,
        prepared: PreparedLabels,
        plan: KernelPlan,
        on_scored: Callable[[int], None],
    ) -> Mapping[str, LabelReport]:
        """Return the figures of the parts held out, beside those of simpler models."""
        classifier = TrainedClassifier(settings, prepared.encoder, prepared.labels, (model,), plan)
        found: dict[PartName, LogProbs] = {}
        for name, part, tell in held_out_parts(
            prepared.parts, on_scored, lambda part: part.num_rows
        ):
            answers = classifier.log_probs_in_order(part.each_row())
            found[name] = np.array(list(counted_rows(answers, classifier, tell)))
        baselines = baseline_labels(
            prepared, level=settings.text.level, is_series=settings.model.input == "series"
        )
        return {
            name: label_report(
                log_probs_BC,
                prepared.parts[name].gold,
                prepared.labels,
                baselines=baselines[name],
            )
            for name, log_probs_BC in found.items()
        }


def balanced_weights(prepared: PreparedLabels) -> Tensor:
    """Return the weight of each label [C] with which all labels weigh the same in training.

    One answer: N / (C · n_c), whose mean over rows is 1. Several: (N − n_c) / n_c for a yes, so
    that the rows with the label weigh as much as those without.
    """
    labels, rows = prepared.labels, prepared.num_targets
    counts_C = torch.tensor(labels.counts, dtype=torch.float64)
    if labels.answers == "one":
        return rows / (len(labels) * counts_C)
    return ((rows - counts_C) / counts_C).clamp(min=1.0 / rows)


def _epochs(rows: int) -> int:
    """Return how many passes to make where nothing says when to stop."""
    return 30 if rows < 2_000 else 15 if rows < MANY_ROWS else 5
