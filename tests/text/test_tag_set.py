"""Tags of files, tags of the model, and the way between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.errors import DataError
from elman.text.tag_schemes import Span, first_invalid_tag, tags_of_spans
from elman.text.tag_set import TagSet, tells_spans

BILOU_OF = {"E": "L", "S": "U"}


def bilou(tags):
    return [BILOU_OF.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def spelled(spans, length, scheme):
    if scheme == "BILOU":
        return bilou(tags_of_spans(spans, length, "BIOES"))
    return tags_of_spans(spans, length, scheme)


@st.composite
def sentences(draw):
    """Spans of a sentence and its length."""
    spans, place = [], draw(st.integers(0, 2))
    for _ in range(draw(st.integers(0, 4))):
        stop = place + draw(st.integers(1, 3))
        spans.append(Span(draw(st.sampled_from(["PER", "LOC", "X-Y"])), place, stop))
        place = stop + draw(st.integers(0, 2))
    return spans, place + draw(st.integers(0, 1)) or 1


@pytest.mark.parametrize("written", ["BIO", "IOB1", "BIOES", "BILOU"])
@pytest.mark.parametrize("learnt", ["BIO", "BIOES"])
@given(rows=st.lists(sentences(), min_size=1, max_size=3))
def test_learnt_and_written_again_tags_are_what_they_were(written, learnt, rows) -> None:
    given_tags = [spelled(spans, length, written) for spans, length in rows]
    tags = TagSet.of(given_tags, written, learnt)
    for row, (spans, length) in zip(given_tags, rows, strict=True):
        ids = tags.ids(row)
        assert [tags.tags[n] for n in ids] == tags_of_spans(spans, length, learnt)
        assert tags.as_written(ids) == row
        assert tags.num_misplaced(row) == 0
        assert set(row) <= set(tags.written_tags)


def test_tags_that_tell_no_spans_are_themselves_the_most_frequent_first() -> None:
    tags = TagSet.of([["NOUN", "VERB"], ["VERB", "ADJ"]], "none", "none")
    assert tags.tags == ("VERB", "ADJ", "NOUN")
    assert tags.ids(["ADJ", "PRON"]) == [1, None]
    assert tags.as_written([2, 0]) == ["NOUN", "VERB"]
    assert tags.allowed() is None
    assert tags.written_tags == tags.tags


def test_every_prefix_of_every_label_is_there_so_that_each_length_has_a_valid_sequence() -> None:
    tags = TagSet.of([["B-LOC", "I-LOC"]], "BIO", "BIOES")
    assert tags.tags == ("O", "B-LOC", "I-LOC", "E-LOC", "S-LOC")
    assert tags.written_tags == ("O", "B-LOC", "I-LOC")
    allowed = tags.allowed()
    assert allowed is not None
    assert (allowed.start_C & allowed.end_C).tolist() == [True, False, False, False, True]


def test_tags_out_of_place_are_read_as_conlleval_reads_them_and_counted() -> None:
    tags = TagSet.of([["B-PER", "I-PER"]], "BIO", "BIOES")
    stray = ["O", "I-PER", "I-PER"]
    assert tags.as_learnt(stray) == ["O", "B-PER", "E-PER"]
    assert tags.num_misplaced(stray) == 1


def test_spans_without_labels_are_spans_too() -> None:
    tags = TagSet.of([["B", "I", "O"]], "BIO", "BIOES")
    assert tags.tags == ("O", "B", "I", "E", "S")
    assert tags.as_written(tags.ids(["B", "I", "O"])) == ["B", "I", "O"]


def test_a_label_that_training_has_not_is_unknown_and_what_is_no_tag_is_told() -> None:
    tags = TagSet.of([["B-PER"]], "BIO", "BIOES")
    assert tags.ids(["B-NEW", "O"]) == [None, 0]
    with pytest.raises(DataError, match="NOUN"):
        tags.ids(["NOUN"])


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["O", "B-PER", "I-PER"], True),
        (["O", "U-PER", "L-PER"], True),
        (["O", "B", "I"], False),
        (["NOUN", "X", "I"], False),
        (["O"], False),
        ([], False),
    ],
)
def test_tags_of_spans_are_known_by_their_labels(tags, spans) -> None:
    assert tells_spans(tags) is spans


def test_a_set_of_tags_that_cannot_be_is_refused() -> None:
    for tags, written, learnt in (((), "none", "none"), (("A", "A"), "none", "none")):
        with pytest.raises(DataError, match="each once"):
            TagSet(tags, written, learnt)
    with pytest.raises(DataError, match="or in neither"):
        TagSet(("O",), "BIO", "none")


@given(row=sentences())
def test_predictions_are_valid_in_the_scheme_of_the_file(row) -> None:
    spans, length = row
    tags = TagSet.of([tags_of_spans(spans, length, "IOB1")], "IOB1", "BIOES")
    again = tags.as_written(tags.ids(tags_of_spans(spans, length, "IOB1")))
    assert first_invalid_tag(again, "IOB1") is None
