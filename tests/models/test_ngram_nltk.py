"""Counts beside those of nltk.lm, on what both define alike: maximum likelihood and add-k."""

import numpy as np
import pytest

from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import SmoothingOptions, estimate

lm = pytest.importorskip("nltk.lm")
ngrams = pytest.importorskip("nltk.util").ngrams

SIZE, ORDER = 9, 3


def learnt(seed: int) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [[0, *draw.integers(1, SIZE - 1, 25).tolist(), 0] for _ in range(12)]


@pytest.mark.parametrize("added", [None, 1.0, 0.25])
def test_probabilities_are_those_of_nltk(added: float | None) -> None:
    texts = learnt(5)
    words = [[str(one) for one in text] for text in texts]
    grams = [
        gram for text in words for length in range(1, ORDER + 1) for gram in ngrams(text, length)
    ]
    vocabulary = lm.Vocabulary([str(one) for one in range(SIZE - 1)], unk_cutoff=1)
    assert len(vocabulary) == SIZE  # with its unknown word
    model = lm.MLE(ORDER, vocabulary) if added is None else lm.Lidstone(added, ORDER, vocabulary)
    model.fit([grams])
    options = SmoothingOptions("none") if added is None else SmoothingOptions("add_k", added)
    where = joined([np.array(text) for text in texts], SIZE)
    tables = estimate(count_grams(where, order=ORDER, vocabulary_size=SIZE), SIZE, options).tables
    seen = {tuple(text[place : place + 2]) for text in texts for place in range(len(text) - 2)}
    for history in sorted(seen):
        before_BK = np.zeros((1, ORDER - 1), np.int64)
        context_K = tables.contexts(np.array([history]), before_BK)[0, -1]
        probs_V = np.exp(tables.log_distribution(context_K))
        want_V = [model.score(str(one), tuple(map(str, history))) for one in range(SIZE)]
        np.testing.assert_allclose(probs_V, want_V, rtol=1e-12)
