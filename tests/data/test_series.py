"""Series of numbers: the label found, the header certain, every odd cell told."""

from pathlib import Path

import pytest

from elman.data.row_log import RowLog
from elman.data.series import Series, read_series
from elman.data.tables import TableOptions
from elman.errors import DataError
from elman.text.reading import TextSource


def written(path: Path, content: str) -> TextSource:
    path.write_text(content, encoding="utf-8")
    return TextSource(str(path))


def test_the_label_is_last_or_where_the_header_or_a_setting_says(tmp_path: Path) -> None:
    expected = (0.5, -1.0, 2000.0)
    for content, column in (
        ("0.5,-1,2e3,up\n", ""),
        ("t0,t1,t2,what\n0.5,-1,2e3,up\n", ""),
        ("label,t0,t1,t2\nup,0.5,-1,2e3\n", ""),
        ("up,0.5,-1,2e3\n", "1"),
        ("t0,what,t1,t2\n0.5,up,-1,2e3\n", "what"),
    ):
        source = written(tmp_path / "s.csv", content)
        read = list(read_series(source, RowLog("s"), label_column=column))
        assert [(series.values, series.label) for series in read] == [(expected, "up")]


def test_series_without_labels_are_numbers_alone(tmp_path: Path) -> None:
    source = written(tmp_path / "s.csv", "1,2\n3,4\n")
    read = list(read_series(source, RowLog("s"), label_column=None))
    assert read == [Series((1.0, 2.0), "", 1), Series((3.0, 4.0), "", 2)]


def test_empty_cells_end_a_series_and_rows_of_any_length_can_be_asked_for(tmp_path: Path) -> None:
    padded = written(tmp_path / "p.csv", "up,1,2,3\ndown,1,,\n")
    read = list(read_series(padded, RowLog("p"), label_column="1"))
    assert [series.values for series in read] == [(1.0, 2.0, 3.0), (1.0,)]
    ragged = written(tmp_path / "r.csv", "1,2,3,up\n1,down\n")
    with pytest.raises(DataError, match="line 2: 2 columns, expected 4"):
        list(read_series(ragged, RowLog("r")))
    read = list(read_series(ragged, RowLog("r"), lengths="any"))
    assert [series[:2] for series in read] == [((1.0, 2.0, 3.0), "up"), ((1.0,), "down")]
    with pytest.raises(DataError, match="first or last"):
        list(read_series(ragged, RowLog("r"), label_column="2", lengths="any"))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("1,x,up", "'x' in column 2 is no finite number"),
        ("1,,2,up", "'' in column 2 is no finite number"),
        ("nan,1,up", "'nan' in column 1 is no finite number"),
        ("1e999,1,up", "'1e999' in column 1 is no finite number"),
        ("1_0,1,up", "'1_0' in column 1 is no finite number"),
        ("1,2,", "no label"),
        (",,up", "no number"),
    ],
)
def test_a_cell_that_is_no_number_is_a_fault_with_its_line(
    tmp_path: Path, row: str, fault: str
) -> None:
    width = row.count(",")
    first = ",".join("1" * width) + ",up"
    source = written(tmp_path / "s.csv", f"{first}\n{row}\n")
    log = RowLog("s", "skip")
    assert len(list(read_series(source, log))) == 1
    assert log.faults == [(2, fault)]
    with pytest.raises(DataError, match="line 2"):
        list(read_series(source, RowLog("s")))


def test_a_column_of_a_fault_is_counted_with_the_label(tmp_path: Path) -> None:
    source = written(tmp_path / "s.csv", "up,1,2\ndown,1,x\n")
    log = RowLog("s", "skip")
    list(read_series(source, log, TableOptions(header="no"), label_column="1"))
    assert log.faults == [(2, "'x' in column 3 is no finite number")]


def test_a_label_in_the_first_column_is_told_how_to_be_named(tmp_path: Path) -> None:
    source = written(tmp_path / "s.csv", "up,1,2\ndown,3,4\n")
    with pytest.raises(DataError, match=r"line 1: 'up' in column 1.*--label-column 1"):
        list(read_series(source, RowLog("s")))
