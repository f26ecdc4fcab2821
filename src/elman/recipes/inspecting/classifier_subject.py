"""A classifier and a text, or a series: at every step, the answer if it ended there."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elman.config.text_settings import UnknownPolicy
from elman.data.tables import is_number
from elman.errors import DataError, SettingError
from elman.evaluation.label_report import given_labels
from elman.inspection.gradient_reach import Scalar
from elman.layers.stack import RecurrentStack
from elman.models.classifier import SequenceClassifier
from elman.recipes.classifying import LogProbs, TrainedClassifier, label_log_probs, open_classifier
from elman.recipes.inspecting.answering import (
    VOCABULARY_AT_ONCE,
    AnsweringSubject,
    read_as,
)
from elman.recipes.inspecting.unknown_marks import told_unknown, unknown_places
from elman.recipes.row_encoding import EncodedRow, TextEncoder, one_line_of
from elman.recipes.unknown_tokens import known_and_unknown
from elman.text.label_set import LabelSet
from elman.training.label_objective import answer_nats

STEPS_AT_ONCE = 1 << 16
"""Padded steps of the beginnings of a text that are read together."""


@dataclass(frozen=True)
class AnswerSoFar:
    """The answer if the text ended after a step: probs_C of all labels; `read` is what was read."""

    labels: LabelSet
    probs_C: LogProbs
    top: int
    read: Mapping[str, int | float]

    @property
    def given(self) -> tuple[str, ...]:
        """The likeliest label, or of several answers all above one half."""
        with np.errstate(divide="ignore"):
            return given_labels(np.log(self.probs_C)[None], self.labels)[0]

    @property
    def likeliest(self) -> tuple[tuple[str, float], ...]:
        """The `top` likeliest labels with their probabilities; of equals the first label first."""
        order = np.argsort(-self.probs_C, kind="stable")[: self.top].tolist()
        return tuple((self.labels.labels[place], float(self.probs_C[place])) for place in order)

    def answer(self) -> dict[str, object]:
        """Return the answer as `elman predict` writes it."""
        probs = [float(self.probs_C[self.labels.ids((label,))[0]]) for label in self.given]
        if self.labels.answers == "one":
            return {"label": self.given[0], "probability": probs[0]}
        return {"labels": list(self.given), "probability": probs}

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        top = [{"label": label, "probability": prob} for label, prob in self.likeliest]
        return {**self.read, "if_ended_here": self.answer() | {"top": top}}

    def columns(self) -> dict[str, object]:
        """Return a cell for each column: what was read, the answer, and every probability."""
        every = zip(self.labels.labels, self.probs_C.tolist(), strict=True)
        return {
            **self.read,
            "answer if ended here": "|".join(self.given),
            **{f"p {label}": prob for label, prob in every},
        }

    @property
    def mark(self) -> float:
        """The share of the likeliest label, in percent."""
        return 100.0 * self.likeliest[0][1]


@dataclass(frozen=True)
class ClassifierSubject(AnsweringSubject):
    """inputs [1, T] ids or [1, T, 1] scaled numbers, the row as the run reads it."""

    classifier: TrainedClassifier
    row: EncodedRow
    inputs: Tensor

    task = "classify"
    mark_title = "percent of the likeliest label, if the text ended there"

    @property
    def module(self) -> SequenceClassifier:
        """The classifier."""
        return self.classifier.models[0]

    @property
    def stack(self) -> RecurrentStack:
        """The layers of its encoder."""
        return self.module.encoder.stack

    @property
    def lengths_1(self) -> Tensor:
        """The length of the row, as a batch of one."""
        return torch.tensor([len(self.row)])

    def read(self) -> None:
        """Answer the text by the run's kernels."""
        self._log_probs(self.inputs, self.lengths_1)

    def vocabulary_pieces(self) -> Iterator[Tensor]:
        """Yield every symbol, some at a time; a series has none."""
        if self.settings.model.input == "series":
            return
        encoder = self.module.encoder
        for start in range(0, encoder.input_size, VOCABULARY_AT_ONCE):
            ids_B = torch.arange(start, min(start + VOCABULARY_AT_ONCE, encoder.input_size))
            with torch.no_grad():
                x_B1E = encoder.inputs(ids_B.unsqueeze(1))
            yield x_B1E

    @cached_property
    def log_probs_of_beginnings(self) -> LogProbs:
        """The answers to all beginnings of the text, ln p [T, C], the whole one last."""
        num_steps, found = len(self.row), list[LogProbs]()
        at_once = max(1, STEPS_AT_ONCE // num_steps)
        for start in range(0, num_steps, at_once):
            lengths_B = torch.arange(start, min(start + at_once, num_steps)) + 1
            longest = int(lengths_B[-1])
            rows = self.inputs[:, :longest].expand(
                len(lengths_B), *self.inputs[:, :longest].shape[1:]
            )
            found.append(self._log_probs(rows.contiguous(), lengths_B))
        return np.concatenate(found)

    def said(self, top: int) -> Sequence[AnswerSoFar]:
        """Return the answer to each beginning of the text."""
        shares_TC = np.exp(self.log_probs_of_beginnings)
        read = read_as(self.row, numbers=self.settings.model.input == "series")
        labels = self.classifier.labels
        return [
            AnswerSoFar(labels, probs_C, top, each)
            for probs_C, each in zip(shares_TC, read, strict=True)
        ]

    def answer_json(self) -> Mapping[str, object]:
        """Return the answer to the whole text, and the probability of every label."""
        whole = self.said(1)[-1]
        every = dict(zip(whole.labels.labels, whole.probs_C.tolist(), strict=True))
        return whole.answer() | {"probabilities": every}

    def value(self, states_1TH: Tensor, scalar: Scalar, at: int | None) -> Tensor:
        """Return −ln p of the labels given, the logit of the likeliest, or the norm of the pooled.

        Of several answers −ln p is that of all of them together, those not given among them.
        """
        if scalar == "state":
            pooled_1H = self.module.pooling(states_1TH, self.lengths_1)
            norm_1: Tensor = torch.linalg.vector_norm(pooled_1H, dim=1)
            return norm_1
        logits_1C = self.module.read_out(states_1TH, self.lengths_1).double()
        if scalar == "logit":
            return logits_1C[:, int(self.log_probs_of_beginnings[-1].argmax())]
        labels = self.classifier.labels
        given_1C = torch.zeros_like(logits_1C)
        given_1C[:, labels.ids(self.said(1)[-1].given)] = 1.0
        return answer_nats(logits_1C, given_1C, labels.answers)

    def answer_at(self, at: int | None) -> str:
        """Return the labels given. Raises `SettingError` where one step is asked about."""
        if at is not None:
            raise SettingError("--at is for a tagger", got="a run of elman train classify")
        return ", ".join(self.said(1)[-1].given) or "no label"

    def _log_probs(self, inputs: Tensor, lengths_B: Tensor) -> LogProbs:
        answers, plan = self.classifier.labels.answers, self.classifier.plan
        return label_log_probs(self.classifier.models, inputs, lengths_B, answers, plan=plan)


def classifier_subject(
    path: Path, text: str, *, unknown: UnknownPolicy | None = None
) -> ClassifierSubject:
    """Return the text, or the numbers in it, as the classifier at `path` reads it.

    A line end within it is read as a blank. Raises `DataError` for a text without tokens, and for
    what is no number where the run reads numbers.
    """
    return row_to_answer(path, open_classifier(path), text, unknown=unknown)


def row_to_answer(
    path: Path, classifier: TrainedClassifier, text: str, *, unknown: UnknownPolicy | None = None
) -> ClassifierSubject:
    """Return the text as `classifier`, which was opened at `path`, reads it; raises as above."""
    encoder = classifier.encoder
    if isinstance(encoder, TextEncoder):
        row, shown, notices, strange = _of_text(encoder, one_line_of(text.rstrip("\n")), unknown)
    else:
        if unknown is not None:
            raise SettingError("--unknown is for symbols", got="a run of series")
        numbers = _numbers(text)
        row, shown = encoder.whole(tuple(map(float, numbers))), numbers
        notices, strange = (), ()
    if not len(row):
        raise DataError("there is no token in the text", got=repr(text))
    most = encoder.max_length or len(row)
    if len(row) > most:
        notices = (*encoder.cut_notices(1), *notices)
    row = row[:most]
    inputs, _ = encoder.in_memory([row]).padded(np.array([0]))
    with torch.no_grad():
        x_1TE = classifier.models[0].encoder.inputs(inputs)
    shown, strange = shown[:most], tuple(place for place in strange if place < most)
    return ClassifierSubject(
        path, classifier.settings, shown, notices, strange, x_1TE, classifier, row, inputs
    )


def _of_text(
    encoder: TextEncoder, text: str, unknown: UnknownPolicy | None
) -> tuple[EncodedRow, tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """Return the ids of a text, its tokens for a person, what is told of unknown ones, and where.

    Tokens that are left out stand nowhere.
    """
    tokenizer = encoder.tokenizer
    row, starts_N, ends_N = tokenizer.encode_with_offsets(text, policy=unknown)
    normal = tokenizer.normalise(text)
    places = zip(starts_N.tolist(), ends_N.tolist(), strict=True)
    shown = tuple(normal[start:end] for start, end in places)
    strange = unknown_places(tokenizer, row)
    every, _ = known_and_unknown(tokenizer, text, row, unknown)
    return row, shown, told_unknown(shown, strange, every - len(row)), strange


def _numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of a text, parted by blanks or commas."""
    found = tuple(re.split(r"\s*,\s*|\s+", text.strip())) if text.strip() else ()
    for part in found:
        if not is_number(part) or not math.isfinite(float(part)):
            raise DataError(
                "a run of series reads numbers",
                got=repr(part),
                allowed="finite numbers with blanks or commas between them",
            )
    return found
