"""The answers of a classifier, a line for each row: label and probability."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import TextIO

from elman.config.settings import Settings
from elman.recipes.classifying import LabelPrediction, open_classifier, predict_rows
from elman.recipes.labelled import LabelledRow, unlabelled_rows
from elman.recipes.prediction_request import DIGITS, PredictRequest
from elman.recipes.unknown_tokens import UnknownTokens
from elman.text.label_set import LabelSet

BETWEEN_LABELS = "|"
"""What parts several labels where the data of training had no separator of their own."""


def write_labels(
    run: Path, request: PredictRequest, file: TextIO, scratch: Path
) -> tuple[str, ...]:
    """Write label⇥probability of each row, or with `as_json` an object; an empty line for a blank.

    With `all_probabilities` a cell label=probability follows for every label, in their order. Of
    several answers the labels of a row, and their probabilities, stand in one cell each. Tabs, line
    ends and backslashes of a label are written as Python escapes them.
    """
    classifier = replace(open_classifier(run, request.ensemble), processes=request.processes)
    settings = _with_request(classifier.settings, request)
    told = list[str]()
    rows, shown = tee(unlabelled_rows(request, settings, scratch, on_notice=told.append))
    unknown = UnknownTokens()
    labels = classifier.labels
    blank = cut = 0
    separator = settings.data.label_separator or BETWEEN_LABELS
    predictions = predict_rows(classifier, rows, batch_size=request.batch_size, unknown=unknown)
    for number, (row, prediction) in enumerate(zip(shown, predictions, strict=True), 1):
        blank += prediction is None
        cut += prediction is not None and prediction.is_cut
        if request.as_json:
            file.write(_as_json(number, row, prediction, labels, request) + "\n")
        else:
            cells = _cells(prediction, labels, request, separator)
            file.write("\t".join(cells) + "\n")
    request.on_kernels(classifier.plan.record())
    if blank:
        told.append(f"{blank:,} blank row{'s' * (blank != 1)} answered by nothing")
    return (*told, *classifier.encoder.cut_notices(cut), *unknown.notices())


def _with_request(settings: Settings, request: PredictRequest) -> Settings:
    if request.encoding is None:
        return settings
    return replace(settings, text=replace(settings.text, encoding=request.encoding))


def _cells(
    prediction: LabelPrediction | None, labels: LabelSet, request: PredictRequest, separator: str
) -> Iterator[str]:
    if prediction is None:
        return
    probs = [prediction.probs_C[labels.ids((label,))[0]] for label in prediction.labels]
    yield separator.join(map(_escaped, prediction.labels))
    yield separator.join(f"{prob:.{DIGITS}f}" for prob in probs)
    if request.all_probabilities:
        for label, prob in zip(labels.labels, prediction.probs_C.tolist(), strict=True):
            yield f"{_escaped(label)}={prob:.{DIGITS}f}"


def _as_json(
    number: int,
    row: LabelledRow,
    prediction: LabelPrediction | None,
    labels: LabelSet,
    request: PredictRequest,
) -> str:
    """Return one object: the number of the row, its line, and what is said; null for a blank."""
    told: dict[str, object] = {"row": number, "line": row.line}
    probs = None if prediction is None else prediction.probs_C.tolist()
    if prediction is None or probs is None:
        name = "label" if labels.answers == "one" else "labels"
        told |= {name: None, "probability": None}
    elif labels.answers == "one":
        (label,) = prediction.labels
        told |= {"label": label, "probability": probs[labels.ids((label,))[0]]}
    else:
        told["labels"] = list(prediction.labels)
        told["probability"] = [probs[labels.ids((label,))[0]] for label in prediction.labels]
    if request.all_probabilities:
        every = None if probs is None else dict(zip(labels.labels, probs, strict=True))
        told["probabilities"] = every
    return json.dumps(told, ensure_ascii=False)


def _escaped(label: str) -> str:
    for sign, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        label = label.replace(sign, written)
    return label
