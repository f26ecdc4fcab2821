"""Caches and mixtures against loops over single tokens, however a text is cut."""

import math

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.errors import SettingError
from elman.evaluation.language import score_lines_by, score_stream_by
from elman.evaluation.scorers import (
    CacheScorer,
    MixtureScorer,
    ModelScorer,
    RecallScorer,
    TokenScorer,
)
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_nats
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import estimate
from elman.models.ngram_model import NgramLanguageModel

SIZE = 6
PLAN = KernelPlan()


def model_of(seed: int) -> LanguageModel:
    settings = ModelSettings(kind="gru", hidden_size=5, embedding_size=4)
    generator = torch.Generator().manual_seed(seed)
    model = new_language_model(settings, SIZE, generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.6, generator=generator)
    return model


def counts_of(seed: int) -> NgramLanguageModel:
    text = np.random.default_rng(seed).integers(0, SIZE, 200)
    grams = count_grams(joined([text], SIZE), order=2, vocabulary_size=SIZE)
    settings = ModelSettings(kind="ngram", order=2)
    return NgramLanguageModel(settings, estimate(grams, SIZE).tables)


def stream(seed: int, length: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SIZE, length)


def slow_cache(
    model: LanguageModel, ids: np.ndarray, size: int, flatness: float, weight: float
) -> list[float]:
    """The equations, one token after the other."""
    with torch.no_grad():
        ids_BT = torch.from_numpy(ids)[None]
        output = model(ids_BT[:, :-1], plan=PLAN)
        states = output.states_BTH[0].numpy()
        own = token_nats(output.states_BTH, output.readout, ids_BT[:, 1:], plan=PLAN)[0].tolist()
    found = []
    for t, target in enumerate(ids[1:]):
        past = range(max(t - size, 0), t)
        scores = {i: math.exp(flatness * float(states[t] @ states[i])) for i in past}
        p = math.exp(-own[t])
        if scores:
            right = sum(score for i, score in scores.items() if ids[i + 1] == target)
            p = (1 - weight) * p + weight * right / sum(scores.values())
        found.append(-math.log(p))
    return found


@pytest.mark.parametrize(
    ("size", "flatness", "weight"), [(1, 1.0, 0.3), (7, 0.4, 0.1), (99, 2, 0.5)]
)
@pytest.mark.parametrize("window", [1, 4, 100])
def test_a_cache_is_its_equations_however_the_text_is_cut(
    size: int, flatness: float, weight: float, window: int
) -> None:
    model, ids = model_of(1), stream(2)
    scorer = CacheScorer(model, PLAN, size=size, flatness=flatness, weight=weight)
    told: list[float] = []
    score = score_stream_by(
        scorer, [ids], window=window, on_tokens=lambda nats_N, _: told.extend(nats_N.tolist())
    )
    want = slow_cache(model, ids, size, flatness, weight)
    np.testing.assert_allclose(told, want, rtol=1e-10)
    assert score.loss_nats == pytest.approx(sum(want), rel=1e-10)


def test_lines_have_a_cache_each() -> None:
    model = model_of(3)
    scorer = CacheScorer(model, PLAN, size=5, flatness=0.5, weight=0.4)
    lines = [stream(seed, length) for seed, length in ((1, 9), (2, 1), (3, 17))]
    want = sum(sum(slow_cache(model, np.array([0, *one, 0]), 5, 0.5, 0.4)) for one in lines)
    for size, window in ((1, 256), (2, 3), (3, 1)):
        score = score_lines_by(scorer, lines, boundary_id=0, batch_size=size, window=window)
        assert score.loss_nats == pytest.approx(want, rel=1e-10)


def test_a_cache_without_weight_is_the_model() -> None:
    model, ids = model_of(4), stream(5)
    alone = score_stream_by(ModelScorer(model, PLAN), [ids])
    cached = score_stream_by(CacheScorer(model, PLAN, size=9, flatness=1, weight=0.0), [ids])
    assert cached.loss_nats == pytest.approx(alone.loss_nats, rel=1e-12)


@pytest.mark.parametrize("window", [1, 6, 100])
def test_recall_alone_is_a_cache_of_all_the_weight(window: int) -> None:
    model, ids = model_of(4), stream(5)
    found = []
    for scorer in (
        CacheScorer(model, PLAN, size=9, flatness=0.7, weight=1.0),
        RecallScorer(model, PLAN, size=9, flatness=0.7),
    ):
        told: list[float] = []
        score_stream_by(
            *(scorer, [ids]),
            window=window,
            on_tokens=lambda nats_N, _, told=told: told.extend(nats_N),
        )
        found.append(np.array(told))
    empty = np.isnan(found[1])
    assert empty.tolist() == [True] + [False] * (len(empty) - 1)
    np.testing.assert_allclose(found[1][1:], found[0][1:], rtol=1e-12)


def test_a_repeated_text_is_what_a_cache_is_for() -> None:
    model, ids = model_of(6), np.tile(stream(7, 12), 6)
    alone = score_stream_by(ModelScorer(model, PLAN), [ids])
    cached = score_stream_by(CacheScorer(model, PLAN, size=40, flatness=2.0, weight=0.5), [ids])
    assert cached.loss_nats < 0.9 * alone.loss_nats


def test_counts_have_no_states_for_a_cache() -> None:
    with pytest.raises(SettingError, match="compares states"):
        CacheScorer(counts_of(1), PLAN, size=5, flatness=1.0, weight=0.1)


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("window", [1, 7, 100])
def test_a_mixture_adds_probabilities_of_any_two(weight: float, window: int) -> None:
    ids = stream(8)
    scorers: list[TokenScorer] = [
        ModelScorer(model_of(9), PLAN),
        CacheScorer(model_of(10), PLAN, size=6, flatness=1.0, weight=0.3),
        ModelScorer(counts_of(11), PLAN),
    ]

    def probs(scorer: TokenScorer) -> np.ndarray:
        told: list[float] = []
        score_stream_by(
            scorer, [ids], window=window, on_tokens=lambda nats_N, _: told.extend(nats_N.tolist())
        )
        return np.exp(-np.array(told))

    each = [probs(one) for one in scorers]
    for first, second in ((0, 1), (1, 2), (2, 0)):
        got = probs(MixtureScorer(scorers[first], scorers[second], weight))
        want = (1 - weight) * each[first] + weight * each[second]
        np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize(("size", "flatness", "weight"), [(0, 1, 0.1), (1, -1, 0.1), (1, 1, 1.1)])
def test_a_cache_of_nothing_is_refused(size: int, flatness: float, weight: float) -> None:
    with pytest.raises(SettingError, match="a cache needs"):
        CacheScorer(model_of(1), PLAN, size=size, flatness=flatness, weight=weight)
