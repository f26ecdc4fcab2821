"""Pairs of agreement: what they hold, and that a model blind to the subject is at chance."""

from collections import defaultdict

import numpy as np
import pytest

from elman.data.agreement import DISTANCES, MOST_NOUNS, NOUNS, VERBS, agreement_pairs
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import estimate

NUMBERS = {verb: number for pair in VERBS for number, verb in enumerate(pair)}


def verb_of(sentence: str) -> str:
    (verb,) = [word for word in sentence.split() if word in NUMBERS]
    return verb


def test_the_good_sentence_agrees_and_the_bad_one_differs_in_the_verb_alone() -> None:
    singular = {one for one, _ in NOUNS}
    for pair in agreement_pairs():
        good, bad = pair.good.split(), pair.bad.split()
        changed = [(one, two) for one, two in zip(good, bad, strict=True) if one != two]
        assert len(changed) == 1
        assert NUMBERS[changed[0][0]] == 1 - NUMBERS[changed[0][1]]
        assert NUMBERS[changed[0][0]] == (0 if good[1] in singular else 1)


def test_every_frame_comes_with_both_numbers_of_its_subject() -> None:
    frames: dict[tuple[str, ...], set[str]] = defaultdict(set)
    stems = {word: pair[0] for pair in NOUNS for word in pair}
    for pair in agreement_pairs():
        words = pair.good.split()
        verb = verb_of(pair.good)
        kind = next(place for place, both in enumerate(VERBS) if verb in both)
        frame = (stems[words[1]], *words[2 : words.index(verb)], str(kind))
        frames[frame].add(words[1])
    assert all(len(subjects) == 2 for subjects in frames.values())


def test_distances_and_attractors_are_those_that_are_named() -> None:
    groups: dict[str, int] = defaultdict(int)
    for pair in agreement_pairs():
        groups[pair.group] += 1
        between = pair.good.split()[2 : pair.good.split().index(verb_of(pair.good))]
        if "between" in pair.group:
            assert len(between) == int(pair.group.split()[0])
        else:
            assert len(between) == 3 * int(pair.group.split()[0])
    assert set(groups.values()) == {len(NOUNS) * 2 * len(VERBS)}
    assert len(groups) == 2 * MOST_NOUNS + len(DISTANCES)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_counts_that_cannot_see_the_subject_are_right_in_exactly_half(order: int) -> None:
    pairs = list(agreement_pairs())
    vocabulary = sorted(
        {word for pair in pairs for word in (*pair.good.split(), *pair.bad.split())}
    )
    ids = {word: number for number, word in enumerate(vocabulary, 1)}
    draw = np.random.default_rng(1)
    learnt = [np.array([0, *(ids[word] for word in pair.good.split())]) for pair in pairs]
    learnt += [draw.integers(1, len(ids) + 1, 2000)]
    grams = count_grams(joined(learnt, len(ids) + 1), order=order, vocabulary_size=len(ids) + 1)
    tables = estimate(grams, len(ids) + 1).tables
    right: dict[str, list[bool]] = defaultdict(list)
    for pair in pairs:
        costs = [
            -tables.log_probs(
                joined([np.array([0, *(ids[word] for word in one.split())])], len(ids) + 1)
            ).sum()
            for one in (pair.good, pair.bad)
        ]
        right[pair.group].append(bool(costs[0] < costs[1]))
    for group, found in right.items():
        length = int(group.split()[0]) * (1 if "between" in group else 3)
        if length >= order - 1 and "between" in group:
            assert np.mean(found) == 0.5, group
    for count in range(1, MOST_NOUNS + 1):
        if 3 * count >= order - 1:
            both = right[f"{count} attracting"] + right[f"{count} alike"]
            assert np.mean(both) == 0.5, count
