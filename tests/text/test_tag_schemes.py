"""Tag schemes: seqeval's spans, conversions there and back, and what may follow what."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.errors import DataError, SettingError
from elman.text.tag_schemes import (
    Span,
    allowed_transitions,
    convert_tags,
    detect_scheme,
    first_invalid_tag,
    repair_tags,
    spans_of,
    split_tag,
    tags_of_spans,
)

SCHEMES = ("IOB1", "BIO", "BIOES")
INVENTORY = {
    scheme: ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in ("X", "Y-Z"))]
    for scheme, prefixes in (("IOB1", "BI"), ("BIO", "BI"), ("BIOES", "BIES"))
}


def f1(gold, predicted):
    right = len(set(gold) & set(predicted))
    precision = right / len(predicted) if predicted else 0.0
    recall = right / len(gold) if gold else 0.0
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0


def test_half_of_the_tags_right_and_no_span():
    """Gold (0–1), (2–3); predicted (0–3): token accuracy 0.5, P = R = F1 = 0."""
    gold = ["B-LOC", "E-LOC", "B-LOC", "E-LOC"]
    predicted = ["B-LOC", "I-LOC", "I-LOC", "E-LOC"]
    assert sum(a == b for a, b in zip(gold, predicted, strict=True)) / 4 == 0.5
    for reading in ("strict", "conll"):
        gold_spans = spans_of(gold, "BIOES", reading=reading)
        predicted_spans = spans_of(predicted, "BIOES", reading=reading)
        assert gold_spans == [Span("LOC", 0, 2), Span("LOC", 2, 4)]
        assert predicted_spans == [Span("LOC", 0, 4)]
        assert f1(gold_spans, predicted_spans) == (0.0, 0.0, 0.0)


def test_an_i_without_its_b_is_a_span_in_one_reading_only():
    gold, predicted = ["O", "B-PER", "I-PER"], ["O", "I-PER", "I-PER"]
    strict, lenient = (spans_of(predicted, "BIO", reading=r) for r in ("strict", "conll"))
    assert strict == []
    assert lenient == [Span("PER", 1, 3)]
    assert f1(spans_of(gold, "BIO"), strict)[2] == 0.0
    assert f1(spans_of(gold, "BIO", reading="conll"), lenient)[2] == 1.0


def test_a_label_that_the_model_does_not_know_is_read_like_any_other():
    gold, predicted = ["B-X", "O", "B-NEW"], ["B-X", "O", "O"]
    precision, recall, score = f1(spans_of(gold, "BIO"), spans_of(predicted, "BIO"))
    assert (precision, recall) == (1.0, 0.5)
    assert score == pytest.approx(2 / 3)


@given(tags=st.lists(st.sampled_from(INVENTORY["BIOES"]), max_size=8))
def test_the_conll_reading_is_that_of_seqeval(tags):
    entities = pytest.importorskip("seqeval.metrics.sequence_labeling").get_entities(tags)
    expected = [Span(label, first, last + 1) for label, first, last in entities]
    assert spans_of(tags, "BIOES", reading="conll") == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_strict_reading_is_that_of_seqeval_on_every_short_sentence(scheme):
    library = pytest.importorskip("seqeval.scheme")
    token = {"IOB1": library.IOB1, "BIO": library.IOB2, "BIOES": library.IOBES}[scheme]
    inventory = INVENTORY[scheme]
    for length in (1, 2, 3, 4):
        for tags in itertools.product(inventory, repeat=length):
            if scheme == "IOB1" and {("B-X", "B-Y-Z"), ("B-Y-Z", "B-X")} & {
                *itertools.pairwise(tags)
            }:
                continue  # invalid, and the library loses the span before the change of label
            found = library.Tokens(list(tags), token).entities
            expected = [Span(entity.tag, entity.start, entity.end) for entity in found]
            assert spans_of(tags, scheme) == expected, tags


def conlleval_chunks(tags):
    """The rules of the script `conlleval` for B and I, written as it has them."""
    chunks, start, before = [], None, ("O", "")
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, label = tag.partition("-")
        old, old_label = before
        ends = (old, prefix) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")}
        ends = ends or (old != "O" and old_label != label)
        starts = (old, prefix) in {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")}
        starts = starts or (prefix != "O" and old_label != label)
        if ends and start is not None:
            chunks.append(Span(old_label, start, place))
            start = None
        if starts:
            start = place
        before = (prefix, label)
    return chunks


def test_the_conll_reading_of_b_and_i_is_that_of_the_script():
    for length in (1, 2, 3, 4):
        for tags in itertools.product(INVENTORY["BIO"], repeat=length):
            assert spans_of(tags, "BIO", reading="conll") == conlleval_chunks(tags), tags


def grammar(tags, scheme):
    """Whether a sentence is valid: it is the spelling of some set of spans."""
    spellings = set()
    places = [(a, b) for a in range(len(tags)) for b in range(a + 1, len(tags) + 1)]
    labels = sorted({split_tag(tag)[1] for tag in tags if tag != "O"})
    for count in range(len(tags) + 1):
        for chosen in itertools.combinations(places, count):
            for names in itertools.product(labels, repeat=count):
                spans = [Span(n, a, b) for n, (a, b) in zip(names, chosen, strict=True)]
                with suppress(DataError):
                    spellings.add(tuple(tags_of_spans(spans, len(tags), scheme)))
    return tuple(tags) in spellings


@pytest.mark.parametrize("scheme", SCHEMES)
def test_valid_means_spelt_by_some_spans_and_transitions_say_the_same(scheme):
    inventory = INVENTORY[scheme]
    allowed = allowed_transitions(inventory, scheme)
    for length in (1, 2, 3):
        for ids in itertools.product(range(len(inventory)), repeat=length):
            tags = [inventory[tag] for tag in ids]
            valid = first_invalid_tag(tags, scheme) is None
            path = allowed.start_C[ids[0]] and allowed.end_C[ids[-1]]
            path = path and all(allowed.between_CC[a, b] for a, b in itertools.pairwise(ids))
            assert valid == path == grammar(tags, scheme), tags


SPANS = st.lists(
    st.tuples(st.sampled_from(["X", "Y-Z", ""]), st.integers(0, 3), st.integers(1, 3)), max_size=5
)


@given(steps=SPANS, tail=st.integers(0, 3), scheme=st.sampled_from(SCHEMES))
def test_spans_to_tags_and_back_is_the_identity_in_every_reading(steps, tail, scheme):
    spans, place = [], 0
    for label, gap, width in steps:
        spans.append(Span(label, place + gap, place + gap + width))
        place += gap + width
    tags = tags_of_spans(spans, place + tail, scheme)
    assert first_invalid_tag(tags, scheme) is None
    assert spans_of(tags, scheme) == spans
    assert spans_of(tags, scheme, reading="conll") == spans
    assert repair_tags(tags, scheme) == tags
    for other in SCHEMES:
        there = convert_tags(tags, scheme, other)
        assert spans_of(there, other) == spans
        assert convert_tags(there, other, scheme) == tags


@given(
    tags=st.lists(st.sampled_from(INVENTORY["BIOES"]), max_size=7), scheme=st.sampled_from(SCHEMES)
)
def test_repaired_tags_are_valid(tags, scheme):
    repaired = repair_tags(tags, scheme)
    assert len(repaired) == len(tags)
    assert first_invalid_tag(repaired, scheme) is None
    if first_invalid_tag(tags, scheme) is not None:
        assert spans_of(repaired, scheme) == spans_of(tags, scheme, reading="conll")


def test_conversions_of_a_known_sentence():
    iob1 = ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-ORG"]
    bio = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "B-ORG"]
    bioes = ["B-PER", "E-PER", "O", "S-LOC", "S-LOC", "S-ORG"]
    assert convert_tags(iob1, "IOB1", "BIO") == bio
    assert convert_tags(bio, "BIO", "BIOES") == bioes
    assert convert_tags(bioes, "BIOES", "IOB1") == iob1
    assert repair_tags(["O", "I-PER", "I-LOC"], "BIO") == ["O", "B-PER", "B-LOC"]
    assert [detect_scheme([tags]) for tags in (iob1, bio, bioes)] == ["IOB1", "BIO", "BIOES"]
    assert detect_scheme([]) == "BIO"


def test_what_is_out_of_place_is_refused_with_its_position():
    with pytest.raises(DataError, match="I-PER after O, word 2 of 3"):
        convert_tags(["O", "I-PER", "I-PER"], "BIO", "BIOES")
    with pytest.raises(DataError, match="at the start, word 1"):
        convert_tags(["I-X"], "BIO", "IOB1")
    assert first_invalid_tag(["O", "B-X", "I-X"], "BIOES") == 2
    assert first_invalid_tag(["B-X", "E-X"], "BIO") == 1
    for tag in ("X-B", "NOUN", "B-", "", "O-X", "I_X"):
        with pytest.raises(DataError, match="a tag must be"):
            split_tag(tag)
    with pytest.raises(SettingError, match="E-X"):
        allowed_transitions(["O", "B-X", "E-X"], "BIO")
    with pytest.raises(DataError, match="X at 1 to 3"):
        tags_of_spans([Span("X", 0, 2), Span("X", 1, 3)], 3, "BIO")
    with pytest.raises(DataError, match="2 to 4"):
        tags_of_spans([Span("X", 2, 4)], 3, "BIO")
