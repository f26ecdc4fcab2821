"""The most frequent tag of each word, counted by hand."""

from elman.models.usual_tags import UsualTags


def test_words_have_their_usual_tag_and_new_ones_that_of_rare_words() -> None:
    tokens = [(0, "V"), (0, "V"), (0, "N"), (1, "N"), (2, "A"), (3, "A"), (4, "V"), (4, "V")]
    usual = UsualTags.fit(tokens, 6)
    # V is the most frequent of all; of the words seen once (1, 2, 3), A is.
    assert usual.predict([0, 1, 2, 4, 5, None]) == ["V", "N", "A", "V", "A", "A"]


def test_ties_go_to_the_first_tag_in_order_and_unnumbered_words_count_as_rare() -> None:
    usual = UsualTags.fit([(0, "B"), (0, "A"), (None, "Z")], 1)
    assert usual.predict([0, None]) == ["A", "Z"]


def test_without_rare_words_new_ones_get_the_most_frequent_tag_of_all() -> None:
    usual = UsualTags.fit([(0, "B"), (0, "B"), (1, "A"), (1, "A"), (1, "A")], 2)
    assert usual.predict([None]) == ["A"]
