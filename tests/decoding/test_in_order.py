"""One result for one source, in order, and no model for an empty one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.decoding.in_order import decode_in_order
from elman.errors import SettingError


class Doubling:
    """A decoder that keeps what it was asked."""

    def __init__(self):
        self.batches = []

    def __call__(self, sources):
        self.batches.append([tuple(source) for source in sources])
        return ["".join(chr(code) for code in source) * 2 for source in sources]


@pytest.mark.parametrize("chunk_size", [1, 1024])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_an_empty_line_has_an_empty_answer_without_the_model(chunk_size, batch_size):
    """Of the four lines x, empty, blank and y, the second and the third stay empty."""
    sources = [[ord(c) for c in line.strip()] for line in "x\n\n   \ny\n".splitlines()]
    decode = Doubling()
    found = list(decode_in_order(sources, decode, batch_size=batch_size, chunk_size=chunk_size))
    assert found == ["xx", None, None, "yy"]
    assert sorted(itertools.chain(*decode.batches)) == [(ord("x"),), (ord("y"),)]


@given(
    lengths=st.lists(st.integers(0, 5), max_size=30),
    batch_size=st.integers(1, 9),
    chunk_size=st.integers(1, 40),
)
def test_order_is_kept_for_every_chunk_and_batch(lengths, batch_size, chunk_size):
    sources = [[97 + place] * length for place, length in enumerate(lengths)]
    decode = Doubling()
    found = list(decode_in_order(sources, decode, batch_size=batch_size, chunk_size=chunk_size))
    expected = [
        chr(97 + place) * (2 * length) if length else None for place, length in enumerate(lengths)
    ]
    assert found == expected
    assert all(1 <= len(batch) <= batch_size for batch in decode.batches)
    assert all(source for batch in decode.batches for source in batch)


def test_nothing_is_decoded_before_it_is_asked_for():
    decode = Doubling()
    results = decode_in_order(iter([[97]] * 100), decode, batch_size=2, chunk_size=4)
    assert decode.batches == []
    assert next(results) == "aa"
    assert sum(len(batch) for batch in decode.batches) == 4


def test_sizes_and_counts_that_cannot_be_are_refused():
    with pytest.raises(SettingError, match="0 and 1024"):
        next(decode_in_order([[1]], Doubling(), batch_size=0))
    with pytest.raises(ValueError, match="shorter"):
        list(decode_in_order([[1], [2]], lambda sources: ["one"], batch_size=2))
