"""From labelled files to arrays: what is learnt from training alone, what is told, what repeats."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.errors import DataError
from elman.recipes.classify import BASE, balanced_weights
from elman.recipes.label_preparing import PreparedLabels, prepare_labels


def prepared(tmp_path: Path, train: str | Path, *overrides: str, **files: str) -> PreparedLabels:
    """Prepare `train` (the text of a TSV, or a folder); `files` are the texts of valid and test."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    names = {}
    for name, text in {"train": train, **files}.items():
        path = text if isinstance(text, Path) else tmp_path / f"{name}.tsv"
        if isinstance(text, str):
            path.write_text(text, encoding="utf-8")
        names[name] = (str(path),)
    settings: Settings = apply_overrides(BASE, overrides)
    return prepare_labels(replace(settings, data=replace(settings.data, **names)), scratch)


ROWS = "".join(
    f"text {n % 5} of {'good' if n % 2 else 'bad'}\t{'pos' if n % 2 else 'neg'}\n"
    for n in range(40)
)


def test_vocabulary_and_labels_are_those_of_training_alone(tmp_path: Path) -> None:
    done = prepared(tmp_path, "a b\tx\nb c\ty\n", valid="d a\tx\n", test="e f a\tz\na\ty\n")
    tokenizer = json.loads(done.vocabularies()["tokenizer.json"])
    assert {"a", "b", "c"} < set(tokenizer["model"]["vocab"])
    assert not {"d", "e", "f"} & set(tokenizer["model"]["vocab"])
    assert done.labels.labels == ("x", "y")
    assert (done.parts["valid"].unknown, done.parts["test"].unknown) == (1, 2)
    assert done.parts["test"].gold == (("z",), ("y",))
    assert done.parts["test"].labels.lengths_N.tolist() == [0, 1]
    assert any("a label that training does not have (z)" in told for told in done.notices)


def test_scaling_is_that_of_training_alone(tmp_path: Path) -> None:
    done = prepared(
        tmp_path,
        "1\t2\t3\tup\n3\t2\t1\tdown\n",
        "model.input=series",
        valid="100\t200\tup\n",
        test="-50\tdown\n",
    )
    scaling = json.loads(done.vocabularies()["scaling.json"])
    assert scaling["mean"] == 2.0
    assert scaling["deviation"] == pytest.approx(np.sqrt(2 / 3), rel=1e-15)
    assert scaling["num_training_values"] == 6
    assert done.parts["valid"].rows.row(0).tolist() == pytest.approx(
        [98 / np.sqrt(2 / 3), 198 / np.sqrt(2 / 3)], rel=1e-6
    )


def test_parts_are_split_off_evenly_and_never_share_a_row(tmp_path: Path) -> None:
    done = prepared(tmp_path, ROWS)
    assert {name: part.num_rows for name, part in done.parts.items()} == {
        "train": 32,
        "valid": 4,
        "test": 4,
    }
    assert sorted(done.parts["test"].gold) == [("neg",)] * 2 + [("pos",)] * 2


def test_repeats_are_told_and_dropped_only_where_asked(tmp_path: Path) -> None:
    train = "a b\tx\na b\tx\na b\ty\nc\ty\n"
    done = prepared(tmp_path, train, "data.valid_fraction=0", test="c\ty\nd\tx\n")
    assert "train: 1 row occurs twice with the same label (line 2)" in done.notices
    assert "train: 1 row occurs before with another label (line 3)" in done.notices
    assert any(
        told.startswith("test: 1 row of 2 is in training too (line 1)") for told in done.notices
    )
    assert done.parts["train"].num_rows == 4
    dropped = prepared(
        tmp_path, train, "data.valid_fraction=0", "data.repeats=drop", test="c\ty\nd\tx\n"
    )
    assert dropped.parts["train"].num_rows == 3


def test_long_texts_are_cut_and_counted(tmp_path: Path) -> None:
    done = prepared(
        tmp_path,
        "a b c d\tx\nb c\ty\n",
        "data.max_length=3",
        "data.valid_fraction=0",
        test="a\tx\n",
    )
    assert done.parts["train"].rows.lengths_N.tolist() == [3, 2]
    assert any("1 row read up to the first 3 tokens" in told for told in done.notices)


def test_a_row_without_a_label_or_of_another_width_is_told_with_its_line(tmp_path: Path) -> None:
    text = "good\tpos\nno label here\nbad\tneg\textra\nfine\tneg\n\n"  # case A11
    with pytest.raises(DataError, match=r"line 2: 1 column, expected 2; line 3: 3 columns"):
        prepared(tmp_path, text)
    whole = ("data.valid_fraction=0", "data.test_fraction=0")
    done = prepared(tmp_path, text, "data.bad_rows=skip", *whole)
    assert done.parts["train"].gold == (("pos",), ("neg",))
    assert any("2 rows skipped" in told for told in done.notices)


def test_quoted_cells_hold_commas_and_line_ends(tmp_path: Path) -> None:  # case A10
    path = tmp_path / "rows.csv"
    path.write_text(
        'text,label\n"red, green",pos\n"two\nlines",neg\n"he said ""no""",neg\n'
        f"{'long ' * 40_000},pos\n",
        encoding="utf-8",
    )
    done = prepared(
        tmp_path, path, "data.valid_fraction=0", "data.test_fraction=0", "data.max_length=0"
    )
    train = done.parts["train"]
    assert train.gold == (("pos",), ("neg",), ("neg",), ("pos",))
    assert train.rows.lengths_N.tolist() == [2, 2, 3, 40_000]


def test_a_file_of_tagged_words_is_refused_with_the_right_command(tmp_path: Path) -> None:  # A13
    path = tmp_path / "some.conllu"
    path.write_text("1\tle\t_\tDET\t_\t_\t_\t_\t_\t_\n\n", encoding="utf-8")
    with pytest.raises(DataError, match="elman train tag"):
        prepared(tmp_path, path)


def test_one_label_alone_leaves_nothing_to_tell_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing to tell apart.*'x' alone"):
        prepared(tmp_path, "a\tx\nb\tx\n", "data.valid_fraction=0", "data.test_fraction=0")


def test_several_labels_come_from_a_separator_or_from_lists_of_json(tmp_path: Path) -> None:
    done = prepared(
        tmp_path,
        "a\tx,y\nb\ty\nc\tx\n",
        "data.label_separator=,",
        "data.valid_fraction=0",
        "data.test_fraction=0",
    )
    assert done.labels.answers == "several"
    assert [done.parts["train"].labels.line(n).tolist() for n in range(3)] == [[0, 1], [1], [0]]
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": ["x"]}\n')
    done = prepared(tmp_path, path, "data.valid_fraction=0", "data.test_fraction=0")
    assert (done.labels.labels, done.labels.answers) == (("x", "y"), "several")


def test_balanced_weights_let_every_label_weigh_the_same(tmp_path: Path) -> None:
    fractions = ("data.valid_fraction=0", "data.test_fraction=0")
    done = prepared(tmp_path, "a\tx\nb\tx\nc\tx\nd\ty\n", *fractions)
    weights_C = balanced_weights(done)
    assert weights_C.tolist() == [4 / 6, 2.0]
    assert (weights_C * torch.tensor([3, 1])).sum().item() == pytest.approx(4.0)  # mean 1 over rows
    several = prepared(tmp_path, "a\tx,y\nb\tx\nc\tx\nd\ty\n", "data.label_separator=,", *fractions)
    assert balanced_weights(several).tolist() == [1 / 3, 1.0]


def test_classes_of_a_folder_are_labels(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    folder.mkdir()
    (folder / "de.txt").write_text("der Hund\n\ndie Katze\n", encoding="utf-8")
    (folder / "en.txt").write_text("the dog\n", encoding="utf-8")
    done = prepared(tmp_path, folder, "data.valid_fraction=0", "data.test_fraction=0")
    assert done.labels.labels == ("de", "en")
    assert done.labels.counts == (2, 1)


def test_a_row_of_no_label_fits_where_rows_have_several_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    several = '{"text": "a b", "labels": ["x", "y"]}\n{"text": "c", "labels": []}\n' * 6
    path.write_text(several, encoding="utf-8")
    done = prepared(tmp_path, path, "data.valid_fraction=0", "data.test_fraction=0")
    assert done.labels.answers == "several"
    assert done.parts["train"].gold.count(()) == 6
    path.write_text('{"text": "a", "labels": ["x"]}\n{"text": "c", "labels": []}\n' * 6)
    done = prepared(tmp_path, path, "data.valid_fraction=0", "data.test_fraction=0")
    assert done.labels.answers == "several"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "c", "label": []}\n' * 6)
    with pytest.raises(DataError, match=r"line 2 of .*a\.jsonl: an empty list of labels"):
        prepared(tmp_path, path)
