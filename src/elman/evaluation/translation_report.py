"""What is measured of a model that writes sequences: teacher-forced, free-running, as texts."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, nll_loss

from elman.data.examples import PairBatch
from elman.evaluation.ratios import ratio
from elman.evaluation.translation import TranslationScores
from elman.kernels.dispatch import KernelPlan
from elman.losses import LOGITS_AT_ONCE
from elman.models.encoder_decoder import EncoderDecoder, shifted
from elman.models.ensemble import mean_log_probs

MOST_NATS = 700.0
"""Above this many nats a token, a perplexity is more than a float holds."""


@dataclass(frozen=True)
class ForcedScore:
    """Every target token and stop mark given the right ones before it: nats, and how many right."""

    loss_nats: float
    num_tokens: int
    num_right: int

    def __add__(self, other: "ForcedScore") -> "ForcedScore":
        """Return the score of both."""
        return ForcedScore(
            self.loss_nats + other.loss_nats,
            self.num_tokens + other.num_tokens,
            self.num_right + other.num_right,
        )


@dataclass(frozen=True)
class TranslationReport:
    """The figures of one set of pairs.

    forced: under teacher forcing. num_free_right: tokens and stop marks of the references that
    stand at the same place in what the model wrote by itself; `exposure_gap` is what its accuracy
    loses there against teacher forcing. num_exact: answers with the tokens of the reference and no
    others. texts: the metrics of texts, None where their packages are missing.
    """

    forced: ForcedScore
    num_rows: int
    num_free_right: int
    num_exact: int
    texts: TranslationScores | None

    @property
    def exposure_gap(self) -> float | None:
        """Teacher-forced accuracy less free-running accuracy."""
        return ratio(self.forced.num_right - self.num_free_right, self.forced.num_tokens)

    def to_json(self) -> dict[str, object]:
        """Return every figure."""
        forced = self.forced
        nats = ratio(forced.loss_nats, forced.num_tokens)
        finite = nats is not None and nats < MOST_NATS
        told: dict[str, object] = {
            "loss_nats": forced.loss_nats if math.isfinite(forced.loss_nats) else None,
            "num_tokens": forced.num_tokens,
            "nats_per_token": nats if finite else None,
            "perplexity": math.exp(nats) if nats is not None and finite else None,
            "teacher_forced_accuracy": ratio(forced.num_right, forced.num_tokens),
            "free_running_accuracy": ratio(self.num_free_right, forced.num_tokens),
            "exposure_gap": self.exposure_gap,
            "num_rows": self.num_rows,
            "num_exact_tokens": self.num_exact,
            "exact_match": ratio(self.num_exact, self.num_rows),
        }
        return told | (self.texts.to_json() if self.texts is not None else {})


@torch.inference_mode()
def forced_score(
    models: Sequence[EncoderDecoder],
    batches: Iterable[PairBatch],
    *,
    boundary_id: int,
    plan: KernelPlan,
) -> ForcedScore:
    """Return the teacher-forced score of all pairs: a sum and counts; batches change no number.

    Of several models it is that of the mean of their probabilities.
    """
    total = ForcedScore(0.0, 0, 0)
    at_once = max(1, LOGITS_AT_ONCE // len(models[0].readout.weight))
    for batch in batches:
        lengths_B = batch.target_lengths_B + 1
        inputs_BT, answers_BT = shifted(batch.target_BT, batch.target_lengths_B, boundary_id)
        valid_BT = torch.arange(inputs_BT.shape[1]) < lengths_B.unsqueeze(1)
        features = []
        for model in models:
            output = model(batch.source_BS, batch.source_lengths_B, inputs_BT, lengths_B, plan=plan)
            features_NF = model.readout.project(output.features_BTF[valid_BT])
            features.append(torch.split(features_NF, at_once))
        for *rows, ids_N in zip(*features, torch.split(answers_BT[valid_BT], at_once), strict=True):
            log_probs_NV = _log_probs(models, rows)
            nats_N = nll_loss(log_probs_NV, ids_N, reduction="none").double()
            right = int((log_probs_NV.argmax(dim=1) == ids_N).sum())
            total += ForcedScore(float(nats_N.sum()), len(ids_N), right)
    return total


def _log_probs(models: Sequence[EncoderDecoder], rows: Sequence[Tensor]) -> Tensor:
    """Return log_probs_NV of the models' features, rows_NF of each."""
    return mean_log_probs(
        [
            linear(rows_NF, model.readout.weight, model.readout.bias).log_softmax(dim=1)
            for model, rows_NF in zip(models, rows, strict=True)
        ]
    )


def num_in_place(answer: Sequence[int], reference: Sequence[int]) -> int:
    """Return how many tokens of a reference, its stop mark counted, an answer has in its place."""
    same = sum(one == other for one, other in zip(answer, reference, strict=False))
    return same + int(len(answer) == len(reference))
