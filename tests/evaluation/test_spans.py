"""Spans of tags against values by hand and a slow reading of both rules."""

import json
import sys
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOBES

from elman.errors import DataError, MissingPackageError, ShapeError
from elman.evaluation.spans import (
    Span,
    SpanRule,
    SpanScheme,
    scheme_of_tags,
    span_scores,
    spans_of_tags,
)
from elman.evaluation.tags import tag_scores

BIOES_TAGS = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in "XY")]
BIO_TAGS = ["O", *(f"{letter}-{kind}" for letter in "BI" for kind in "XY")]
bioes_rows = st.lists(
    st.lists(st.tuples(st.sampled_from(BIOES_TAGS), st.sampled_from(BIOES_TAGS)), max_size=12),
    min_size=1,
    max_size=6,
)


def strict_by_definition(tags: list[str], scheme: SpanScheme) -> set[Span]:
    """Every stretch of one type whose letters are B I* (not followed by I of it), or B I* E, S."""
    found = set()
    for start in range(len(tags)):
        for end in range(start + 1, len(tags) + 1):
            letters = "".join(tag[0] for tag in tags[start:end])
            kinds = {tag[2:] for tag in tags[start:end]}
            inside = letters.strip("I") if scheme == "BIO" else letters.replace("I", "")
            if len(kinds) > 1 or "" in kinds:
                continue
            kind = kinds.pop()
            goes_on = end < len(tags) and tags[end] == f"I-{kind}"
            if scheme == "BIO":
                whole = letters[0] == "B" and inside == "B" and not goes_on
            else:
                whole = letters == "S" or (letters[0] + letters[-1] == "BE" and inside == "BE")
            if whole:
                found.add((kind, start, end))
    return found


def loose_by_definition(tags: list[str]) -> set[Span]:
    """A word goes on with the span before it if its type is the same, it is no B or S, and the
    word before was no E or S."""
    found: set[Span] = set()
    open_span: Span | None = None
    for place, (before, tag) in enumerate(pairwise(["O", *tags])):
        goes_on = "O" not in (tag, before) and tag[2:] == before[2:]
        goes_on = goes_on and tag[0] not in "BS" and before[0] not in "ES"
        if open_span is not None and goes_on:
            found.discard(open_span)
            open_span = (open_span[0], open_span[1], place + 1)
        elif tag != "O":
            open_span = (tag[2:], place, place + 1)
        else:
            open_span = None
        if open_span is not None:
            found.add(open_span)
    return found


def test_half_of_the_tags_wrong_is_no_f1_of_one() -> None:
    gold, predicted = [["B-LOC", "E-LOC"] * 2], [["B-LOC", "I-LOC", "I-LOC", "E-LOC"]]
    assert tag_scores(gold, predicted).token_accuracy == 0.5
    for rule in ("strict", "conll"):
        assert spans_of_tags(gold[0], rule=rule, scheme="BIOES") == (("LOC", 0, 2), ("LOC", 2, 4))
        assert spans_of_tags(predicted[0], rule=rule, scheme="BIOES") == (("LOC", 0, 4),)
        scores = span_scores(gold, predicted, rule=rule)
        assert (scores.precision, scores.recall, scores.f1) == (0.0, 0.0, 0.0)
        assert (scores.scheme, scores.to_json()["rule"]) == ("BIOES", rule)


def test_an_inside_tag_without_a_beginning_is_nothing_or_a_span_by_the_rule() -> None:
    gold, predicted = [["O", "B-PER", "I-PER"]], [["O", "I-PER", "I-PER"]]
    strict = span_scores(gold, predicted, rule="strict")
    assert (strict.f1, strict.recall, strict.precision) == (0.0, 0.0, None)
    assert (strict.num_stray_predicted, strict.num_stray_gold) == (2, 0)
    lenient = span_scores(gold, predicted, rule="conll")
    assert (lenient.f1, lenient.precision, lenient.recall) == (1.0, 1.0, 1.0)
    assert (strict.rule, lenient.rule, strict.scheme) == ("strict", "conll", "BIO")


@pytest.mark.parametrize("rule", ["strict", "conll"])
def test_a_type_that_only_the_test_file_has_is_missed_and_listed(rule: SpanRule) -> None:
    gold, predicted = [["B-X", "O", "B-NEW"]], [["B-X", "O", "O"]]
    scores = span_scores(gold, predicted, rule=rule, tags=["O", "B-X", "I-X"])
    assert (scores.precision, scores.recall) == (1.0, 0.5)
    assert scores.f1 == pytest.approx(2 / 3)
    assert scores.unknown_tags == (("B-NEW", 1),)
    assert json.loads(json.dumps(scores.to_json()))["unknown_tags"] == {"B-NEW": 1}


def test_both_rules_are_their_definitions_on_every_short_sentence() -> None:
    for scheme, tags, longest in (("BIO", BIO_TAGS, 5), ("BIOES", BIOES_TAGS, 3)):
        for length in range(longest + 1):
            for sentence in map(list, product(tags, repeat=length)):
                strict = spans_of_tags(sentence, rule="strict", scheme=scheme)
                assert set(strict) == strict_by_definition(sentence, scheme), sentence
                loose = spans_of_tags(sentence, rule="conll", scheme=scheme)
                assert set(loose) == loose_by_definition(sentence), sentence


@given(bioes_rows)
def test_figures_are_those_of_seqeval(rows: list[list[tuple[str, str]]]) -> None:
    gold = [[one for one, _ in row] for row in rows]
    predicted = [[other for _, other in row] for row in rows]
    for rule in ("strict", "conll"):
        ours = span_scores(gold, predicted, rule=rule, scheme="BIOES")
        if not ours.classes:
            assert ours.f1 is None
            continue
        options = {"mode": "strict", "scheme": IOBES} if rule == "strict" else {}
        theirs = [
            measure(gold, predicted, zero_division=0, **options)
            for measure in (precision_score, recall_score, f1_score)
        ]
        found = [value or 0.0 for value in (ours.precision, ours.recall, ours.f1)]
        assert found == pytest.approx(theirs)


def test_bilou_is_bioes_by_other_letters() -> None:
    tags = ["B-X", "L-X", "U-Y", "B-X", "I-X", "L-X", "O"]
    expected = (("X", 0, 2), ("Y", 2, 3), ("X", 3, 6))
    assert scheme_of_tags([tags]) == "BILOU"
    for rule in ("strict", "conll"):
        assert spans_of_tags(tags, rule=rule, scheme="BILOU") == expected


def test_types_with_dashes_or_without_a_name_stay_apart() -> None:
    tags = ["B-a-b", "I-a-b", "B-a", "B-a-", "B"]
    for rule in ("strict", "conll"):
        assert spans_of_tags(tags, rule=rule, scheme="BIO") == (
            ("a-b", 0, 2),
            ("a", 2, 3),
            ("a-", 3, 4),
            ("", 4, 5),
        )


def test_the_scheme_is_that_of_the_tags() -> None:
    assert scheme_of_tags([["O", "B-X", "I-X"]]) == "BIO"
    assert scheme_of_tags([["O"]], [["S-X"]]) == "BIOES"
    assert scheme_of_tags([["O", "I-X", "I-X", "B-X"]]) == "IOB1"
    assert scheme_of_tags([["I-X", "O", "B-X"]]) == "BIO"  # neither: it is told as stray tags
    assert scheme_of_tags([]) == "BIO"
    with pytest.raises(DataError, match="one scheme; got B E L"):
        scheme_of_tags([["B-X", "E-X"]], [["B-X", "L-X"]])


def test_wikigold_is_iob1_and_every_tag_of_it_is_in_a_span(shared_data: Path) -> None:
    text = (shared_data / "ner-wikigold" / "wikigold.conll.txt").read_text(encoding="utf-8")
    gold = [
        [line.rsplit(" ", 1)[1] for line in block.split("\n") if line.strip()]
        for block in text.split("\n\n")
    ]
    assert scheme_of_tags(gold) == "IOB1"
    scores = [span_scores(gold, gold, rule=rule) for rule in ("strict", "conll")]
    assert [each.f1 for each in scores] == [1.0, 1.0]
    assert scores[0].classes == scores[1].classes
    assert (scores[0].num_stray_gold, scores[0].warning) == (0, "")
    wrong = span_scores(gold, gold, rule="strict", scheme="BIO")
    assert wrong.warning.endswith(
        "are in no span of the scheme BIO: the data may be in another one"
    )


def test_a_letter_that_the_scheme_has_not_is_outside_for_the_strict_rule() -> None:
    tags = ["B-X", "E-X", "O"]
    assert spans_of_tags(tags, rule="strict", scheme="BIO") == (("X", 0, 1),)
    assert spans_of_tags(tags, rule="conll", scheme="BIO") == (("X", 0, 2),)


@pytest.mark.parametrize("tag", ["NOUN", "", "X-PER", "B-", "O-X", "b-PER", "BPER"])
def test_what_is_no_tag_of_a_span_is_refused(tag: str) -> None:
    with pytest.raises(DataError, match="a tag of a span must be O or a letter"):
        span_scores([["O", tag]], [["O", "O"]], rule="strict", scheme="BIO")


def test_no_spans_give_undefined_figures() -> None:
    scores = span_scores([["O"], []], [["O"], []], rule="strict")
    assert (scores.precision, scores.recall, scores.f1) == (None, None, None)
    with pytest.raises(ShapeError, match="sentence 1"):
        span_scores([["O"]], [[]], rule="strict")


def test_without_seqeval_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "seqeval.scheme", None)
    with pytest.raises(MissingPackageError, match=r"seqeval is needed.*elman\[metrics\]"):
        span_scores([["B-X"]], [["B-X"]], rule="strict")
