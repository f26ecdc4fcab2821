"""The figures of a classifier on one part of the data, and those of simpler models beside it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elman.evaluation.calibration import Calibration, calibration
from elman.evaluation.label_sets import LabelSetScores, label_set_scores
from elman.evaluation.labels import LabelScores, label_scores
from elman.text.label_set import LabelSet

GIVEN_FROM = 0.5
"""Of several answers a label is given where its probability is above this."""


class BaselineLabels(NamedTuple):
    """What a simpler model gave to each row, and whether it could see the order of what it read."""

    given: Sequence[Collection[str]]
    is_order_blind: bool


class BaselineScores(NamedTuple):
    """The figures of a simpler model on the same rows."""

    scores: LabelScores | LabelSetScores
    is_order_blind: bool

    def to_json(self) -> dict[str, object]:
        """Return the figures without the tables."""
        figures = {
            name: value
            for name, value in self.scores.to_json().items()
            if name not in ("classes", "confusion", "unknown_labels")
        }
        return {"is_order_blind": self.is_order_blind, **figures}


@dataclass(frozen=True)
class LabelReport:
    """Counts and figures of the predictions for a set of rows.

    `scores` is of the kind that the labels are: one for each row, or sets. `nats_sum` is
    −Σ ln p of the labels as they are (of several: of every yes and no) over the `num_known` rows
    whose labels training had all. `calibration` is that of the rows, or of several labels that of
    every yes and no by itself. `baselines` are the same figures of simpler models on the same rows,
    by name.
    """

    scores: LabelScores | LabelSetScores
    nats_sum: float
    num_known: int
    calibration: Calibration
    baselines: Mapping[str, BaselineScores] = field(default_factory=dict)

    @property
    def nats_per_row(self) -> float | None:
        """nats_sum / num_known; None for no row."""
        return self.nats_sum / self.num_known if self.num_known else None

    def to_json(self) -> dict[str, object]:
        """Return every figure; the accuracy of baselines with its interval."""
        return {
            **self.scores.to_json(),
            "nats_sum": self.nats_sum,
            "nats_per_row": self.nats_per_row,
            "num_known_rows": self.num_known,
            "calibration": self.calibration.to_json(),
            "baselines": {name: scores.to_json() for name, scores in self.baselines.items()},
        }


def label_report(
    log_probs_BC: npt.NDArray[np.float64],
    gold: Sequence[Collection[str]],
    labels: LabelSet,
    *,
    baselines: Mapping[str, BaselineLabels],
) -> LabelReport:
    """Compare log-probabilities of `labels` with the gold labels of each row.

    log_probs_BC [B, C]: of one answer they are ln p of the label, of several ln p of a yes.
    `baselines` are the labels that simpler models gave to the same rows.
    """
    given = given_labels(log_probs_BC, labels)
    others = {
        name: BaselineScores(_scores(gold, each.given, labels), each.is_order_blind)
        for name, each in baselines.items()
    }
    known = [all(labels.id_of(label) is not None for label in row) for row in gold]
    nats_B = [
        _nats(log_probs_BC[place], labels.ids(tuple(row)), labels.answers)
        for place, row in enumerate(gold)
        if known[place]
    ]
    if labels.answers == "one":
        measured = calibration(log_probs_BC, [next(iter(row)) for row in gold], labels.labels)
    else:
        measured = _calibration_of_answers(log_probs_BC, gold, labels.labels)
    return LabelReport(
        _scores(gold, given, labels), float(np.sum(nats_B)), sum(known), measured, others
    )


def given_labels(log_probs_BC: npt.NDArray[np.float64], labels: LabelSet) -> list[tuple[str, ...]]:
    """Return the likeliest label of each row, or of several answers all above one half."""
    if labels.answers == "one":
        return [(labels.labels[best],) for best in log_probs_BC.argmax(axis=1).tolist()]
    given_BC = log_probs_BC > np.log(GIVEN_FROM)
    return [
        tuple(label for label, yes in zip(labels.labels, row, strict=True) if yes)
        for row in given_BC.tolist()
    ]


def _scores(
    gold: Sequence[Collection[str]], given: Sequence[Collection[str]], labels: LabelSet
) -> LabelScores | LabelSetScores:
    if labels.answers == "several":
        return label_set_scores(gold, given, labels=labels.labels)
    return label_scores(
        [next(iter(row)) for row in gold],
        [next(iter(row)) for row in given],
        labels=labels.labels,
    )


def _nats(log_probs_C: npt.NDArray[np.float64], ids: list[int], answers: str) -> float:
    if answers == "one":
        return float(-log_probs_C[ids[0]])
    yes_C = np.zeros(len(log_probs_C), dtype=bool)
    yes_C[ids] = True
    return float(-(log_probs_C[yes_C].sum() + _log_no(log_probs_C[~yes_C]).sum()))


def _log_no(log_probs_BC: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ln(1 − p) from ln p, exact where p is small."""
    log_no_BC: npt.NDArray[np.float64] = np.log(-np.expm1(np.minimum(log_probs_BC, -1e-300)))
    return log_no_BC


def _calibration_of_answers(
    log_probs_BC: npt.NDArray[np.float64], gold: Sequence[Collection[str]], labels: Sequence[str]
) -> Calibration:
    """Measure each no or yes to one label as an answer of its own, B × C of them; a tie is a no."""
    answers_N2 = np.stack((_log_no(log_probs_BC), log_probs_BC), axis=-1).reshape(-1, 2)
    right_N = ["yes" if label in row else "no" for row in gold for label in labels]
    return calibration(answers_N2, right_N, ("no", "yes"))
