"""`elman data check`: what was read is said, for any input, without a traceback."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from elman.errors import ElmanError
from elman.recipes.check_rows import CheckRequest
from elman.recipes.check_tallies import ColumnTally
from elman.recipes.data_check import check_data

Elman = Callable[..., "CompletedProcess[str]"]


def written(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return str(path)


def checked(scratch: Path, request: CheckRequest) -> list[dict[str, Any]]:
    found = check_data(request, scratch).to_json()
    json.dumps(found, allow_nan=False)
    files = found["files"]
    assert isinstance(files, list)
    return files


def test_a_table_is_told_with_rows_labels_lengths_and_repeats(tmp_path: Path) -> None:
    content = "text,label\nab,x\nabcd,x\n\nab,x\nab,y\n,y\nabcdef,y\n"
    request = CheckRequest((written(tmp_path / "a.csv", content),), max_length=3)
    (file,) = checked(tmp_path, request)
    assert file["format"] == "csv, 2 columns, columns named in a header"
    assert (file["rows"], file["blank_lines"]) == (6, 1)
    assert file["partly_blank"] == {"count": 1, "first_lines": [7]}
    assert file["repeated"] == {"count": 1, "first_lines": [5]}
    assert file["same_input_other_answer"] == {"count": 1, "first_lines": [6]}
    text, label = file["columns"]
    assert (text["is_input"], label["is_input"]) == (True, False)
    assert text["lengths"] == {"least": 2, "median": 2, "p90": 6, "p99": 6, "most": 6}
    assert text["too_long"] == {"count": 2, "first_lines": [3, 8], "cut_off": 4}
    assert (text["labels"], label["labels"]) == (None, {"x": 3, "y": 3})


def test_a11_ragged_rows_are_listed_with_their_lines(elman: Elman, tmp_path: Path) -> None:
    path = written(tmp_path / "r.tsv", "good\tpos\nno label here\nbad\tneg\textra\n\n")
    done = elman("data", "check", path, "--json")
    (file,) = json.loads(done.stdout)["files"]
    assert (done.returncode, file["rows"], file["blank_lines"]) == (1, 1, 0)
    assert file["unusable"] == {
        "count": 2,
        "first": [
            {"line": 2, "what": "1 column, expected 2"},
            {"line": 3, "what": "3 columns, expected 2"},
        ],
    }


def test_rows_and_symbols_of_a_test_file_are_held_against_the_training_file(
    tmp_path: Path,
) -> None:
    train = written(tmp_path / "train.tsv", "a b\tx\nc d\ty\ne\tx\n")
    test = written(tmp_path / "test.tsv", "a b\tx\nc d\tz\nq q a\tx\n")
    first, second = checked(tmp_path, CheckRequest((train, test)))
    assert first["columns"][0]["unknown"] is None
    assert second["shared"] == [
        {
            "with": train,
            "rows": {"count": 1, "first_lines": [1]},
            "inputs": {"count": 2, "first_lines": [1, 2]},
        }
    ]
    unknown = second["columns"][0]["unknown"]
    assert (unknown["symbols"], unknown["words"], unknown["word_rate"]) == (2, 2, 2 / 7)
    assert unknown["symbol_list"] == [
        {"code": "U+0071", "name": "LATIN SMALL LETTER Q", "count": 2}
    ]
    assert second["columns"][1]["unknown"]["word_list"] == [{"word": "z", "count": 1}]


def test_odd_characters_are_told_by_code_point(tmp_path: Path) -> None:
    content = "a\u2028b\u00a0\r\ncafe\u0301\0\ufeff\r\rx"
    (file,) = checked(tmp_path, CheckRequest((written(tmp_path / "a.txt", content),)))
    assert {one["code"]: one["count"] for one in file["odd_characters"]} == {
        "U+000D": 2,
        "U+0000": 1,
        "U+00A0": 1,
        "U+2028": 1,
        "U+FEFF": 1,
    }
    assert file["lines_not_nfc"] == {"count": 1, "first_lines": [2]}
    (text,) = file["files"]
    assert (text["crlf"], text["lone_returns"], text["nul"], text["invisible"]) == (1, 2, 1, 1)
    assert (text["last_line_ended"], file["rows"]) == (False, 2)


def test_conll_is_counted_in_tokens_and_tags(tmp_path: Path) -> None:
    content = "the D\ncat N\n\na D\n\nthe D\ncat V\n"
    request = CheckRequest((written(tmp_path / "a.conll", content),), max_length=1)
    (file,) = checked(tmp_path, request)
    tokens, tags = file["columns"]
    assert (file["rows"], file["unit"], tokens["lengths"]["most"]) == (3, "tokens", 2)
    assert tags["labels"] == {"D": 3, "N": 1, "V": 1}
    assert tokens["too_long"]["cut_off"] == 2
    assert file["same_input_other_answer"] == {"count": 1, "first_lines": [6]}


def test_series_and_folders_and_parallel_files_are_told_too(tmp_path: Path) -> None:
    series = written(tmp_path / "s.csv", "label,t0,t1\nup,1,2\ndown,3,x\nup,4,\n")
    (file,) = checked(tmp_path, CheckRequest((series,), series=True))
    assert file["unusable"]["first"] == [{"line": 3, "what": "'x' in column 3 is no finite number"}]
    values, label = file["columns"]
    assert (values["lengths"]["least"], values["lengths"]["most"]) == (1, 2)
    assert label["labels"] == {"up": 2}

    folder = tmp_path / "f"
    folder.mkdir()
    written(folder / "x.pos", "a\nb\n")
    written(folder / "x.neg", "a\n")
    (file,) = checked(tmp_path, CheckRequest((str(folder),)))
    assert file["columns"][1]["labels"] == {"pos": 2, "neg": 1}
    assert file["same_input_other_answer"] == {"count": 1, "first_lines": []}

    sides = (written(tmp_path / "x", "a\n\nb\n"), written(tmp_path / "y", "A\nB\n\n"))
    (file,) = checked(tmp_path, CheckRequest(sides, parallel=True))
    assert (file["rows"], file["partly_blank"]["first_lines"]) == (3, [2, 3])


def test_lengths_are_those_that_a_share_of_the_rows_does_not_exceed() -> None:
    column = ColumnTally("text")
    for length in range(1, 101):
        column.add(length, "x", words=(), length=length)
    assert column.percentiles() == {"least": 1, "median": 50, "p90": 90, "p99": 99, "most": 100}


def test_standard_input_and_gzip_are_checked(elman: Elman, tmp_path: Path) -> None:
    done = elman("data", "check", "-", "--format", "tsv", stdin="a\tx\nb\ty\n")
    assert done.returncode == 0, done.stderr
    assert "standard input" in done.stdout
    packed = written(tmp_path / "a.tsv.gz", gzip.compress(b"a\tx\nb\ty\n"))
    (file,) = json.loads(elman("data", "check", packed, "--json").stdout)["files"]
    assert (file["rows"], file["files"][0]["bytes"]) == (2, 8)


def test_what_is_printed_holds_neither_markup_nor_controls_of_the_file(
    elman: Elman, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.tsv", "text\tlabel\nx\t[red]b\x1b[31m\n")
    done = elman("data", "check", path)
    assert done.returncode == 0
    assert "[red]b\\x1b[31m" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing to check"),
        (("missing.tsv",), "does not exist"),
        (("-", "-"), "only once"),
        (("x", "--parallel"), "two by two"),
        (("x", "--max-length", "-1"), "0 or more"),
        (("x", "--format", "csv", "--delimiter", "ab"), "one character"),
        (("x", "--format", "tsv", "--input-column", "nme"), "no such column"),
        (("x", "--format", "class-files"), "is no folder"),
        (("bytes",), "not valid utf-8"),
        (("empty",), "is empty"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_exit_status_two(
    elman: Elman, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    files = {
        "x": written(tmp_path / "x", "a\tb\n"),
        "bytes": written(tmp_path / "bytes", b"a\xff\n"),
        "empty": written(tmp_path / "empty", b""),
    }
    done = elman("data", "check", *(files.get(argument, argument) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr


def test_no_input_of_any_format_is_a_fault_of_the_program(tmp_path: Path) -> None:
    seed = 11
    draw = random.Random(seed)
    signs = ["a", "#", "1", "-", ".", '"', ",", "\t", "\n", "\r", " ", "{", "}", "[", "]", ":", "0"]
    signs += ["\u2028", "\x85", "\0", "\ufeff", '{"text": "a"}', "\\ud800", "label", "1\ta\ta\tX"]
    for number in range(300):
        text = "".join(draw.choices(signs, k=draw.randrange(1, 60)))
        path = written(tmp_path / "any", text)
        for kind in ("text", "tsv", "csv", "jsonl", "conll", "conllu", "auto"):
            request = CheckRequest((path,), format=kind, series=number % 5 == 0 and kind == "csv")
            try:
                (file,) = checked(tmp_path, request)
            except ElmanError as error:
                assert "\n" not in str(error)  # noqa: PT017 — either outcome is right
                continue
            assert file["rows"] + file["unusable"]["count"] >= 1, f"seed {seed}"


def test_the_real_files_hold_what_they_are_known_to_hold(shared_data: Path, tmp_path: Path) -> None:
    for name, kind, rows in (
        ("names-by-language", "auto", 20050),
        ("rt-polarity", "auto", 10662),
        ("g2p-sigmorphon2021/jpn_hira_dev.tsv", "auto", 1000),
        ("ud-english-ewt/en_ewt-ud-dev.conllu", "auto", 2001),
        ("ner-wikigold/wikigold.conll.txt", "auto", 1696),
    ):
        request = CheckRequest((str(shared_data / name),), format=kind)
        (file,) = checked(tmp_path, request)
        assert (file["rows"], file["unusable"]["count"]) == (rows, 0)


def test_only_the_label_is_the_answer_whatever_other_columns_there_are(tmp_path: Path) -> None:
    table = written(tmp_path / "a.csv", "id,text,label\n1,a,x\n2,a,x\n3,a,y\n")
    (file,) = checked(tmp_path, CheckRequest((table,)))
    assert file["repeated"] == {"count": 1, "first_lines": [3]}
    assert file["same_input_other_answer"] == {"count": 1, "first_lines": [4]}
    assert [column["is_answer"] for column in file["columns"]] == [False, False, True]
    (file,) = checked(tmp_path, CheckRequest((table,), label_column="id"))
    assert file["same_input_other_answer"]["count"] == 2
    unnamed = written(tmp_path / "b.csv", "a,x,1\na,x,2\n")
    (file,) = checked(tmp_path, CheckRequest((unnamed,)))
    assert file["same_input_other_answer"]["count"] == 0
    (file,) = checked(tmp_path, CheckRequest((unnamed,), label_column="3"))
    assert file["same_input_other_answer"]["count"] == 1
    pairs = written(tmp_path / "c.csv", "id,source,target\n1,a,b\n2,a,b\n3,a,\n")
    (file,) = checked(tmp_path, CheckRequest((pairs,)))
    assert (file["unusable"]["count"], file["partly_blank"]["count"]) == (0, 1)
    assert file["same_input_other_answer"]["first_lines"] == [4]


def test_rows_that_training_refuses_cannot_be_used_and_all_of_them_is_no_fault_of_the_file(
    elman: Elman, tmp_path: Path
) -> None:
    table = written(tmp_path / "a.tsv", "text\tlabel\na\tx\nb\t\n")
    done = elman("data", "check", table, "--json")
    (file,) = json.loads(done.stdout)["files"]
    assert (done.returncode, file["rows"]) == (1, 1)
    assert file["unusable"]["first"] == [{"line": 3, "what": "no label in column label"}]
    (file,) = checked(tmp_path, CheckRequest((table,), label_column="none"))
    assert file["unusable"]["count"] == 0
    series = written(tmp_path / "s.csv", "up,1,2\ndown,3,4\n")
    done = elman("data", "check", series, "--series")
    assert (done.returncode, done.stderr) == (1, "")
    assert "--label-column 1" in " ".join(done.stdout.split())
    numbers = written(tmp_path / "n.jsonl", '{"text": 5, "label": "x"}\n')
    (file,) = checked(tmp_path, CheckRequest((numbers,)))
    assert (file["rows"], file["unusable"]["count"]) == (0, 1)


def test_the_label_of_a_series_is_told_as_words(elman: Elman, tmp_path: Path) -> None:
    series = written(tmp_path / "s.csv", "kind,t0,t1\nup,1,2\ndown,3,4\n")
    done = elman("data", "check", series, "--series", "--label-column", "kind")
    (label,) = (line for line in done.stdout.splitlines() if line.startswith("label "))
    assert label.split()[-2:] == ["characters,", "answer"]


def test_an_empty_list_is_a_row_where_others_have_several_labels(tmp_path: Path) -> None:
    rows = '{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": []}\n'
    (file,) = checked(tmp_path, CheckRequest((written(tmp_path / "a.jsonl", rows),)))
    assert (file["rows"], file["unusable"]["count"]) == (2, 0)
    assert file["partly_blank"]["count"] == 0
    rows = '{"text": "a", "labels": "x"}\n{"text": "b", "labels": []}\n'
    (file,) = checked(tmp_path, CheckRequest((written(tmp_path / "b.jsonl", rows),)))
    assert [fault["line"] for fault in file["unusable"]["first"]] == [2]
