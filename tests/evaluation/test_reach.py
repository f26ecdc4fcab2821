"""Curves of reach: flat where a model cannot look, the full loss where nothing is left out."""

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.errors import DataError
from elman.evaluation.reach import ReachKind, reach_curve
from elman.evaluation.scorers import ModelScorer
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_nats
from elman.models.language_models import new_language_model
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import estimate
from elman.models.ngram_model import NgramLanguageModel

SIZE, PLAN = 8, KernelPlan()
LENGTHS = (1, 2, 3, 4, 6, 12)


def stream(seed: int, length: int = 300) -> np.ndarray:
    draw = np.random.default_rng(seed)
    ids = [0, 1]
    for _ in range(length):
        ids.append(int((ids[-1] + ids[-2] + draw.integers(0, 2)) % SIZE))
    return np.array(ids)


def counts(order: int) -> ModelScorer:
    grams = count_grams(joined([stream(1, 2000)], SIZE), order=order, vocabulary_size=SIZE)
    tables = estimate(grams, SIZE).tables
    return ModelScorer(NgramLanguageModel(ModelSettings(kind="ngram", order=order), tables), PLAN)


def learnt(**settings: object) -> ModelScorer:
    chosen = ModelSettings(hidden_size=8, embedding_size=4, num_heads=2, **settings)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    model = new_language_model(chosen, SIZE, generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.8, generator=generator)
    return ModelScorer(model, PLAN)


@pytest.mark.parametrize("kind", ["truncated", "shuffled"])
@pytest.mark.parametrize(
    ("scorer", "sees"),
    [
        (counts(3), 2),
        (counts(4), 3),
        (learnt(kind="window", context_length=3), 3),
        (learnt(kind="transformer", context_length=4), 4),
    ],
    ids=["3-gram", "4-gram", "window of 3", "transformer of 4"],
)
def test_a_model_is_flat_from_where_it_cannot_look(
    scorer: ModelScorer, sees: int, kind: ReachKind
) -> None:
    curve = reach_curve(scorer, stream(2), kind, num_positions=80, lengths=LENGTHS)
    by_length = dict(zip(curve.lengths, curve.nats, strict=True))
    for length in LENGTHS:
        same = by_length[length] == pytest.approx(by_length[12], rel=1e-12)
        assert same == (length >= sees), (length, by_length)


def test_a_recurrent_state_sees_as_far_as_there_is_text() -> None:
    scorer = learnt(kind="lstm")
    curve = reach_curve(scorer, stream(3), "truncated", num_positions=60, lengths=LENGTHS)
    assert len(set(curve.nats)) == len(LENGTHS)
    assert all(width > 0 for width in curve.half_widths)


def test_the_longest_length_is_the_loss_after_all_that_stands_before() -> None:
    scorer, ids = learnt(kind="gru"), stream(4)
    curves = [
        reach_curve(scorer, ids, kind, num_positions=40, lengths=LENGTHS, seed=5)  # type: ignore[arg-type]
        for kind in ("truncated", "shuffled")
    ]
    assert curves[0].nats[-1] == curves[1].nats[-1]
    draw = np.random.default_rng(5)
    ends = 12 + draw.integers(0, len(ids) - 12, 40)
    total = 0.0
    for end in ends:
        output = scorer.model(torch.from_numpy(ids[end - 12 : end])[None], plan=PLAN)
        target_BT = torch.tensor([[ids[end]]])
        nats_BT = token_nats(output.states_BTH[:, -1:], output.readout, target_BT)
        total += float(nats_BT.detach())
    assert curves[0].nats[-1] == pytest.approx(total / 40, rel=1e-10)


def test_a_text_too_short_to_look_back_in_is_refused() -> None:
    with pytest.raises(DataError, match="too short to look so far back; got 12 tokens"):
        reach_curve(counts(2), stream(1)[:12], "truncated", lengths=LENGTHS)
