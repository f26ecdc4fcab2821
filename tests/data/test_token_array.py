"""Ids on disk: what is written comes back, and nothing broken is read."""

import tracemalloc
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elman.data.token_array import (
    LineArray,
    TokenArray,
    join_lines,
    open_line_array,
    open_token_array,
    write_line_array,
    write_token_array,
)
from elman.errors import DataError


@settings(
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.lists(st.integers(0, 99), max_size=20), max_size=6),
    st.sampled_from([100, 256, 257, 65_536, 65_537]),
)
def test_ids_come_back_from_disk_in_the_smallest_type(
    tmp_path: Path, chunks: list[list[int]], vocabulary_size: int
) -> None:
    arrays = [np.array(chunk, dtype=np.int32) for chunk in chunks]
    expected = list(chain.from_iterable(chunks))
    written = write_token_array(tmp_path / "ids.npy", arrays, vocabulary_size)
    bytes_each = 1 if vocabulary_size <= 256 else 2 if vocabulary_size <= 65_536 else 4
    for array in (written, open_token_array(tmp_path / "ids.npy")):
        assert np.asarray(array).tolist() == expected
        assert np.asarray(array).itemsize == bytes_each
        assert len(array) == len(expected)
    np.testing.assert_array_equal(np.load(tmp_path / "ids.npy", allow_pickle=False), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["ids.npy"]


def test_the_digest_is_of_the_ids_and_not_of_how_they_are_stored(tmp_path: Path) -> None:
    chunks = [np.arange(50), np.arange(3)]
    small = write_token_array(tmp_path / "a.npy", chunks, 60)
    large = write_token_array(tmp_path / "b.npy", [np.concatenate(chunks)], 70_000)
    other = write_token_array(tmp_path / "c.npy", chunks[::-1], 60)
    assert small.digest() == large.digest() != other.digest()


def test_writing_and_reading_need_no_memory_for_the_whole_text(tmp_path: Path) -> None:
    def chunks() -> Iterator[npt.NDArray[np.integer]]:
        for start in range(100):
            yield np.full(100_000, start, dtype=np.int32)

    tracemalloc.start()
    array = write_token_array(tmp_path / "ids.npy", chunks(), 200)
    array.digest()
    view = array[5_000_000:5_000_003]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(array) == 10_000_000
    assert view.tolist() == [50, 50, 50]
    assert peak < 6_000_000  # a chunk or two; the ids alone are 10 million bytes


def test_the_file_is_mapped_and_cannot_be_written_through(tmp_path: Path) -> None:
    array = write_token_array(tmp_path / "ids.npy", [np.arange(9)], 9)
    with pytest.raises(ValueError, match="read-only"):
        array[0:3][0] = 5


def test_an_id_outside_the_vocabulary_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    for bad in (256, -1):
        with pytest.raises(DataError, match=f"outside the vocabulary; got {bad}"):
            write_token_array(tmp_path / "ids.npy", [np.array([1]), np.array([bad])], 256)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_token_array(tmp_path / "ids.npy", [np.arange(3)], 9)

    def chunks() -> Iterator[npt.NDArray[np.integer]]:
        yield np.arange(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_token_array(tmp_path / "ids.npy", chunks(), 9)
    assert np.asarray(open_token_array(tmp_path / "ids.npy")).tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_not_a_file_of_ids_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "ids.npy"
    with pytest.raises(DataError, match="does not exist"):
        open_token_array(path)
    write_token_array(path, [np.arange(200)], 256)
    whole = path.read_bytes()
    for broken in (b"", b"not ids", whole[:60], whole[:-1]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="is not a file of ids"):
            open_token_array(path)
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="is not a file of ids"):
        open_token_array(path)
    for wrong in (np.zeros((2, 100), dtype=np.uint8), np.zeros(100)):
        np.save(path, wrong)
        with pytest.raises(DataError, match="is not a file of ids"):
            open_token_array(path)


def test_lines_come_back_from_disk_with_empty_ones_among_them(tmp_path: Path) -> None:
    lines = [[3, 1], [], [2], [], [0, 0, 7]]
    written = write_line_array(tmp_path, "train", (np.array(x, dtype=int) for x in lines), 300)
    opened = open_line_array(tmp_path, "train")
    for array in (written, opened, join_lines(lines, 300)):
        assert [line.tolist() for line in array] == lines
        assert array.lengths_N.tolist() == [2, 0, 1, 0, 3]
        assert array.digest() == written.digest()
    assert opened.line(4).tolist() == [0, 0, 7]
    framed = [line.tolist() for line in opened.framed(9)]
    assert framed == [[9, 3, 1, 9], [9, 9], [9, 2, 9], [9, 9], [9, 0, 0, 7, 9]]
    chosen = opened.select(np.array([4, 0]))
    assert [line.tolist() for line in chosen] == [[0, 0, 7], [3, 1]]
    assert chosen.digest() == join_lines([[0, 0, 7], [3, 1]], 9).digest() != opened.digest()


def test_offsets_of_other_lines_are_refused(tmp_path: Path) -> None:
    write_line_array(tmp_path, "a", [np.arange(3)], 9)
    write_line_array(tmp_path, "b", [np.arange(5)], 9)
    (tmp_path / "b.offsets.npy").replace(tmp_path / "a.offsets.npy")
    with pytest.raises(DataError, match="does not fit"):
        open_line_array(tmp_path, "a")
    ids = TokenArray(np.zeros(3, dtype=np.uint8))
    with pytest.raises(DataError, match="outside the ids"):
        LineArray(ids, np.array([2]), np.array([2]))
