"""Tags word by word: values by hand, with what must not be counted counted apart."""

import json

import pytest

from elman.errors import DataError, ShapeError
from elman.evaluation.tags import tag_rows, tag_scores

GOLD = [["D", "N", "V"], ["N"], [], ["D", "N"]]
PREDICTED = [["D", "N", "N"], ["N"], [], ["N", "N"]]


def test_tokens_and_sentences_by_hand() -> None:
    scores = tag_scores(GOLD, PREDICTED)
    assert (scores.tokens.num_rows, scores.tokens.num_right) == (6, 4)
    assert scores.token_accuracy == pytest.approx(4 / 6)
    assert (scores.num_sentences, scores.num_sentences_right, scores.num_empty) == (3, 1, 1)
    assert scores.sentence_accuracy == pytest.approx(1 / 3)
    table = {each.label: (each.num_gold, each.num_predicted) for each in scores.tokens.classes}
    assert table == {"D": (2, 1), "N": (3, 5), "V": (1, 0)}
    assert (scores.num_unseen, scores.unseen_accuracy) == (None, None)


def test_unseen_words_are_counted_apart() -> None:
    words = [["the", "cat", "ran"], ["dogs"], [], ["The", "cat"]]
    scores = tag_scores(GOLD, PREDICTED, words=words, train_words={"the", "cat"})
    assert (scores.num_unseen, scores.num_unseen_right) == (3, 1)  # ran, dogs, The
    assert scores.unseen_accuracy == pytest.approx(1 / 3)
    every = tag_scores(
        GOLD, PREDICTED, words=words, train_words=["the", "cat", "ran", "dogs", "The"]
    )
    assert (every.num_unseen, every.unseen_accuracy) == (0, None)


def test_a_tag_that_only_the_test_file_has_is_wrong_and_listed() -> None:
    scores = tag_scores([["B-X", "B-NEW"]], [["B-X", "O"]], tags=["O", "B-X"])
    assert scores.token_accuracy == 0.5
    assert scores.tokens.unknown_labels == (("B-NEW", 1),)


def test_the_report_has_no_interval_that_takes_tokens_for_independent() -> None:
    report = json.loads(json.dumps(tag_scores(GOLD, PREDICTED).to_json(), allow_nan=False))
    assert "accuracy_interval" not in report["tokens"]
    assert report["sentence_accuracy_interval"]["method"] == "Wilson score"
    assert report["num_empty_sentences"] == 1


def test_no_sentences_give_undefined_figures() -> None:
    scores = tag_scores([[]], [[]])
    assert (scores.token_accuracy, scores.sentence_accuracy, scores.num_empty) == (None, None, 1)


def test_rows_of_a_bootstrap_are_right_and_all_tokens() -> None:
    assert tag_rows(GOLD, PREDICTED) == [(2, 3), (1, 1), (0, 0), (1, 2)]


def test_mistakes_of_the_caller_are_told() -> None:
    with pytest.raises(ShapeError, match="one entry for each word; got 2 and 1 in sentence 2"):
        tag_scores([["A"], ["A", "B"]], [["A"], ["A"]])
    with pytest.raises(ShapeError, match="got 1 and 2 rows"):
        tag_scores([["A"]], [["A"], ["B"]])
    with pytest.raises(ShapeError, match="one without the other"):
        tag_scores([["A"]], [["A"]], words=[["a"]])
    with pytest.raises(ShapeError, match="tags and words"):
        tag_scores([["A"]], [["A"]], words=[["a", "b"]], train_words=set())
    with pytest.raises(DataError, match="a predicted label is not among"):
        tag_scores([["A"]], [["B"]], tags=["A"])
