"""Every smoothing method against its equation read with dictionaries, and against closed forms."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.errors import SettingError
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.discounts import absolute_discount, modified_discounts
from elman.models.ngram.pruning import prune
from elman.models.ngram.smoothing import Smoothing, SmoothingOptions, estimate
from elman.models.ngram.tables import NgramTables

SIZE = 4
METHODS: tuple[Smoothing, ...] = (
    "kneser_ney",
    "kneser_ney_backoff",
    "absolute",
    "witten_bell",
    "add_k",
    "none",
)
sequences_of_ids = st.lists(
    st.lists(st.integers(0, SIZE - 1), max_size=25), min_size=1, max_size=4
).filter(lambda sequences: any(len(one) > 1 for one in sequences))
histories = st.lists(st.integers(0, SIZE - 1), max_size=6)


def tables_of(
    sequences: Sequence[Sequence[int]], order: int, size: int, options: SmoothingOptions
) -> NgramTables:
    where = joined([np.array(one, dtype=np.int64) for one in sequences], size)
    return estimate(count_grams(where, order=order, vocabulary_size=size), size, options).tables


def distribution(tables: NgramTables, history: Sequence[int]) -> np.ndarray:
    before_BK = np.zeros((1, tables.order - 1), np.int64)
    if not history:
        return np.exp(tables.log_distribution(before_BK[0]))
    context_K = tables.contexts(np.array([history]), before_BK)[0, -1]
    return np.exp(tables.log_distribution(context_K))


@pytest.mark.parametrize("method", METHODS)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(sequences_of_ids, histories, st.integers(1, 4), st.sampled_from([(), (2,), (1, 1, 2)]))
def test_after_any_history_probabilities_sum_to_one(
    method: Smoothing,
    sequences: list[list[int]],
    history: list[int],
    order: int,
    least: tuple[int, ...],
) -> None:
    tables = tables_of(sequences, order, SIZE, SmoothingOptions(method, 0.5, least))
    probs_V = distribution(tables, history)
    assert probs_V.sum() == pytest.approx(1.0, rel=1e-12)
    assert probs_V.min() >= 0.0
    if method != "none":
        assert probs_V.min() > 0.0


@pytest.mark.parametrize("method", METHODS)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(sequences_of_ids, histories.filter(bool), st.integers(1, 4))
def test_one_target_a_whole_text_and_all_ids_have_the_same_probability(
    method: Smoothing, sequences: list[list[int]], history: list[int], order: int
) -> None:
    tables = tables_of(sequences, order, SIZE, SmoothingOptions(method))
    probs_V = distribution(tables, history)
    before_BK = np.zeros((SIZE, order - 1), np.int64)
    contexts_BK = tables.contexts(np.array([history] * SIZE), before_BK)[:, -1]
    alone_V = np.exp(tables.target_log_probs(contexts_BK, np.arange(SIZE)))
    np.testing.assert_allclose(alone_V, probs_V, rtol=1e-12)
    whole = joined([np.array([*history, target]) for target in range(SIZE)], SIZE)
    last_V = np.exp(tables.log_probs(whole)).reshape(SIZE, -1)[:, -1]
    np.testing.assert_allclose(last_V, probs_V, rtol=1e-12)


class SlowTables:
    """Raw counts in dictionaries, and the interpolated methods on them, one id at a time."""

    def __init__(self, sequences: Sequence[Sequence[int]], order: int, method: str) -> None:
        self.order, self.method = order, method
        self.counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for one in sequences:
            for t in range(1, len(one)):
                for k in range(min(order - 1, t) + 1):
                    self.counts[tuple(one[t - k : t])][one[t]] += 1

    def discount(self, length: int) -> float:
        seen = Counter(
            count
            for history, followers in self.counts.items()
            if len(history) == length
            for count in followers.values()
        )
        return seen[1] / (seen[1] + 2 * seen[2]) if seen[1] and seen[2] else 0.5

    def prob(self, target: int, history: tuple[int, ...]) -> float:
        history = history[max(len(history) - self.order + 1, 0) :]
        followers = self.counts.get(history)
        if self.method == "add_k":
            total = sum(followers.values()) if followers else 0
            return ((followers or Counter())[target] + 1.0) / (total + SIZE)
        shorter = self.prob(target, history[1:]) if history else 1 / SIZE
        if not followers:
            return shorter
        total, types = sum(followers.values()), len(followers)
        if self.method == "none":
            return followers[target] / total
        if self.method == "witten_bell":
            return (followers[target] + types * shorter) / (total + types)
        d = self.discount(len(history))
        return (max(followers[target] - d, 0.0) + d * types * shorter) / total


@pytest.mark.parametrize("method", ["absolute", "witten_bell", "add_k", "none"])
@settings(derandomize=True, max_examples=80, deadline=None)
@given(sequences_of_ids, histories, st.integers(1, 4))
def test_a_method_is_its_equation_written_with_dictionaries(
    method: Smoothing, sequences: list[list[int]], history: list[int], order: int
) -> None:
    tables = tables_of(sequences, order, SIZE, SmoothingOptions(method))
    slow = SlowTables(sequences, order, method)
    want_V = [slow.prob(target, tuple(history)) for target in range(SIZE)]
    np.testing.assert_allclose(distribution(tables, history), want_V, rtol=1e-12, atol=1e-15)


def test_add_one_of_a_line_is_worked_out_by_hand() -> None:  # case G02
    # </s>, <unk>, a, b are 0 1 2 3, and the line is: </s> a b a </s>.
    options = SmoothingOptions("add_k", 1.0)
    tables = tables_of([[0, 2, 3, 2, 0]], 2, 4, options)
    np.testing.assert_allclose(distribution(tables, [2]), [1 / 3, 1 / 6, 1 / 6, 1 / 3], rtol=1e-12)
    np.testing.assert_allclose(distribution(tables, [1]), [0.25] * 4, rtol=1e-12)


def test_maximum_likelihood_gives_zero_without_an_exception() -> None:  # case G02
    tables = tables_of([[0, 2, 3, 2, 0]], 2, 4, SmoothingOptions("none"))
    assert distribution(tables, [2]).tolist() == pytest.approx([0.5, 0.0, 0.0, 0.5])
    log_probs_N = tables.log_probs(joined([np.array([0, 2, 1, 0])], 4))
    assert log_probs_N[0] == 0.0
    assert log_probs_N[1] == -math.inf


@pytest.mark.parametrize(
    ("lines", "why", "discount"),
    [
        ([[0, 1, 2, 0]] * 5, "seen once or 2 or 3 or 4 times", 0.5),
        ([[0, p, 0] for p in (1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5)], "seen 4 times", 1 / 3),
    ],
)
def test_discounts_that_cannot_be_estimated_are_told_and_replaced(  # case G03
    lines: list[list[int]], why: str, discount: float
) -> None:
    size = 6
    where = joined([np.array(line) for line in lines], size)
    found = estimate(count_grams(where, order=2, vocabulary_size=size), size)
    assert any(why in notice for notice in found.notices), found.notices
    assert found.discounts[1].values == pytest.approx((discount,) * 3)
    for history in ([], *([one] for one in range(size))):
        assert distribution(found.tables, history).sum() == pytest.approx(1.0, rel=1e-12)


def test_a_discount_outside_its_range_is_no_discount() -> None:  # case G03
    counts = np.array([1] * 2 + [2] * 2 + [3] * 6 + [4])
    found = modified_discounts(counts)
    assert found.values == (1 / 3,) * 3
    assert found.fault == "D(2) would be -1"


def test_back_off_gives_what_followed_its_share_and_the_rest_the_shorter_history() -> None:
    tables = tables_of([[0, 1, 2, 1, 3, 1, 2, 0]], 2, 4, SmoothingOptions("kneser_ney_backoff"))
    shorter_V, probs_V = distribution(tables, []), distribution(tables, [1])
    unseen = [0, 1]
    ratio_N = probs_V[unseen] / shorter_V[unseen]
    assert ratio_N[0] == pytest.approx(ratio_N[1], rel=1e-12)


@pytest.mark.parametrize(("options", "what"), [((2, 1), "not fall"), ((0,), "at least 1")])
def test_least_counts_that_mean_nothing_are_refused(options: tuple[int, ...], what: str) -> None:
    with pytest.raises(SettingError, match="at least 1 and not fall"):
        tables_of([[0, 1, 2]], 2, 3, SmoothingOptions(min_counts=options))


def random_text(seed: int, size: int, length: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    ranks = 1.0 / np.arange(1, size + 1)
    return draw.choice(size, length, p=ranks / ranks.sum())


def test_least_counts_leave_out_what_is_rare_and_nothing_else() -> None:
    text = random_text(5, 12, 3000)
    where = joined([text], 12)
    grams = count_grams(where, order=3, vocabulary_size=12)
    tables = estimate(grams, 12, SmoothingOptions(min_counts=(1, 1, 3))).tables
    assert tables.num_grams[1] == len(grams[1].keys_N)
    assert tables.num_grams[2] == int((grams[2].counts_N >= 3).sum())


@pytest.mark.parametrize("method", ["kneser_ney", "kneser_ney_backoff", "absolute", "witten_bell"])
def test_pruning_keeps_distributions_and_costs_about_what_it_says(method: Smoothing) -> None:
    seed = 7
    text = random_text(seed, 15, 6000)
    tables = tables_of([text.tolist()], 3, 15, SmoothingOptions(method))
    smaller = prune(tables, 1e-4)
    assert sum(smaller.num_grams) < 0.8 * sum(tables.num_grams)
    for history in ([], [0], [3, 1], [14, 14], [2, 2], [9, 0]):
        assert distribution(smaller, history).sum() == pytest.approx(1.0, rel=1e-9), f"seed {seed}"
    held_out = joined([random_text(seed + 1, 15, 2000)], 15)
    before, after = (-each.log_probs(held_out).mean() for each in (tables, smaller))
    # Kneser–Ney's shorter histories are no distributions of their own, and stand in badly.
    assert after < before + (0.02 if method in ("absolute", "witten_bell") else 0.2)
    assert prune(tables, 0.0).num_grams == tables.num_grams


def test_pruning_by_everything_leaves_single_ids() -> None:
    text = random_text(3, 8, 500)
    tables = tables_of([text.tolist()], 3, 8, SmoothingOptions())
    smallest = prune(tables, 1e9)
    assert smallest.num_grams == (8, 0, 0)
    np.testing.assert_allclose(distribution(smallest, [1, 2]), distribution(tables, []), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_outcome_has_no_probability_and_takes_none(method: Smoothing) -> None:
    text = np.array([1, 2, 3, 2, 1, 2, 2, 1])
    grams = count_grams(joined([text], 5), order=3, vocabulary_size=5)
    tables = estimate(grams, 5, SmoothingOptions(method), never=(0,)).tables
    smaller = count_grams(joined([text - 1], 4), order=3, vocabulary_size=4)
    alone = estimate(smaller, 4, SmoothingOptions(method)).tables
    for history in ([], [1], [4], [2, 2], [4, 2], [2, 4]):
        probs_V = distribution(tables, history)
        assert probs_V[0] == 0.0
        want_V = distribution(alone, [one - 1 for one in history])
        np.testing.assert_allclose(probs_V[1:], want_V, rtol=1e-12)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ([2, 3, 4], "no gram is seen once"),
        ([1, 2, 4], "no gram is seen 3 times"),
        ([2, 4], "no gram is seen once or 3 times"),
        ([1, 4], "no gram is seen 2 or 3 times"),
    ],
)
def test_counts_that_no_gram_has_are_told_as_one_says_them(counts: list[int], told: str) -> None:
    assert modified_discounts(np.array(counts)).fault == told


def test_one_discount_says_which_count_it_would_need() -> None:
    assert absolute_discount(np.array([2, 3])).fault == "no gram is seen once"
    assert absolute_discount(np.array([1, 3])).fault == "no gram is seen 2 times"
