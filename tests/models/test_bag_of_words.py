"""The bag of words against scikit-learn, dictionaries and its own promises."""

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import normalize

from elman.errors import DataError, SettingError, ShapeError
from elman.models.bag_of_words import BagKind, BagOfWords, Counting

KINDS: tuple[BagKind, ...] = ("naive_bayes", "logistic")


def texts_and_labels(seed: int, rows: int = 120) -> tuple[list[str], list[str]]:
    print("seed", seed)
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(rows):
        label = draw.choice(["pos", "neg", "other"])
        words = draw.choices("abcdefgh", k=draw.randint(1, 9)) + draw.choices(label, k=2)
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


def counter_of(longest: int, counting: Counting) -> CountVectorizer:
    return CountVectorizer(
        token_pattern=r"\S+", ngram_range=(1, longest), binary=counting == "present"
    )


@pytest.mark.parametrize("counting", ["present", "count"])
@pytest.mark.parametrize("longest", [1, 2, 3])
def test_naive_bayes_is_that_of_scikit_learn(longest: int, counting: Counting) -> None:
    texts, labels = texts_and_labels(longest)
    new, _ = texts_and_labels(longest + 10)
    vectorizer = counter_of(longest, counting)
    theirs = MultinomialNB(alpha=0.7).fit(vectorizer.fit_transform(texts), labels)
    ours = BagOfWords.fit(
        [text.split() for text in texts],
        labels,
        kind="naive_bayes",
        longest=longest,
        counting=counting,
        smoothing=0.7,
    )
    assert ours.num_features == len(vectorizer.vocabulary_)
    assert list(ours.classes) == list(theirs.classes_)
    expected = theirs.predict_log_proba(vectorizer.transform(new))
    # Counts are exact; logarithms are summed in another order.
    assert np.allclose(ours.log_probs([text.split() for text in new]), expected, atol=1e-10)


@pytest.mark.parametrize("longest", [1, 2])
def test_the_logistic_model_is_that_of_scikit_learn(longest: int) -> None:
    texts, labels = texts_and_labels(longest)
    new, _ = texts_and_labels(longest + 10)
    vectorizer = counter_of(longest, "present")
    features = normalize(vectorizer.fit_transform(texts).astype(float))
    theirs = LogisticRegression(C=2.0, tol=1e-8, max_iter=2000).fit(features, labels)
    ours = BagOfWords.fit([text.split() for text in texts], labels, longest=longest, l2=0.5)
    expected = theirs.predict_log_proba(normalize(vectorizer.transform(new).astype(float)))
    # Both are minima of the same convex function, ours found in float32 to a gradient of 1e-4.
    found = ours.log_probs([text.split() for text in new])
    assert np.abs(found - expected).max() < 1e-3


def test_n_grams_are_those_of_a_dictionary_and_rare_ones_are_left_out() -> None:
    texts, labels = texts_and_labels(5)
    rows = [text.split() for text in texts]
    in_rows = Counter(
        gram
        for row in rows
        for gram in {
            tuple(row[start : start + order])
            for order in (1, 2, 3)
            for start in range(len(row) - order + 1)
        }
    )
    for least in (1, 2, 5, 1000):
        model = BagOfWords.fit(rows, labels, kind="naive_bayes", longest=3, least_rows=least)
        assert model.num_features == sum(count >= least for count in in_rows.values())
        assert np.isfinite(model.log_probs(rows)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_bag_of_single_tokens_is_blind_to_order(kind: BagKind) -> None:
    rows = [["dog", "bites", "man"], ["man", "bites", "dog"], ["cat", "naps"]]
    blind = BagOfWords.fit(rows, ["usual", "news", "usual"], kind=kind)
    assert blind.is_order_blind
    first, second, _ = blind.log_probs(rows)
    assert np.array_equal(first, second)
    pairs = BagOfWords.fit(rows, ["usual", "news", "usual"], kind=kind, longest=2, l2=0.01)
    assert not pairs.is_order_blind
    assert pairs.predict(rows) == ["usual", "news", "usual"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("longest", [1, 3])
def test_batches_and_neighbours_change_nothing(kind: BagKind, longest: int) -> None:
    texts, labels = texts_and_labels(6)
    model = BagOfWords.fit(texts, labels, kind=kind, longest=longest)
    together = model.log_probs(texts)
    alone = np.concatenate([model.log_probs([text]) for text in texts])
    assert np.array_equal(together, alone)
    assert np.allclose(np.exp(together).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_another_run_change_nothing(kind: BagKind) -> None:
    texts, labels = texts_and_labels(7)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            model = BagOfWords.fit(texts, labels, kind=kind, longest=2)
            found.append(model.log_probs(texts))
    finally:
        torch.set_num_threads(before)
    # Sums over a whole batch (bias, loss) may be cut by threads.
    assert np.allclose(found[0], found[1], atol=1e-5)
    assert np.array_equal(found[1], found[2])


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_or_unknown_text_gets_what_the_classes_have_without_one(kind: BagKind) -> None:
    rows = [["a"], ["a", "b"], ["c"], []]
    model = BagOfWords.fit(rows, ["x", "x", "y", "x"], kind=kind, longest=2)
    empty, unknown, half = model.log_probs([[], ["?", "!"], ["a", "?"]])
    assert np.array_equal(empty, unknown)
    assert np.array_equal(half, model.log_probs([["a"]])[0])
    if kind == "naive_bayes":
        assert np.allclose(np.exp(empty), [3 / 4, 1 / 4])
    assert model.log_probs([]).shape == (0, 2)
    assert model.predict([]) == []


@given(
    st.lists(st.tuples(st.text("ab", max_size=5), st.sampled_from("xy")), min_size=1, max_size=8)
)
def test_any_small_data_can_be_learnt(rows: list[tuple[str, str]]) -> None:
    for kind in KINDS:
        model = BagOfWords.fit(
            [text for text, _ in rows], [label for _, label in rows], kind=kind, longest=3
        )
        log_probs = model.log_probs(["", "abab", "zz"])
        assert np.allclose(np.exp(log_probs).sum(axis=1), 1.0)


def test_settings_out_of_range_are_told() -> None:
    for name in ("longest", "least_rows"):
        with pytest.raises(SettingError, match=f"{name} must be an int >= 1; got 0"):
            BagOfWords.fit(["a"], ["x"], **{name: 0})  # type: ignore[arg-type]
    for name in ("smoothing", "l2"):
        with pytest.raises(SettingError, match=f"{name} must be a number above 0; got 0"):
            BagOfWords.fit(["a"], ["x"], **{name: 0.0})  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="1 and 2 rows"):
        BagOfWords.fit(["a"], ["x", "y"])
    with pytest.raises(DataError, match="no text to learn from"):
        BagOfWords.fit([], [])


def test_intents_are_told_apart_by_their_words(shared_data: Path) -> None:
    path = shared_data / "clinc150" / "data_full.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = {part: [text.split() for text, _ in data[part]] for part in ("train", "test")}
    labels = {part: [label for _, label in data[part]] for part in ("train", "test")}
    model = BagOfWords.fit(rows["train"], labels["train"], kind="naive_bayes", smoothing=0.1)
    right = sum(map(str.__eq__, model.predict(rows["test"]), labels["test"]))
    assert len(model.classes) == 150
    # Measured: 0.873.
    assert right / len(rows["test"]) > 0.86
