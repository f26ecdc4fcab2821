"""A trained classifier at work: log-probabilities, labels and figures of any rows."""

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import logsigmoid

from elman.checkpoints.run_folder import LABELS
from elman.config.settings import Settings
from elman.data.batches import BatchSource
from elman.data.examples import InputRows, LabelBatch
from elman.decoding.in_order import Exchange, decode_in_order
from elman.errors import DataError
from elman.evaluation.label_report import (
    BaselineLabels,
    LabelReport,
    given_labels,
    label_report,
)
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.classifier import SequenceClassifier
from elman.models.ensemble import mean_log_probs
from elman.processes import Processes
from elman.recipes.labelled import LabelledRow, labelled_files, require_tables, told_rows
from elman.recipes.row_encoding import EncodedRow, RowEncoder, encoder_of_run
from elman.recipes.trained import open_members
from elman.recipes.unknown_tokens import UnknownTokens
from elman.seeding import generator
from elman.text.label_set import Answers, LabelSet
from elman.training.label_objective import answer_nats

ROWS_AT_ONCE = 64
USUAL = "most frequent label"

LogProbs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrainedClassifier:
    """What predicting and scoring need of a run, or of an ensemble of runs."""

    settings: Settings
    encoder: RowEncoder
    labels: LabelSet
    models: tuple[SequenceClassifier, ...]
    plan: KernelPlan
    processes: Processes = field(default_factory=Processes)

    def log_probs(self, rows: InputRows) -> LogProbs:
        """Return ln p of every label for every row, [B, C]; the rows are read all at once."""
        inputs, lengths_B = rows.padded(np.arange(len(rows.lengths_N)))
        return label_log_probs(self.models, inputs, lengths_B, self.labels.answers, plan=self.plan)

    def log_probs_in_order(
        self, rows: Iterable[EncodedRow], *, batch_size: int = ROWS_AT_ONCE
    ) -> Iterator[LogProbs | None]:
        """Yield ln p [C] of each row in order, None for one without steps, for which no model runs.

        Rows of like length are read together; neither that nor `batch_size` changes a figure.
        """

        def decode(chunk: list[Sequence[float]]) -> list[LogProbs]:
            arrays = [np.asarray(row) for row in chunk]
            return list(self.log_probs(self.encoder.in_memory(arrays)))

        sources: Iterable[Sequence[float]] = (row for row in rows)  # type: ignore[misc]
        exchange = Exchange(self.processes, np.ndarray.tolist, np.array)
        return decode_in_order(sources, decode, batch_size=batch_size, exchange=exchange)


@dataclass(frozen=True)
class LabelPrediction:
    """What is said of one row: the labels given, and the probability of every label [C].

    is_cut: it is longer than the run reads, and only its beginning was read.
    """

    labels: tuple[str, ...]
    probs_C: LogProbs
    is_cut: bool = False


def open_classifier(path: str | Path, ensemble: Sequence[str | Path] = ()) -> TrainedClassifier:
    """Open the run at `path` and load its best weights; those of `ensemble` are averaged with it.

    Raises `RunError` where that cannot be, or where a run does not have the vocabularies of the
    first.
    """
    folders = open_members(path, ensemble, task="classify", otherwise="is no classifier")
    first = folders[0]
    encoder, labels = encoder_of_run(first), LabelSet.from_json(first.vocabularies[LABELS])
    models = []
    for folder in folders:
        model = SequenceClassifier(
            folder.settings.model, encoder.input_size, len(labels), generator(0, "initialisation")
        )
        folder.load_weights(model)
        models.append(model)
    plan = KernelPlan(first.settings.training.kernels)
    return TrainedClassifier(first.settings, encoder, labels, tuple(models), plan)


@torch.no_grad()
def label_log_probs(
    models: Sequence[SequenceClassifier],
    inputs: torch.Tensor,
    lengths_B: torch.Tensor,
    answers: Answers,
    *,
    plan: KernelPlan,
) -> LogProbs:
    """Return ln p [B, C] float64: of each label, or of several answers of a yes to each.

    Of several models it is that of the mean of their probabilities.
    """
    each = []
    for model in models:
        logits_BC = model(inputs, lengths_B, plan=plan).double()
        each.append(logits_BC.log_softmax(dim=1) if answers == "one" else logsigmoid(logits_BC))
    array_BC: LogProbs = mean_log_probs(each).numpy()
    return array_BC


@torch.no_grad()
def label_loss(
    model: SequenceClassifier,
    source: BatchSource[LabelBatch],
    answers: Answers,
    *,
    plan: KernelPlan,
) -> LossSum:
    """Return the loss of one epoch of `source`; rows of one answer whose label is none are out."""
    total = LossSum.zero()
    for index in range(source.batches_per_epoch(0)):
        batch = source.batch(0, index)
        logits_BC = model(batch.inputs, batch.lengths_B, plan=plan).double()
        nats_B = answer_nats(logits_BC, batch.labels_BC, answers)
        if answers == "one":
            nats_B = nats_B[batch.labels_BC.any(dim=1)]
        total += LossSum(nats_B.sum(), len(nats_B))
    return total


def predict_rows(
    classifier: TrainedClassifier,
    rows: Iterable[LabelledRow],
    *,
    batch_size: int = ROWS_AT_ONCE,
    unknown: UnknownTokens | None = None,
) -> Iterator[LabelPrediction | None]:
    """Yield what is said of each row, in order; None for a blank one, which no model is asked.

    Tokens are counted in `unknown`.
    """
    counts = unknown or UnknownTokens()
    nothing, encoder = np.zeros(0, dtype=np.int32), classifier.encoder
    cut = deque[bool]()

    def encoded() -> Iterator[EncodedRow]:
        for row in rows:
            array = nothing if row.is_blank else encoder.encode(row.given)
            cut.append(not row.is_blank and encoder.is_cut(row.given, array))
            if not row.is_blank:
                counts.add(*encoder.token_counts(row.given, array))
            yield array

    for log_probs_C in classifier.log_probs_in_order(encoded(), batch_size=batch_size):
        is_cut = cut.popleft()
        if log_probs_C is None:
            yield None
            continue
        (labels,) = given_labels(log_probs_C[None], classifier.labels)
        yield LabelPrediction(labels, np.exp(log_probs_C), is_cut)


def score_labelled(
    classifier: TrainedClassifier,
    names: Sequence[str],
    *,
    encoding: str | None = None,
    text_column: str = "",
    label_column: str = "",
    batch_size: int = ROWS_AT_ONCE,
    on_scored: Callable[[int], None] = lambda num_rows: None,
) -> tuple[LabelReport, tuple[str, ...]]:
    """Return the figures on labelled files, and lines to show: what was left out of them.

    Columns that are not named are those of training. Beside the figures stands the label that is
    the most frequent in training. Raises `DataError` for what cannot be read.
    """
    settings = _read_as(classifier.settings, encoding, text_column, label_column)
    one_answer = classifier.labels.answers == "one"
    gold: list[tuple[str, ...]] = []
    wrong = list[LabelledRow]()
    unknown = UnknownTokens()
    cut = 0
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        files = labelled_files(names, settings, Path(scratch))
        require_tables([files], text_column, label_column)

        def encoded() -> Iterator[EncodedRow]:
            nonlocal cut
            for row in files.rows():
                gold.append(row.labels)
                if one_answer and len(row.labels) != 1:
                    wrong.append(row)
                array = classifier.encoder.encode(row.given)
                unknown.add(*classifier.encoder.token_counts(row.given, array))
                cut += classifier.encoder.is_cut(row.given, array)
                yield array

        found = classifier.log_probs_in_order(encoded(), batch_size=batch_size)
        log_probs = list(counted_rows(found, classifier, on_scored))
        notices = (
            *files.notices(),
            *classifier.encoder.cut_notices(cut),
            *unknown.notices(),
        )
    if wrong:
        raise DataError(
            "the run gives one label to each row, and these rows have several or none",
            got=told_rows(wrong),
        )
    usual = [usual_labels(classifier.labels)] * len(gold)
    report = label_report(
        np.array(log_probs).reshape(len(gold), len(classifier.labels)),
        gold,
        classifier.labels,
        baselines={USUAL: BaselineLabels(usual, is_order_blind=True)},
    )
    return report, notices


def _read_as(
    settings: Settings, encoding: str | None, text_column: str, label_column: str
) -> Settings:
    """Return the settings of a run with what was asked of the files to score."""
    data = replace(
        settings.data,
        text_column=text_column or settings.data.text_column,
        label_column=label_column or settings.data.label_column,
    )
    text = settings.text if encoding is None else replace(settings.text, encoding=encoding)
    return replace(settings, data=data, text=text)


def counted_rows(
    found: Iterable[LogProbs | None],
    classifier: TrainedClassifier,
    on_scored: Callable[[int], None],
) -> Iterator[LogProbs]:
    """Yield ln p of each row and tell how many there were; a row without steps is read as such."""
    nothing: LogProbs | None = None
    for number, log_probs_C in enumerate(found, 1):
        if log_probs_C is None:
            if nothing is None:
                empty = classifier.encoder.in_memory([np.zeros(0, dtype=np.int32)])
                nothing = classifier.log_probs(empty)[0]
            log_probs_C = nothing
        yield log_probs_C
        on_scored(number)


def usual_labels(labels: LabelSet) -> tuple[str, ...]:
    """Return what to say without reading: the label of most training rows, the first of several."""
    best = max(range(len(labels)), key=lambda number: (labels.counts[number], -number))
    return (labels.labels[best],)
