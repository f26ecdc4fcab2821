"""The count model against a slow reading of its own equations, closed forms and real text."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.errors import DataError, SettingError
from elman.models.ngram.counting import Ids, checked_ids, count_grams, joined
from elman.models.ngram.smoothing import estimate

SIZE = 4
ids_lists = st.lists(st.lists(st.integers(0, SIZE - 1), max_size=30), min_size=1, max_size=5)


def arrays(sequences: Iterable[Sequence[int]]) -> list[npt.NDArray[np.int64]]:
    return [np.array(sequence, dtype=np.int64) for sequence in sequences]


class CountModel:
    """An estimated model as a person would ask it: sequences, and what follows one of them."""

    def __init__(self, sequences: Iterable[Ids], order: int, size: int) -> None:
        grams = count_grams(joined(sequences, size), order=order, vocabulary_size=size)
        found = estimate(grams, size)
        self.tables, self.size = found.tables, size
        self.discounts = [each.values for each in found.discounts]

    @classmethod
    def fit(cls, sequences: Iterable[Ids], *, order: int, vocabulary_size: int) -> "CountModel":
        return cls(sequences, order, vocabulary_size)

    @property
    def num_grams(self) -> tuple[int, ...]:
        return self.tables.num_grams

    def log_probs(self, sequences: Iterable[Ids]) -> npt.NDArray[np.float64]:
        return self.tables.log_probs(joined(sequences, self.size))

    def distribution(self, history: Ids) -> npt.NDArray[np.float64]:
        ids_BT = checked_ids(history, self.size)[None]
        before = np.zeros((1, self.tables.order - 1), np.int64)
        context_K = self.tables.contexts(ids_BT, before)[0, -1] if len(history) else before[0]
        return np.exp(self.tables.log_distribution(context_K))


class DictionaryModel:
    """The equations of the module docstring, one dictionary a history, one id at a time."""

    def __init__(self, sequences: Iterable[Sequence[int]], order: int, size: int) -> None:
        self.order, self.size = order, size
        self.counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        preceding: dict[tuple[tuple[int, ...], int], set[int]] = defaultdict(set)
        beginnings: Counter[tuple[tuple[int, ...], int]] = Counter()
        for sequence in sequences:
            for t in range(1, len(sequence)):
                for k in range(min(order - 1, t) + 1):
                    history, target = tuple(sequence[t - k : t]), sequence[t]
                    if k == order - 1:
                        self.counts[history][target] += 1
                    elif k == t:
                        beginnings[history, target] += 1
                    else:
                        preceding[history, target].add(sequence[t - k - 1])
        for history, target in [*preceding, *beginnings]:
            self.counts[history][target] = (
                len(preceding.get((history, target), ())) + beginnings[history, target]
            )
        self.discounts = [self.estimate(k) for k in range(order)]

    def estimate(self, length: int) -> list[float]:
        seen = Counter(
            count
            for history, followers in self.counts.items()
            if len(history) == length
            for count in followers.values()
        )
        n1, n2, n3, n4 = (seen[r] for r in (1, 2, 3, 4))
        y = n1 / (n1 + 2 * n2) if n1 * n2 else 0.5
        if not n1 * n2 * n3 * n4:
            return [y, y, y]
        raw = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        within = all(0 < d <= r for d, r in zip(raw, (1, 2, 3), strict=True))
        return raw if within else [y, y, y]

    def prob(self, target: int, history: tuple[int, ...]) -> float:
        history = history[max(len(history) - self.order + 1, 0) :]
        shorter = self.prob(target, history[1:]) if history else 1 / self.size
        followers = self.counts.get(history)
        if followers is None:
            return shorter
        discounts = self.discounts[len(history)]
        total = sum(followers.values())
        handed = sum(discounts[min(count, 3) - 1] for count in followers.values())
        count = followers[target]
        kept = count - discounts[min(count, 3) - 1] if count else 0.0
        return kept / total + handed / total * shorter

    def log_probs(self, sequences: Iterable[Sequence[int]]) -> npt.NDArray[np.float64]:
        return np.log(
            [
                self.prob(sequence[t], tuple(sequence[:t]))
                for sequence in sequences
                for t in range(1, len(sequence))
            ]
        )


def has_target(sequences: Sequence[Sequence[int]]) -> bool:
    return any(len(sequence) > 1 for sequence in sequences)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(ids_lists.filter(has_target), ids_lists, st.integers(1, 6))
def test_the_count_model_is_its_equations_written_with_dictionaries(
    learnt: list[list[int]], scored: list[list[int]], order: int
) -> None:
    fast = CountModel.fit(arrays(learnt), order=order, vocabulary_size=SIZE)
    slow = DictionaryModel(learnt, order, SIZE)
    np.testing.assert_allclose(np.array(fast.discounts), slow.discounts, rtol=1e-12)
    got = fast.log_probs(arrays(scored))
    np.testing.assert_allclose(got, slow.log_probs(scored), rtol=1e-12, atol=1e-12)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    ids_lists.filter(has_target), st.lists(st.integers(0, SIZE - 1), max_size=8), st.integers(1, 6)
)
def test_probabilities_after_any_history_sum_to_one_and_none_is_zero(
    learnt: list[list[int]], history: list[int], order: int
) -> None:
    model = CountModel.fit(arrays(learnt), order=order, vocabulary_size=SIZE)
    probs_V = model.distribution(np.array(history, dtype=np.int64))
    assert probs_V.sum() == pytest.approx(1.0, rel=1e-12)
    assert probs_V.min() > 0
    if history:
        each = [[*history, target] for target in range(SIZE)]
        last = [model.log_probs(arrays([sequence]))[-1] for sequence in each]
        np.testing.assert_allclose(np.exp(last), probs_V, rtol=1e-12)


def test_a_larger_random_text_gives_the_same_numbers_as_the_dictionaries() -> None:
    seed = 7
    draw = random.Random(seed)
    weights = [1 / (i + 1) for i in range(40)]
    learnt, scored = ([draw.choices(range(40), weights, k=n)] for n in (6000, 500))
    for order in (1, 2, 4):
        fast = CountModel.fit(arrays(learnt), order=order, vocabulary_size=60)
        slow = DictionaryModel(learnt, order, 60)
        got = fast.log_probs(arrays(scored))
        np.testing.assert_allclose(
            got, slow.log_probs(scored), rtol=1e-12, err_msg=f"seed {seed}, order {order}"
        )


def test_a_unigram_of_five_tokens_is_worked_out_by_hand() -> None:
    # Targets 1 1 1 0: counts 3 and 1, no count of two, so each discount is 0.5.
    model = CountModel.fit(arrays([[2, 1, 1, 1, 0]]), order=1, vocabulary_size=4)
    expected = [0.5 / 4 + 0.25 / 4, 2.5 / 4 + 0.25 / 4, 0.25 / 4, 0.25 / 4]
    np.testing.assert_allclose(model.distribution(np.array([], dtype=np.int64)), expected)
    np.testing.assert_allclose(model.log_probs(arrays([[3, 0, 1]])), np.log(expected[:2]))


def test_only_the_last_ids_of_a_history_matter() -> None:
    # P(sat | the cat slept) = P(sat | cat slept) in a model of order 3.
    draw = random.Random(3)
    learnt = arrays([draw.choices(range(6), k=400)])
    model = CountModel.fit(learnt, order=3, vocabulary_size=6)
    expected = model.distribution(np.array([1, 2]))
    for first in range(6):
        np.testing.assert_array_equal(model.distribution(np.array([first, 1, 2])), expected)
    assert not np.allclose(model.distribution(np.array([3, 2])), expected)


def test_sequences_do_not_see_each_other() -> None:
    learnt = arrays([[0, 1, 2, 0], [0, 2, 2, 0], [0, 0]])
    model = CountModel.fit(learnt, order=3, vocabulary_size=3)
    apart = np.concatenate([model.log_probs([sequence]) for sequence in learnt])
    np.testing.assert_array_equal(model.log_probs(learnt), apart)
    other_order = CountModel.fit(learnt[::-1], order=3, vocabulary_size=3)
    np.testing.assert_array_equal(other_order.log_probs(learnt), apart)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_a_stream_scored_in_parts_with_its_context_is_scored_exactly(order: int) -> None:
    draw = random.Random(11)
    stream = np.array(draw.choices(range(5), k=700))
    model = CountModel.fit([stream], order=order, vocabulary_size=5)
    context = max(order - 1, 1)
    parts = [model.log_probs([stream[:100]])]
    for start in range(100, 700, 150):
        joined = stream[start - context : start + 150]
        parts.append(model.log_probs([joined])[context - 1 :])
    np.testing.assert_array_equal(np.concatenate(parts), model.log_probs([stream]))


def test_an_order_longer_than_every_sequence_adds_nothing() -> None:
    learnt = arrays([[0, 1, 0], [0, 2, 0]])
    model = CountModel.fit(learnt, order=9, vocabulary_size=3)
    assert model.num_grams[3:] == (0,) * 6
    assert np.isfinite(model.log_probs(learnt)).all()


def test_a_text_of_one_repeated_token_leaves_mass_for_the_others() -> None:
    model = CountModel.fit([np.zeros(1000, dtype=np.uint8)], order=4, vocabulary_size=3)
    probs_V = model.distribution(np.zeros(3, dtype=np.int64))
    assert 0 < probs_V[1] == probs_V[2] < 1e-3


def test_a_vocabulary_of_fifty_thousand_needs_no_table_of_all_pairs() -> None:
    draw = np.random.default_rng(5)
    stream = draw.integers(0, 50_000, 20_000).astype(np.uint16)
    model = CountModel.fit([stream], order=5, vocabulary_size=50_000)
    assert model.num_grams[4] == 20_000 - 4
    assert model.distribution(stream[:4]).sum() == pytest.approx(1.0, rel=1e-12)
    assert model.log_probs([stream]).mean() > np.log(0.1)


@pytest.mark.parametrize("sequences", [[], [[]], [[1]], [[1], [2]]])
def test_nothing_to_predict_is_refused(sequences: list[list[int]]) -> None:
    with pytest.raises(DataError, match="nothing to count"):
        CountModel.fit(arrays(sequences), order=2, vocabulary_size=3)


def test_ids_outside_the_vocabulary_and_orders_below_one_are_refused() -> None:
    with pytest.raises(DataError, match="got 3; allowed: below 3"):
        CountModel.fit(arrays([[0, 3]]), order=2, vocabulary_size=3)
    with pytest.raises(DataError, match="got -1"):
        CountModel.fit(arrays([[0, -1]]), order=2, vocabulary_size=3)
    with pytest.raises(SettingError, match="order of a count model must be an int >= 1; got 0"):
        CountModel.fit(arrays([[0, 1]]), order=0, vocabulary_size=3)
    model = CountModel.fit(arrays([[0, 1]]), order=2, vocabulary_size=3)
    with pytest.raises(DataError, match="outside the vocabulary"):
        model.log_probs(arrays([[0, 7]]))


def test_the_last_tenth_of_shakespeare_costs_the_recorded_bits(shared_data: Path) -> None:
    text = (shared_data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    symbols = sorted(set(text))
    number_of = {symbol: number for number, symbol in enumerate(symbols)}
    ids = np.array([number_of[character] for character in text])
    cut = len(ids) * 9 // 10
    bits = {}
    for order in (1, 5):
        model = CountModel.fit([ids[:cut]], order=order, vocabulary_size=len(symbols))
        log_probs_N = model.log_probs([ids[cut:]])
        assert len(log_probs_N) == 111_539
        bits[order] = -log_probs_N.mean() / np.log(2)
    assert bits[1] == pytest.approx(4.8291, abs=5e-5)
    # Witten–Bell on the same parts: 2.4076; the same discounts on plain counts: 2.3961.
    assert bits[5] == pytest.approx(2.2522, abs=5e-5)
