"""Texts against references: values by hand, slow readings, and sacrebleu and jiwer themselves."""

import json
import math
import random
import sys

import jiwer
import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from elman.errors import DataError, MissingPackageError, ShapeError
from elman.evaluation.translation import (
    bleu_of_sums,
    bleu_rows,
    bleu_score,
    chrf_score,
    error_rate,
    exact_rows,
    translation_scores,
)

HYPOTHESES = ["the cat sat on the mat .", "there is a dog", "", "hello world"]
REFERENCES = [
    ["the cat sat on a mat .", "a cat sat on the mat ."],
    ["there is a dog"],
    ["nothing"],
    ["hello there world", "hello world"],
]


def distance(first: str, second: str) -> int:
    """Levenshtein's distance by its definition."""
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        above, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (one != other))
    return row[-1]


def random_texts(seed: int, rows: int) -> tuple[list[str], list[list[str]]]:
    print("seed", seed)
    draw = random.Random(seed)
    words = ["a", "b", "c", "dé", "e."]

    def text() -> str:
        return " ".join(draw.choices(words, k=draw.randint(0, 9)))

    references = [[text() for _ in range(draw.randint(1, 3))] for _ in range(rows)]
    return [draw.choice([text(), row[0]]) for row in references], references


def test_bleu_by_hand() -> None:
    # Matches 5/6, 3/5, 2/4, 1/3 and equal lengths: (5/6 · 3/5 · 1/2 · 1/3)^(1/4) = 0.537285
    found = bleu_score(["the cat sat on the mat"], [["the cat sat on a mat"]])
    assert found.matches == (5, 3, 2, 1)
    assert found.totals == (6, 5, 4, 3)
    assert found.score == pytest.approx(53.7285, abs=5e-5)
    # One word shorter: e^(1 - 6/5) on 1 · 1 · 1 · 1.
    short = bleu_score(["the cat sat on the"], [["the cat sat on the mat"]])
    assert short.score == pytest.approx(100 * math.exp(-0.2))
    assert (short.hypothesis_length, short.reference_length) == (5, 6)


def test_chrf_by_hand() -> None:
    # Orders 1 and 2 of "ab" in "abc": precision 2/2, 1/1; recall 2/3, 1/2; F2 of their means.
    found = chrf_score(["ab"], [["abc"]])
    precision, recall = 1.0, (2 / 3 + 1 / 2) / 2
    assert found.score == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))


def test_scores_are_those_of_sacrebleu_with_a_signature_that_tells_the_references() -> None:
    by_reference = [
        [row[0] for row in REFERENCES],
        [row[1] if len(row) > 1 else None for row in REFERENCES],
    ]
    ours, metric = bleu_score(HYPOTHESES, REFERENCES), BLEU()
    assert ours.score == metric.corpus_score(HYPOTHESES, by_reference).score
    assert ours.signature == str(metric.get_signature())
    assert ours.signature.startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    for word_order, name in ((0, "chrF2"), (2, "chrF2++")):
        chrf = chrf_score(HYPOTHESES, REFERENCES, word_order=word_order)  # type: ignore[arg-type]
        other = CHRF(word_order=word_order)
        assert chrf.score == other.corpus_score(HYPOTHESES, by_reference).score
        assert (chrf.name, chrf.signature) == (name, str(other.get_signature()))
    assert "tok:char" in bleu_score(HYPOTHESES, REFERENCES, tokens="char").signature


@pytest.mark.parametrize("seed", range(6))
def test_bleu_of_summed_rows_is_that_of_the_corpus(seed: int) -> None:
    hypotheses, references = random_texts(seed, 1 + 5 * seed)
    sums = bleu_rows(hypotheses, references).sum(axis=0, keepdims=True).astype(np.float64)
    score = bleu_score(hypotheses, references).score
    assert bleu_of_sums(sums)[0] == pytest.approx(score, rel=1e-12, abs=1e-12)


def test_bleu_of_sums_smooths_orders_without_a_match_as_sacrebleu_does() -> None:
    pairs = [
        ("a b c d e", "a b x d y"),
        ("a b c", "a b c"),
        ("q", "a"),
        ("", "a"),
        ("a b c d", "z"),
    ]
    for hypothesis, reference in pairs:
        sums = bleu_rows([hypothesis], [[reference]]).astype(np.float64)
        expected = BLEU().corpus_score([hypothesis], [[reference]]).score
        assert bleu_of_sums(sums)[0] == pytest.approx(expected, rel=1e-12)


def test_error_rates_by_hand() -> None:
    found = error_rate(["abd", "x"], [["abc"], ["xyz"]], unit="character")
    assert (found.num_edits, found.num_reference_symbols) == (3, 6)
    assert (found.num_substitutions, found.num_deletions, found.num_insertions) == (1, 2, 0)
    assert found.rate == 0.5
    words = error_rate(["the big  cat"], [["the cat sat"]], unit="word")
    assert (words.num_edits, words.num_reference_symbols) == (2, 3)
    assert words.to_json()["word_error_rate"] == pytest.approx(2 / 3)


def test_word_error_rate_of_sigmorphon_is_the_share_of_words_with_a_wrong_phone() -> None:
    # Three words of 3, 2 and 4 phones; the second lacks one, the third has two wrong.
    references = [["k æ t"], ["a ɪ"], ["p l eɪ n"]]
    found = error_rate(["k æ t", "a", "p r eɪ m"], references, unit="phone")
    assert (found.num_wrong_rows, found.row_edits) == (2, (0, 1, 2))
    assert found.wrong_rows_percent == pytest.approx(100 * 2 / 3)
    report = found.to_json()
    assert report["rows_with_wrong_phone_percent"] == pytest.approx(66.666667)
    assert report["phone_error_rate"] == pytest.approx(3 / 9)


@pytest.mark.parametrize("seed", range(4))
def test_error_rates_are_those_of_the_definition_and_of_jiwer(seed: int) -> None:
    hypotheses, several = random_texts(seed, 20)
    references = [row[0] for row in several]
    found = error_rate(hypotheses, [[text] for text in references], unit="character")
    assert found.row_edits == tuple(map(distance, hypotheses, references))
    assert found.row_lengths == tuple(map(len, references))
    words = error_rate(hypotheses, [[text] for text in references], unit="word")
    theirs = jiwer.process_words(references, hypotheses)
    assert words.num_edits == theirs.substitutions + theirs.deletions + theirs.insertions
    assert words.rate == pytest.approx(theirs.wer)
    best = error_rate(hypotheses, several, unit="character")
    assert best.row_edits == tuple(
        min(distance(text, other) for other in row)
        for text, row in zip(hypotheses, several, strict=True)
    )


def test_of_several_references_the_nearest_counts_and_of_these_the_longest() -> None:
    found = error_rate(["abcd"], [["abc", "abcde", "zzzz"]], unit="character")
    assert (found.row_edits, found.row_lengths) == ((1,), (5,))


def test_empty_texts_have_the_values_that_the_module_names() -> None:
    for hypothesis, reference, edits, rate in (
        ("", "ab", (0, 2, 0), 1.0),
        ("ab", "", (0, 0, 2), None),
        ("", "", (0, 0, 0), None),
    ):
        found = error_rate([hypothesis], [[reference]], unit="character")
        kinds = (found.num_substitutions, found.num_deletions, found.num_insertions)
        assert (kinds, found.rate) == (edits, rate)
        assert bleu_score([hypothesis], [[reference]]).score == 0.0
        assert chrf_score([hypothesis], [[reference]]).score == 0.0
    together = error_rate(["ab", "cd"], [[""], ["cd"]], unit="character")
    assert together.rate == 1.0  # two insertions over the two characters of the other reference
    assert exact_rows(["", "a", ""], [[""], ["b", "a"], ["x"]]) == [True, True, False]


def test_everything_together_counts_rows_and_blanks() -> None:
    scores = translation_scores(HYPOTHESES, REFERENCES)
    report = json.loads(json.dumps(scores.to_json(), allow_nan=False))
    assert (report["num_rows"], report["num_exact"], report["exact_match"]) == (4, 2, 0.5)
    assert (report["num_empty_hypotheses"], report["num_empty_references"]) == (1, 0)
    assert report["word_edits"] == 2  # one in the first row, one missing word in the third
    assert report["bleu"]["totals"] == [13, 10, 7, 5]
    phones = translation_scores(["a b"], [["a b"]], word_unit="phone").to_json()
    assert phones["phone_error_rate"] == 0.0


def test_no_rows_give_undefined_figures() -> None:
    report = translation_scores([], []).to_json()
    assert report["exact_match"] is report["character_error_rate"] is None
    assert report["bleu"]["score"] is report["chrf"]["score"] is None  # type: ignore[index]


def test_composed_and_decomposed_letters_differ() -> None:
    assert error_rate(["é"], [["e\u0301"]], unit="character").num_edits == 2


def test_mistakes_of_the_caller_are_told() -> None:
    with pytest.raises(ShapeError, match=r"hypotheses and references.*got 1 and 0 rows"):
        translation_scores(["a"], [])
    with pytest.raises(DataError, match=r"row 2 must be a sequence of one text or more; got \[\]"):
        error_rate(["a", "b"], [["a"], []], unit="word")
    with pytest.raises(DataError, match="row 1 must be a sequence of one text or more; got 'abc'"):
        bleu_score(["abc"], ["abc"])


@pytest.mark.parametrize("package", ["sacrebleu", "jiwer"])
def test_without_a_package_there_is_one_clear_line(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "sacrebleu.metrics" if package == "sacrebleu" else package
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=rf"{package} is needed.*elman\[metrics\]"):
        translation_scores(["a"], [["a"]])
