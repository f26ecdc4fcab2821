"""Pairs from tables and parallel files: no side is lost, none is shifted."""

from pathlib import Path

import pytest

from elman.data.pairs import TextPair, parallel_pairs, read_pairs
from elman.data.row_log import RowLog
from elman.errors import DataError
from elman.text.reading import TextSource


def written(path: Path, content: str) -> TextSource:
    path.write_text(content, encoding="utf-8", newline="")
    return TextSource(str(path))


def both(tmp_path: Path, source: str, target: str) -> tuple[TextSource, TextSource]:
    return written(tmp_path / "x", source), written(tmp_path / "y", target)


def test_d11_a_pair_with_one_blank_side_is_left_out_on_both_sides_and_counted(
    tmp_path: Path,
) -> None:
    log = RowLog("x and y")
    pairs = list(parallel_pairs(*both(tmp_path, "a\n\n \nd\n", "A\nB\n\nD\n"), log))
    assert pairs == [TextPair("a", "A", 1), TextPair("d", "D", 4)]
    assert (log.half_blank.count, log.both_blank.count, log.rows) == (1, 1, 2)
    kept = parallel_pairs(*both(tmp_path, "a\n\n", "\nB\n"), RowLog("x"), blank_sides="keep")
    assert [pair[:2] for pair in kept] == [("a", ""), ("", "B")]


@pytest.mark.parametrize(("source", "target"), [("a\nb\nc\n", "A\nB\n"), ("a\nb", "A\nB\nC")])
def test_d11_files_of_three_and_two_lines_are_refused_with_both_numbers(
    tmp_path: Path, source: str, target: str
) -> None:
    with pytest.raises(DataError, match=r"got (3 in .* and 2 in|2 in .* and 3 in)"):
        list(parallel_pairs(*both(tmp_path, source, target), RowLog("x")))


def test_a08_a_line_separator_within_a_line_shifts_no_pair(tmp_path: Path) -> None:
    pairs = list(parallel_pairs(*both(tmp_path, "a\u2028b\nc\n", "A\r\nC\r\n"), RowLog("x")))
    assert pairs == [TextPair("a\u2028b", "A", 1), TextPair("c", "C", 2)]


def test_a_table_of_pairs_is_read_by_place_or_by_name(tmp_path: Path) -> None:
    expected = [TextPair("a", "A", 1)]
    assert list(read_pairs(written(tmp_path / "a.tsv", "a\tA\t1\n"), RowLog("a"))) == expected
    named = written(tmp_path / "b.csv", "id,target,source\n7,A,a\n")
    assert [pair[:2] for pair in read_pairs(named, RowLog("b"))] == [("a", "A")]
    chosen = read_pairs(named, RowLog("b"), source_column="target", target_column="1")
    assert [pair[:2] for pair in chosen] == [("A", "7")]
    backwards = read_pairs(written(tmp_path / "a.tsv", "a\tA\t1\n"), RowLog("a"), source_column="2")
    assert [pair[:2] for pair in backwards] == [("A", "a")]
    with pytest.raises(DataError, match="source and target in one column"):
        list(read_pairs(named, RowLog("b"), source_column="id", target_column="1"))


def test_one_sided_blanks_of_a_table_are_counted_with_their_lines(tmp_path: Path) -> None:
    log = RowLog("a")
    pairs = list(read_pairs(written(tmp_path / "a.tsv", "a\tA\n\tB\nc\t \n \t\nd\tD\n"), log))
    assert [pair.line for pair in pairs] == [1, 5]
    assert (log.half_blank.first_lines, log.both_blank.first_lines) == ([2, 3], [4])


def test_the_real_tables_of_pairs_have_the_rows_they_are_known_to_have(shared_data: Path) -> None:
    for name, rows, first in (
        ("tatoeba-fra-eng/fra.txt", 142787, ("Go.", "Va !")),
        ("g2p-sigmorphon2021/jpn_hira_dev.tsv", 1000, ("あいか", "a̠ i k a̠")),
        ("transliteration-wikidata/katakana.dev.tsv", 15811, ("šoljan", "シ ョ リ ャ ン")),
    ):
        log = RowLog(name)
        pairs = list(read_pairs(TextSource(str(shared_data / name)), log))
        assert (len(pairs), log.notices()) == (rows, ())
        assert pairs[0][:2] == first
