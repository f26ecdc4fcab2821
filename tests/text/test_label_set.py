import pytest

from elman.errors import DataError, RunError
from elman.text.label_set import LabelSet


def test_the_order_depends_on_the_labels_alone() -> None:
    first = LabelSet.of([["b"], ["a"], ["b"], ["é"], ["Z"]], "one")
    again = LabelSet.of([["Z"], ["é"], ["b"], ["b"], ["a"], ["a"], ["a"]], "one")
    assert first.labels == again.labels == ("Z", "a", "b", "é")
    assert first.counts == (1, 1, 2, 1)


def test_whole_numbers_stand_in_the_order_of_their_values() -> None:
    rows = [[label] for label in ("10", "9", "-1", "two", "+-1", "²")]
    assert LabelSet.of(rows, "one").labels == ("-1", "9", "10", "+-1", "two", "²")


def test_labels_of_a_row_become_ids_and_strange_ones_none() -> None:
    labels = LabelSet.of([["b", "a"], ["c"]], "several")
    assert labels.ids(("c", "a", "x")) == [0, 2]
    assert labels.id_of("x") is None


def test_the_file_gives_equal_labels_back() -> None:
    labels = LabelSet.of([["Zoë\t"], ["a\n"], ["a\n"]], "one")
    assert labels.to_json().isascii()
    assert LabelSet.from_json(labels.to_json()) == labels


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"schema": 9, "answers": "one", "labels": []}',
        '{"schema": 1, "answers": "one", "labels": []}',
        '{"schema": 1, "answers": "two", "labels": [{"label": "a", "rows": 1}]}',
        '{"schema": 1, "answers": "one", "labels": [{"label": "a", "rows": 1}, '
        '{"label": "a", "rows": 1}]}',
    ],
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(RunError, match=r"labels\.json"):
        LabelSet.from_json(text)


def test_no_label_is_no_set() -> None:
    with pytest.raises(DataError, match="no label"):
        LabelSet.of([[]], "several")
