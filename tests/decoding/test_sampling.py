import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.decoding.filters import SamplingSettings
from elman.decoding.sampling import draw, invert_cdf, numbers_drawn, widen
from elman.errors import RunError

LOGITS = np.array([3.0, 1.0, 2.0])


def draws(sampling: SamplingSettings, count: int, logits: np.ndarray = LOGITS) -> list[int]:
    return [draw(logits, sampling, position) for position in range(count)]


@pytest.mark.parametrize("temperature", [0, 1e-6, 1e-40])
def test_a_temperature_at_or_near_zero_is_greedy_for_every_seed(temperature: float) -> None:
    for seed in range(50):
        assert draws(SamplingSettings(temperature=temperature, seed=seed), 5) == [0] * 5


def test_greedy_takes_the_lowest_id_among_equals_and_no_random_number() -> None:
    greedy = SamplingSettings(temperature=0)
    for position in range(20):
        assert draw(np.array([2.0, 2.0, 1.0]), greedy, position) == 0
        assert draw(np.array([1.0, 2.0, 2.0]), greedy, position) == 1
    assert numbers_drawn(greedy) == 0
    assert numbers_drawn(SamplingSettings(temperature=1e-40)) == 1


def test_frequencies_at_temperature_one_are_the_probabilities() -> None:
    counts = np.bincount(draws(SamplingSettings(seed=7), 10_000), minlength=3) / 10_000
    np.testing.assert_allclose(counts, [0.665, 0.090, 0.245], atol=0.02)


def test_a_top_k_of_one_is_greedy() -> None:
    assert draws(SamplingSettings(top_k=1), 100) == [0] * 100


@pytest.mark.parametrize("k", [0, 3, 50])
def test_a_top_k_that_filters_nothing_draws_the_same_ids(k: int) -> None:
    assert draws(SamplingSettings(top_k=k, seed=4), 200) == draws(SamplingSettings(seed=4), 200)


def test_forbidden_ids_are_never_drawn() -> None:
    for temperature in (0, 1.0):
        sampling = SamplingSettings(temperature=temperature, seed=3)
        drawn = {draw(LOGITS, sampling, n, forbidden_ids=(0,)) for n in range(200)}
        assert drawn == ({2} if temperature == 0 else {1, 2})


def test_a_draw_depends_on_its_position_alone() -> None:
    sampling = SamplingSettings(seed=5, top_k=9, top_p=0.9)
    expected = draws(sampling, 30)
    assert len(set(expected)) > 1
    assert [draw(LOGITS, sampling, n) for n in reversed(range(30))] == expected[::-1]
    others = [draw(LOGITS, SamplingSettings(seed=6, top_k=9, top_p=0.9), n) for n in range(30)]
    assert others != expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_logits_of_every_type_are_widened_exactly(dtype: torch.dtype) -> None:
    logits = torch.tensor([0.1, -3.7, 2.2]).to(dtype)
    np.testing.assert_array_equal(widen(logits), logits.double().numpy())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(RunError, match="not finite numbers"):
        draw(np.array([0.0, bad, 1.0]), SamplingSettings(), 0)
    with pytest.raises(RunError, match="not finite numbers"):
        draw(np.full(3, -np.inf), SamplingSettings(temperature=0), 0)


@settings(derandomize=True, max_examples=300)
@given(
    st.lists(st.just(-np.inf) | st.floats(-800.0, 800.0), min_size=1, max_size=30),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_the_inverse_cdf_gives_the_id_whose_interval_holds_the_uniform(
    values: list[float], uniform: float
) -> None:
    logits = np.array(values)
    logits[0] = max(logits[0], 0.0)
    weights = np.exp(logits - logits.max())
    chosen = invert_cdf(logits, uniform)
    assert weights[chosen] > 0
    below, total = weights[:chosen].sum(), weights.sum()
    slack = 1e-12 * total
    assert below - slack <= uniform * total <= below + weights[chosen] + slack


def test_the_ends_of_the_unit_interval_fall_on_ids_that_can_be_drawn() -> None:
    logits = np.array([-np.inf, 0.0, -np.inf, 0.0, -np.inf])
    assert invert_cdf(logits, 0.0) == 1
    assert invert_cdf(logits, np.nextafter(1.0, 0.0)) == 3
    assert invert_cdf(logits, 1.0) == 3
