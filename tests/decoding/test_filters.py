import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.decoding.filters import (
    SamplingSettings,
    apply_filters,
    forbid,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    scale_temperature,
)
from elman.errors import SettingError

logit_vectors = st.lists(
    st.floats(-30.0, 30.0) | st.integers(-2, 2).map(float), min_size=1, max_size=40
).map(lambda values: np.array(values, dtype=np.float64))


def kept(logits: np.ndarray) -> list[int]:
    return np.flatnonzero(logits > -np.inf).tolist()


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", True),
        ("temperature", "hot"),
        ("top_k", -1),
        ("top_k", 2.5),
        ("top_k", True),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", 1.0),
    ],
)
def test_settings_that_mean_nothing_are_refused_in_one_line(name: str, value: object) -> None:
    with pytest.raises(SettingError) as refusal:
        SamplingSettings(**{name: value})  # type: ignore[arg-type]
    message = str(refusal.value)
    assert message.startswith(f"{name} cannot be used; got {value!r}; allowed: ")
    assert "\n" not in message


def test_the_extremes_of_every_setting_are_accepted() -> None:
    SamplingSettings(temperature=0, top_k=0, top_p=1, min_p=0, seed=0)
    SamplingSettings(temperature=5e-324, top_k=10**9, top_p=5e-324, min_p=1.0, seed=2**63 - 1)


@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e-6])
def test_a_tiny_temperature_is_finite_and_all_but_greedy(temperature: float) -> None:
    logits = scale_temperature(np.array([3.0, 1.0, 2.0]), temperature)
    np.testing.assert_array_equal(probabilities(logits), [1.0, 0.0, 0.0])


def test_temperature_raises_probabilities_to_a_power() -> None:
    logits = np.array([3.0, 1.0, 2.0, -1.5])
    p = probabilities(logits)
    for temperature in (0.5, 1.0, 2.0):
        powers = p ** (1 / temperature)
        expected = powers / powers.sum()
        scaled = probabilities(scale_temperature(logits, temperature))
        np.testing.assert_allclose(scaled, expected, rtol=1e-12)
    assert (p**2).sum() < 1  # weights at temperature 1/2, before they are divided by their sum


def test_entropy_rises_with_temperature() -> None:
    logits = np.array([3.0, 1.0, 2.0, -1.5])
    entropies = []
    for temperature in (0.1, 0.5, 1.0, 2.0, 10.0, 1e300):
        p = probabilities(scale_temperature(logits, temperature))
        entropies.append(-(p[p > 0] * np.log(p[p > 0])).sum())
    assert entropies == sorted(entropies)
    assert entropies[-1] == pytest.approx(math.log(4), rel=1e-12)


def test_top_k_keeps_the_lowest_ids_among_equals() -> None:
    logits = np.array([1.0, 2.0, 1.0, 2.0, 1.0])
    assert kept(keep_top_k(logits, 1)) == [1]
    assert kept(keep_top_k(logits, 3)) == [0, 1, 3]
    assert kept(keep_top_k(logits, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("k", [0, 3, 50])
def test_top_k_of_zero_or_the_whole_vocabulary_is_off(k: int) -> None:
    logits = np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(keep_top_k(logits, k), logits)


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    logits = np.log(np.array([0.1, 0.5, 0.15, 0.25]))
    assert kept(keep_top_p(logits, 0.49)) == [1]
    assert kept(keep_top_p(logits, 0.51)) == [1, 3]
    assert kept(keep_top_p(logits, 0.76)) == [1, 2, 3]
    assert kept(keep_top_p(logits, 0.95)) == [0, 1, 2, 3]
    assert kept(keep_top_p(logits, 5e-324)) == [1]
    assert kept(keep_top_p(np.zeros(4), 0.5)) == [0, 1]


@settings(derandomize=True, max_examples=200)
@given(logit_vectors, st.floats(0.001, 0.999))
def test_top_p_is_the_prefix_of_all_ids_sorted_by_probability(logits: np.ndarray, p: float) -> None:
    likelihoods = probabilities(logits)
    by_rank = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    found = kept(keep_top_p(logits, p))
    assert found == sorted(by_rank[: len(found)])
    assert math.fsum(likelihoods[by_rank[: len(found)]]) >= p - 1e-12
    assert math.fsum(likelihoods[by_rank[: len(found) - 1]]) <= p + 1e-12


def test_min_p_is_relative_to_the_likeliest() -> None:
    logits = np.log(np.array([0.1, 0.5, 0.15, 0.25]))
    assert kept(keep_min_p(logits, 0.49)) == [1, 3]
    assert kept(keep_min_p(logits, 0.29)) == [1, 2, 3]
    assert kept(keep_min_p(np.array([2.0, 2.0, 1.0]), 1.0)) == [0, 1]


def test_forbidden_ids_are_removed_before_everything_else() -> None:
    logits = forbid(np.array([5.0, 4.0, 1.0]), [0])
    assert kept(apply_filters(logits, SamplingSettings(top_k=1))) == [1]
    with pytest.raises(SettingError, match="no chance to any token that may be written"):
        forbid(np.zeros(2), [0, 1])
    with pytest.raises(SettingError, match="outside the vocabulary; got 2; allowed: 0 to 1"):
        forbid(np.zeros(2), [2])


def test_filters_act_in_their_stated_order() -> None:
    # top_k first: of the two that stay, the first has 0.625 of what is left and alone reaches 0.6.
    logits = np.log(np.array([0.5, 0.3, 0.2]))
    assert kept(apply_filters(logits, SamplingSettings(top_k=2, top_p=0.6))) == [0]
    assert kept(apply_filters(logits, SamplingSettings(top_p=0.6))) == [0, 1]
    # temperature before top_p: a flatter distribution needs more ids.
    flat = SamplingSettings(temperature=100.0, top_p=0.6)
    assert kept(apply_filters(logits, flat)) == [0, 1]
    assert kept(apply_filters(logits, SamplingSettings(temperature=0.1, top_p=0.6))) == [0]


@settings(derandomize=True, max_examples=200)
@given(logit_vectors, st.integers(1, 45), st.floats(0.001, 1.0), st.floats(0.0, 1.0))
def test_every_filter_keeps_the_likeliest_and_changes_no_logit(
    logits: np.ndarray, k: int, p: float, min_p: float
) -> None:
    before = logits.copy()
    for filtered in (keep_top_k(logits, k), keep_top_p(logits, p), keep_min_p(logits, min_p)):
        ids = kept(filtered)
        assert int(np.argmax(logits)) in ids
        np.testing.assert_array_equal(filtered[ids], logits[ids])
        dropped = sorted(set(range(len(logits))) - set(ids))
        if dropped:
            assert logits[dropped].max() <= logits[ids].min()
    assert len(kept(keep_top_k(logits, k))) == min(k, len(logits))
    mass = probabilities(logits)[kept(keep_top_p(logits, p))].sum()
    assert mass >= p * (1 - 1e-12)
    np.testing.assert_array_equal(logits, before)
