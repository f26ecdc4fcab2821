"""Rows of tables: quotes, ragged rows, blank lines, odd line ends, each with its right value."""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.data.labelled import LabelledText, read_labelled
from elman.data.row_log import RowLog
from elman.data.tables import HeaderRule, TableOptions, TableRows
from elman.errors import DataError, SettingError
from elman.text.reading import TextSource


class Text:
    """A text in memory that is read like a file."""

    def __init__(self, text: str, name: str = "x.tsv", piece: int = 7) -> None:
        self.text, self.name, self.piece = text, name, piece

    def chunks(self) -> Iterator[str]:
        for start in range(0, len(self.text), self.piece):
            yield self.text[start : start + self.piece]


def rows_of(
    text: str,
    name: str = "x.tsv",
    *,
    header: HeaderRule = "no",
    log: RowLog | None = None,
    delimiter: str = ",",
    wanted: tuple[str, ...] = (),
    least_columns: int = 1,
) -> list[tuple[int, tuple[object, ...]]]:
    options = TableOptions(header=header, delimiter=delimiter)
    log = log or RowLog(name)
    rows = TableRows(Text(text, name), options, log, wanted=wanted, least_columns=least_columns)
    return [(row.line, row.fields) for row in rows]


def written(path: Path, content: str | bytes) -> TextSource:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return TextSource(str(path))


def labelled(source: TextSource, log: RowLog | None = None) -> list[LabelledText]:
    return list(read_labelled(source, log or RowLog(source.name)))


def test_a10_quoted_commas_line_ends_quotes_and_a_huge_field_are_read_as_they_are(
    tmp_path: Path,
) -> None:
    huge = "x" * 200_000
    content = f'text,label\n"red, green",pos\n"two\nlines",neg\n"he said ""no""",neg\n{huge},pos\n'
    read = labelled(written(tmp_path / "a.csv", content))
    assert [row.text for row in read] == ["red, green", "two\nlines", 'he said "no"', huge]
    assert [row.labels for row in read] == [("pos",), ("neg",), ("neg",), ("pos",)]
    assert [row.line for row in read] == [2, 3, 5, 6]


def test_reading_csv_leaves_the_limit_of_the_process_as_it_was() -> None:
    before = csv.field_size_limit()
    rows = iter(TableRows(Text("a,b\nc,d\n", "x.csv"), TableOptions(header="no"), RowLog("x")))
    next(rows)
    assert csv.field_size_limit() == before


RAGGED = "good\tpos\nno label here\nbad\tneg\textra\n\n"


def test_a11_ragged_rows_are_refused_by_their_lines_and_a_blank_line_at_the_end_is_no_row(
    tmp_path: Path,
) -> None:
    source = written(tmp_path / "r.tsv", RAGGED)
    with pytest.raises(DataError) as caught:
        labelled(source)
    told = str(caught.value)
    assert "2 rows that cannot be used" in told
    assert "line 2: 1 column, expected 2; line 3: 3 columns, expected 2" in told
    assert "line 4" not in told


def test_a11_with_skipping_one_row_is_kept_and_two_are_counted(tmp_path: Path) -> None:
    source = written(tmp_path / "r.tsv", RAGGED)
    log = RowLog(source.name, "skip")
    assert [(row.text, row.labels) for row in labelled(source, log)] == [("good", ("pos",))]
    assert (log.rows, log.num_faults, log.blank_lines) == (1, 2, 0)
    assert any("2 rows skipped" in notice for notice in log.notices())


def test_a_ragged_first_row_does_not_make_the_good_ones_ragged() -> None:
    log = RowLog("x", "skip")
    assert rows_of("no label\na\tx\nb\ty\n", log=log, least_columns=2) == [
        (2, ("a", "x")),
        (3, ("b", "y")),
    ]
    assert log.faults == [(1, "1 column, expected at least 2")]


def test_blank_lines_between_rows_are_counted_and_those_at_the_end_are_not() -> None:
    log = RowLog("x")
    assert rows_of("a\tb\n\n   \nc\td\n\n\n", log=log) == [(1, ("a", "b")), (4, ("c", "d"))]
    assert log.blank_lines == 2


def test_only_line_feeds_end_a_row() -> None:
    signs = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    assert rows_of(f"a{signs}b\t{signs}x\n") == [(1, (f"a{signs}b", f"{signs}x"))]
    assert rows_of(f"a{signs}b,x\n", "x.csv") == [(1, (f"a{signs}b", "x"))]
    line = json.dumps([f"a{signs}b", "x"], ensure_ascii=False)
    assert rows_of(line + "\n", "x.jsonl") == [(1, (f"a{signs}b", "x"))]


def test_a04_crlf_is_in_no_label_and_a_lone_return_survives(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.csv"):
        border = "\t" if name.endswith("tsv") else ","
        content = f"a\rb{border}pos\r\nc{border}neg\r\n".encode()
        read = labelled(written(tmp_path / name, content))
        assert [(row.text, row.labels) for row in read] == [("a\rb", ("pos",)), ("c", ("neg",))]


def test_a05_a_nul_cuts_nothing(tmp_path: Path) -> None:
    for name, border in (("a.tsv", "\t"), ("a.csv", ",")):
        read = labelled(written(tmp_path / name, f"good\0bad{border}pos\n"))
        assert read[0][:2] == ("good\0bad", ("pos",))


def test_a16_gzip_is_known_by_its_bytes_and_its_format_by_the_ending_in_front(
    tmp_path: Path,
) -> None:
    packed = gzip.compress(b"text,label\na,x\n")
    for name in ("a.csv.gz", "a.csv"):
        assert [row[:2] for row in labelled(written(tmp_path / name, packed))] == [("a", ("x",))]


def test_a01_a_mark_is_in_no_name_and_in_no_cell(tmp_path: Path) -> None:
    content = "\ufefftext\tlabel\na\tx\n"
    assert [row[:2] for row in labelled(written(tmp_path / "a.tsv", content))] == [("a", ("x",))]


def test_a_tab_is_always_a_border_and_quotation_marks_are_text() -> None:
    assert rows_of('"a\tb"\n') == [(1, ('"a', 'b"'))]
    assert rows_of("a\t\tb\n") == [(1, ("a", "", "b"))]


@pytest.mark.parametrize(
    ("text", "rows", "fault"),
    [
        ('a,"b\nc,d\n', [], (1, "a quotation mark is opened and never closed (up to line 2)")),
        (
            'a,"b"c\nd,e\n',
            [(2, ("d", "e"))],
            (1, "a quoted cell goes on after its closing quotation mark"),
        ),
    ],
)
def test_a_misplaced_quotation_mark_is_a_fault_with_its_line(
    text: str, rows: list[object], fault: tuple[int, str]
) -> None:
    log = RowLog("x", "skip")
    if rows:
        assert rows_of(text, "x.csv", log=log) == rows
    else:
        with pytest.raises(DataError, match="no row that can be used"):
            rows_of(text, "x.csv", log=log)
    assert log.faults == [fault]


def test_a_quotation_mark_within_an_unquoted_cell_is_text() -> None:
    assert rows_of('a"b,5" nails\n', "x.csv") == [(1, ('a"b', '5" nails'))]


def test_a_header_is_taken_only_when_told_or_certain() -> None:
    text = "text\tlabel\na\tx\n"
    data = [(2, ("a", "x"))]
    assert rows_of(text, header="auto") == data
    assert rows_of(text.upper(), header="auto") == [(2, ("A", "X"))]
    assert len(rows_of(text, header="no")) == 2
    for first in ("hello\tgreeting", "text\ttext", "text\tenglish", "text"):
        assert len(rows_of(f"{first}\n{first}\n", header="auto")) == 2
    assert rows_of("en\tfr\na\tx\n", header="yes") == data
    assert rows_of("en\tfr\na\tx\n", header="auto", wanted=("fr", "1")) == data
    assert len(rows_of("en\tfr\na\tx\n", header="auto", wanted=("2", "1"))) == 2


def test_columns_are_found_by_name_by_number_and_from_the_end() -> None:
    rows = TableRows(Text("id\ttext\tlabel\n1\ta\tx\n"), TableOptions(), RowLog("x"))
    assert [rows.column(name) for name in ("text", "1", "-1", "label")] == [1, 0, 2, 2]
    with pytest.raises(DataError, match=r"did you mean 'label'.*allowed: id, text, label"):
        rows.column("labl")
    for name in ("0", "4", "-4"):
        with pytest.raises(DataError, match="no such column"):
            rows.column(name)


def test_a_name_that_the_header_has_twice_chooses_no_column() -> None:
    rows = TableRows(Text("a\ta\n1\t2\n"), TableOptions(header="yes"), RowLog("x"))
    with pytest.raises(DataError, match="several columns of that name"):
        rows.column("a")


def test_json_lines_are_read_by_key_and_by_place() -> None:
    objects = '{"text": "a", "n": 1, "label": "x"}\n\n{"label": "y", "text": "b\\nc", "n": 2.5}\n'
    assert rows_of(objects, "x.jsonl") == [
        (1, ("a", "1", "x")),
        (3, ("b\nc", "2.5", "y")),
    ]
    assert rows_of('["a", ["x", "y"]]\n["b", null]\n', "x.jsonl") == [
        (1, ("a", ("x", "y"))),
        (2, ("b", None)),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "JSON ends or breaks at character 2"),
        ('["a"]', "a list among objects"),
        ("7", "no object and no list"),
        ('{"text": "a", "text": "b"}', "the same key twice"),
        ('{"text": "\\ud83c"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested too deeply"),
        ('{"text": ' + "9" * 5000 + "}", ""),
    ],
)
def test_a_line_that_is_no_json_row_is_a_fault_with_its_number(line: str, why: str) -> None:
    log = RowLog("x", "skip")
    rows = rows_of(f'{{"text": "a"}}\n{line}\n{{"text": "b"}}\n', "x.jsonl", log=log)
    assert rows == [(1, ("a",)), (3, ("b",))]
    assert log.faults[0].line == 2
    assert why in log.faults[0].what


def test_a_json_document_over_many_lines_is_refused_at_its_first_line() -> None:
    with pytest.raises(DataError, match=r"is not JSON Lines.*line 1"):
        rows_of('{\n"text": "a"\n}\n', "x.json")


def test_a_table_that_is_too_narrow_says_which_sign_may_part_it() -> None:
    with pytest.raises(DataError, match=r"too few columns.*';' stands in the first row"):
        rows_of("a;b\nc;d\n", "x.csv", least_columns=2)
    assert rows_of("a;b\n", "x.csv", delimiter=";") == [(1, ("a", "b"))]
    with pytest.raises(SettingError, match="one character"):
        rows_of("a;b\n", "x.csv", delimiter="ab")


def test_a_file_of_nothing_but_a_header_or_blank_lines_is_refused() -> None:
    for text in ("text\tlabel\n", "\n \n"):
        with pytest.raises(DataError, match="no row that can be used"):
            rows_of(text, header="auto")


def test_rows_come_while_the_file_is_read_and_none_is_kept() -> None:
    class Endless:
        name = "endless.csv"
        given = 0

        def chunks(self) -> Iterator[str]:
            while True:
                self.given += 1
                yield 'text,"a\nlabel"\n' * 100

    source = Endless()
    rows = TableRows(source, TableOptions(header="no"), RowLog("x"))
    assert len(list(islice(rows, 1000))) == 1000
    assert source.given <= 11


def many(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[str]]]:
    return st.integers(2, 4).flatmap(
        lambda width: st.lists(
            st.lists(texts, min_size=width, max_size=width), min_size=1, max_size=6
        )
    )


anything = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.text(
    st.sampled_from('a,"\r\n\t ;\u2028\x85\0'), max_size=8
)


@given(many(anything), st.sampled_from(["\r\n", "\n"]), st.integers(1, 9))
def test_what_the_csv_module_writes_is_read_back(
    table: list[list[str]], line_end: str, piece: int
) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator=line_end).writerows(table)
    # What elman.text.reading does to every text: CRLF is a line end, within quotes too.
    text = out.getvalue().replace("\r\n", "\n")
    source = Text(text, "x.csv", piece)
    rows = list(TableRows(source, TableOptions(header="no"), RowLog("x")))
    expected = [[cell.replace("\r\n", "\n") for cell in row] for row in table]
    # A \r at the end of a last cell, unquoted, becomes part of a line end \r\n.
    assert [list(row.fields) for row in rows] == [
        row if line_end == "\r\n" else [*row[:-1], strip_bare_return(row[-1])] for row in expected
    ]
    assert "".join(row.raw + "\n" for row in rows) == text


def strip_bare_return(cell: str) -> str:
    quoted = any(sign in cell for sign in ',"\n')
    return cell if quoted else cell.removesuffix("\r")


@given(many(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\t\n\r"))))
def test_tsv_is_what_stands_between_tabs(table: list[list[str]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in table)
    assert [list(fields) for _, fields in rows_of(text)] == table


@given(st.lists(st.dictionaries(st.sampled_from("ab"), anything, min_size=2), min_size=1))
def test_what_the_json_module_writes_is_read_back(table: list[dict[str, str]]) -> None:
    lines = "".join(
        json.dumps(row, ensure_ascii=index % 2 == 0) + "\n" for index, row in enumerate(table)
    )
    columns = list(table[0])
    assert [list(fields) for _, fields in rows_of(lines, "x.jsonl")] == [
        [row[column] for column in columns] for row in table
    ]


def any_text(signs: str) -> st.SearchStrategy[str]:
    return st.text(st.sampled_from(signs), max_size=60)


@given(any_text('ab,"\n\t\r{}[]:1 \u2028'), st.sampled_from(["x.tsv", "x.csv", "x.jsonl"]))
def test_any_text_gives_rows_or_one_line_of_refusal(text: str, name: str) -> None:
    try:
        rows = rows_of(text, name, header="auto")
    except DataError as error:
        told = str(error)
    else:
        told = ""
        assert rows
    assert "\n" not in told
