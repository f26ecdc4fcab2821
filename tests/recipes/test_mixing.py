"""What a person is told of a mixture."""

import pytest

from elman.config.model_settings import ModelSettings
from elman.evaluation.scorers import ModelScorer
from elman.kernels.dispatch import KernelPlan
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import estimate
from elman.models.ngram_model import NgramLanguageModel
from elman.recipes.mixing import Mixed


@pytest.mark.parametrize(("weight", "gains"), [(1e-9, False), (0.2, True)])
def test_a_share_that_gains_nothing_is_told(weight: float, gains: bool) -> None:
    tables = estimate(count_grams(joined([[0, 1, 0]], 2), order=1, vocabulary_size=2), 2).tables
    model = NgramLanguageModel(ModelSettings(kind="ngram", order=1), tables)
    facts = {"cache_size": 20, "cache_flatness": 1.0, "cache_weight": weight}
    (line,) = Mixed(ModelScorer(model, KernelPlan()), facts, 100).told
    assert ("nothing is gained by it" in line) is not gains
    assert "fitted on 100 tokens" in line
