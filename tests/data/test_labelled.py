"""Labelled texts from tables and from folders of classes."""

import json
from pathlib import Path

import pytest

from elman.data.labelled import LabelledText, read_labelled
from elman.data.row_log import RowLog
from elman.data.tables import TableOptions
from elman.errors import DataError
from elman.text.reading import TextSource


def written(path: Path, content: str) -> TextSource:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="")
    return TextSource(str(path))


def folder_of(folder: Path, files: dict[str, str]) -> TextSource:
    for name, content in files.items():
        written(folder / name, content)
    return TextSource(str(folder))


def pairs_of(read: list[LabelledText]) -> list[tuple[str, tuple[str, ...]]]:
    return [(row.text, row.labels) for row in read]


def test_text_and_label_stand_where_the_header_says_or_else_first_and_second(
    tmp_path: Path,
) -> None:
    for content in (
        "a b \tx\n",
        "text\tlabel\na b \tx\n",
        "label\ttext\nx\ta b \n",
        "id\tlabel\ttext\n7\t x \ta b \n",
    ):
        source = written(tmp_path / "a.tsv", content)
        assert pairs_of(list(read_labelled(source, RowLog("a")))) == [("a b ", ("x",))]


def test_columns_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    source = written(tmp_path / "a.tsv", "en\tlang\tclass\nhi\ten\tgreeting\n")
    for text, label, labels in (
        ("en", "lang", ("en",)),
        ("en", "class", ("greeting",)),
        ("en", None, ()),
    ):
        read = read_labelled(source, RowLog("a"), text_column=text, label_column=label)
        assert pairs_of(list(read)) == [("hi", labels)]
    chosen = read_labelled(
        source,
        RowLog("a"),
        TableOptions(header="yes"),
        text_column="1",
        label_column="-1",
    )
    assert pairs_of(list(chosen)) == [("hi", ("greeting",))]


def test_three_columns_without_names_do_not_say_where_the_label_is(tmp_path: Path) -> None:
    source = written(tmp_path / "a.tsv", "a\tb\tc\n")
    with pytest.raises(DataError, match="which column holds the label"):
        list(read_labelled(source, RowLog("a")))
    with pytest.raises(DataError, match="text and its label in one column"):
        list(read_labelled(source, RowLog("a"), text_column="2", label_column="2"))


def test_a_row_without_label_is_a_fault_and_never_a_label_of_nothing(tmp_path: Path) -> None:
    source = written(tmp_path / "a.tsv", "a\tx\nb\t\nc\t  \nd\ty\n")
    with pytest.raises(DataError, match="line 2: no label in column 2; line 3: no label"):
        list(read_labelled(source, RowLog("a")))
    log = RowLog("a", "skip")
    assert pairs_of(list(read_labelled(source, log))) == [("a", ("x",)), ("d", ("y",))]
    assert (log.rows, log.num_faults) == (2, 2)


def test_several_labels_are_parted_and_counted_once(tmp_path: Path) -> None:
    source = written(tmp_path / "a.tsv", "a\tx|y | x\nb\tz\nc\tx||y\n")
    log = RowLog("a", "skip")
    read = list(read_labelled(source, log, label_separator="|"))
    assert pairs_of(read) == [("a", ("x", "y")), ("b", ("z",))]
    assert log.faults == [(3, "an empty label in column 2")]


def test_json_gives_several_labels_as_a_list(tmp_path: Path) -> None:
    lines = [{"text": "a", "label": ["x", "y"]}, {"text": "b", "label": 3}]
    faulty = [{"text": "c"}, {"text": None, "label": "x"}, {"text": "d", "label": {"x": 1}}]
    content = "".join(json.dumps(line) + "\n" for line in (*lines, *faulty))
    log = RowLog("a", "skip")
    read = list(read_labelled(written(tmp_path / "a.jsonl", content), log))
    assert pairs_of(read) == [("a", ("x", "y")), ("b", ("3",))]
    assert log.faults == [
        (3, "no label in column label"),
        (4, "no text in column text"),
        (5, "no label in column label"),
    ]


def test_d11_a_blank_text_is_left_out_and_counted_or_kept_in_its_place(tmp_path: Path) -> None:
    source = written(tmp_path / "a.tsv", "a\tx\n  \ty\n\nb\tx\n")
    log = RowLog("a")
    assert [row.line for row in read_labelled(source, log)] == [1, 4]
    assert (log.half_blank.count, log.half_blank.first_lines, log.blank_lines) == (1, [2], 1)
    texts = read_labelled(source, RowLog("a"), label_column=None, blank_texts="keep")
    assert [(row.text, row.line) for row in texts] == [("a", 1), ("  ", 2), ("", 3), ("b", 4)]


def test_d11_each_line_of_a_file_of_texts_alone_has_its_row(tmp_path: Path) -> None:
    source = written(tmp_path / "a.txt", "x\n\n   \ny\n")
    read = read_labelled(source, RowLog("a"), label_column=None, blank_texts="keep")
    assert [row.text for row in read] == ["x", "", "", "y"]


def test_a_folder_of_files_has_a_class_a_file_and_a_text_a_line(tmp_path: Path) -> None:
    source = folder_of(
        tmp_path / "names",
        {"Greek.txt": "Adamou\n\nAlexis\n", "Irish.txt": "Adam", "LICENCE.txt": "mine\n"},
    )
    log = RowLog("names")
    read = list(read_labelled(source, log))
    assert [(row.text, row.labels, row.line) for row in read] == [
        ("Adamou", ("Greek",), 1),
        ("Alexis", ("Greek",), 3),
        ("Adam", ("Irish",), 1),
    ]
    assert read[0].file.endswith("Greek.txt")
    assert (log.rows, log.blank_lines) == (3, 1)
    assert any("LICENCE.txt" in notice for notice in log.notices())


def test_a_folder_of_folders_has_a_class_a_folder_and_a_text_a_file(tmp_path: Path) -> None:
    source = folder_of(
        tmp_path / "reviews",
        {
            "pos/2.txt": "good\nfilm\n",
            "pos/1.txt": "nice",
            "neg/deep/1.txt": "bad\n\n",
            "neg/empty.txt": "",
            "neg/blank.txt": " \n",
            "neg/.hidden": "x",
            "index.csv": "x",
        },
    )
    log = RowLog("reviews")
    read = list(read_labelled(source, log))
    assert pairs_of(read) == [
        ("bad\n", ("neg",)),
        ("nice", ("pos",)),
        ("good\nfilm", ("pos",)),
    ]
    assert log.half_blank.count == 1
    told = " ".join(log.notices())
    assert "index.csv" in told
    assert "empty.txt" in told


def test_the_class_of_a_file_is_what_tells_its_name_from_the_others(tmp_path: Path) -> None:
    for number, (files, labels) in enumerate(
        (
            (("a.txt", "b.txt"), ["a", "b"]),
            (("x.pos", "x.neg", "README.md"), ["neg", "pos"]),
            (("x.pos", "x.neg", "y.pos"), ["x.neg", "x.pos", "y.pos"]),
        )
    ):
        source = folder_of(tmp_path / str(number), dict.fromkeys(files, "t\n"))
        read = list(read_labelled(source, RowLog("x")))
        assert [row.labels[0] for row in read] == labels


def test_the_rule_for_folders_can_be_chosen(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "f", {"a/one.txt": "1\n2\n", "b.txt": "3\n"})
    by_file = TableOptions(format="class-files")
    assert pairs_of(list(read_labelled(source, RowLog("f"), by_file))) == [("3", ("b",))]
    assert pairs_of(list(read_labelled(source, RowLog("f")))) == [("1\n2", ("a",))]


def test_a_folder_without_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no class"):
        list(read_labelled(folder_of(tmp_path / "f", {"README": "x"}), RowLog("f")))
    missing = TextSource(str(tmp_path / "missing"))
    with pytest.raises(DataError, match="is no folder"):
        list(read_labelled(missing, RowLog("f"), TableOptions(format="class-files")))
    with pytest.raises(DataError, match="cannot be read"):
        list(read_labelled(missing, RowLog("f")))


def test_names_by_language_are_eighteen_classes(shared_data: Path) -> None:
    log = RowLog("names")
    read = list(read_labelled(TextSource(str(shared_data / "names-by-language")), log))
    labels = {row.labels for row in read}
    assert (len(read), len(labels), log.num_faults) == (20050, 18, 0)
    assert sum(row.labels == ("Russian",) for row in read) == 9384
    assert ("LICENCE",) not in labels


def test_rt_polarity_is_two_classes_of_5331(shared_data: Path) -> None:
    read = list(read_labelled(TextSource(str(shared_data / "rt-polarity")), RowLog("rt")))
    labels = [row.labels[0] for row in read]
    assert {label: labels.count(label) for label in labels} == {"neg": 5331, "pos": 5331}
    assert read[0].text == "simplistic , silly and tedious . "


def test_clinc150_as_json_lines_has_150_intents_of_100_texts(
    shared_data: Path, tmp_path: Path
) -> None:
    document = json.loads((shared_data / "clinc150" / "data_full.json").read_text())
    content = "".join(json.dumps(row) + "\n" for row in document["train"])
    read = list(read_labelled(written(tmp_path / "train.jsonl", content), RowLog("clinc")))
    labels = [row.labels[0] for row in read]
    assert (len(read), len(set(labels))) == (15000, 150)
    assert {labels.count(label) for label in set(labels)} == {100}


def test_an_empty_list_is_given_out_as_none_of_the_labels(tmp_path: Path) -> None:
    content = '{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": []}\n'
    read = list(read_labelled(written(tmp_path / "a.jsonl", content), RowLog("a")))
    assert [(row.labels, row.is_list) for row in read] == [(("x", "y"), True), ((), True)]


def test_messages_name_the_options_and_hint_at_a_first_row_of_names(tmp_path: Path) -> None:
    source = written(tmp_path / "a.csv", "id,review,stars\n1,a,x\n")
    with pytest.raises(DataError, match=r"--label-column; if the first row \(id, review, stars\)"):
        list(read_labelled(source, RowLog("a")))
    with pytest.raises(DataError, match=r"no such column.*--label-column"):
        list(read_labelled(source, RowLog("a"), label_column="star"))
    with pytest.raises(DataError) as caught:
        list(read_labelled(written(tmp_path / "b.csv", "1,a b,x\n2,a,y\n"), RowLog("b")))
    assert "first row" not in str(caught.value)
