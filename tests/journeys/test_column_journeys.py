"""Which column is read, and what is said where a file does not tell: no guess, no silence."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from elman.errors import DataError, SettingError
from elman.recipes.classifying import open_classifier, score_labelled
from elman.recipes.predicting import predict_file
from elman.recipes.prediction_request import PredictRequest

Elman = Callable[..., "CompletedProcess[str]"]
BRIEF = ("--set=model.hidden_size=8", "--set=training.updates=2")


def trained(elman: Elman, folder: Path, verb: str, name: str, content: str, *options: str) -> Path:
    data, run = folder / name, folder / "run"
    data.write_text(content, encoding="utf-8")
    done = elman("train", verb, "--data", data, "--out", run, *BRIEF, *options)
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="module")
def reviews_run(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = "".join(
        f"{'good' if n % 2 else 'bad'} film {n % 5}\t{'pos' if n % 2 else 'neg'}\n"
        for n in range(40)
    )
    folder = tmp_path_factory.mktemp("reviews")
    return trained(elman, folder, "classify", "r.tsv", f"text\tlabel\n{rows}", "--level=word")


@pytest.fixture(scope="module")
def pairs_run(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = "".join(f"{'ab' * (1 + n % 4)}{'c' * (n % 3)}\t{'ba' * (n % 5)}c\n" for n in range(40))
    folder = tmp_path_factory.mktemp("pairs")
    return trained(elman, folder, "translate", "p.tsv", rows, "--level=char")


@pytest.fixture(scope="module")
def series_run(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = "".join(f"{n},{n + 1},{n % 3},{'up' if n % 2 else 'down'}\n" for n in range(40))
    folder = tmp_path_factory.mktemp("series")
    return trained(elman, folder, "classify", "s.csv", rows, "--series")


def answered(
    run: Path, folder: Path, name: str, content: str, column: str = ""
) -> tuple[list[str], str]:
    """Return the lines that are answered, and all that a person is told."""
    path, out = folder / name, folder / "answers"
    path.write_text(content, encoding="utf-8")
    told = predict_file(run, PredictRequest(str(path), out=out, column=column))
    return out.read_text(encoding="utf-8").splitlines(), "\n".join(told)


NAMED = "id,review,stars\n1,good film,5\n2,bad film,1\n"


@pytest.mark.parametrize("task", ["reviews_run", "pairs_run"])
def test_of_three_columns_predicting_is_told_which_one_or_refuses(
    task: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(task)
    what = "text" if task == "reviews_run" else "source"
    with pytest.raises(DataError, match=f"which column holds the {what}.*--column") as caught:
        answered(run, tmp_path, "a.csv", NAMED)
    assert "if the first row (id, review, stars) names the columns" in str(caught.value)
    lines, _ = answered(run, tmp_path, "a.csv", NAMED, "review")
    assert len(lines) == 2
    by_header = NAMED.replace("id,review,stars", f"id,{what},score")
    if what == "text":
        assert answered(run, tmp_path, "a.csv", by_header)[0] == lines
    with pytest.raises(DataError, match=r"no such column.*--column"):
        answered(run, tmp_path, "a.csv", NAMED, "4")


@pytest.mark.parametrize("task", ["reviews_run", "pairs_run"])
def test_of_two_columns_without_a_name_the_first_is_read_and_that_is_told(
    task: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(task)
    what = "text" if task == "reviews_run" else "source"
    lines, told = answered(run, tmp_path, "a.csv", "abab,x\nba,y\n")
    assert (len(lines), f"{what} read from column 1 of 2" in told) == (2, True)
    assert "column" not in answered(run, tmp_path, "a.csv", "abab,x\nba,y\n", "1")[1]
    assert "column" not in answered(run, tmp_path, "a.tsv", "abab\nba\n")[1]


def test_json_names_its_text_by_a_key_and_a_number_is_no_text(
    reviews_run: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"2 columns \(a, b\).*--column"):
        answered(reviews_run, tmp_path, "a.jsonl", '{"a": "good", "b": "x"}\n')
    other = '{"label": "x", "a": "good film"}\n'
    assert len(answered(reviews_run, tmp_path, "a.jsonl", other)[0]) == 1
    with pytest.raises(DataError, match=r"line 2: no text in column text, but 5; mend them$"):
        answered(reviews_run, tmp_path, "a.jsonl", '{"text": "good"}\n{"text": 5}\n')


@pytest.mark.parametrize("task", ["reviews_run", "pairs_run", "series_run"])
def test_a_column_is_refused_where_there_are_none_to_choose_from(
    task: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(task)
    told = "reads every column" if task == "series_run" else "a file of lines has no columns"
    with pytest.raises(SettingError, match=told):
        answered(run, tmp_path, "a.txt", "1\n", "2")


@pytest.mark.parametrize("task", ["reviews_run", "pairs_run"])
def test_unknown_tokens_are_told_as_a_share_and_rows_of_nothing_else_are_counted(
    task: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(task)
    known = "good film\n\nbad film\n" if task == "reviews_run" else "abab\n\nba\n"
    assert "unknown" not in answered(run, tmp_path, "a.txt", known)[1]
    strange = "good x\nx y\n" if task == "reviews_run" else "ax\nxy\n"
    told = answered(run, tmp_path, "a.txt", strange)[1]
    assert "75.0 % of the tokens unknown to the run; 1 row has no known token" in told


def test_unknown_tokens_are_told_in_scoring_and_columns_can_be_named(
    elman: Elman, reviews_run: Path, pairs_run: Path, tmp_path: Path
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,said,kind\n1,good x,pos\n2,bad film,neg\n", encoding="utf-8")
    with pytest.raises(DataError, match="name it with --label-column; if the first row"):
        score_labelled(open_classifier(reviews_run), [str(table)])
    done = elman(
        *("score", reviews_run, table, "--json"), "--text-column=said", "--label-column=kind"
    )
    assert json.loads(done.stdout)["num_rows"] == 2, done.stderr
    assert "note: 25.0 % of the tokens unknown to the run" in done.stderr
    table.write_text("id,one,two\n1,abx,ba\n2,ba,ba\n", encoding="utf-8")
    done = elman(
        *("score", pairs_run, table, "--json"), "--source-column=one", "--target-column=two"
    )
    assert json.loads(done.stdout)["num_rows"] == 2, done.stderr
    assert "note: 20.0 % of the tokens unknown to the run" in done.stderr


def test_columns_that_mean_nothing_to_a_run_are_refused_in_scoring(
    elman: Elman, reviews_run: Path, pairs_run: Path, series_run: Path, tmp_path: Path
) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("a\tb\n", encoding="utf-8")
    for run, options, told in (
        (reviews_run, ["--source-column=1"], "allowed: --text-column, --label-column"),
        (pairs_run, ["--label-column=1"], "allowed: --source-column, --target-column"),
        (pairs_run, ["--source-column=1", "--targets", str(table)], "lines have no columns"),
        (series_run, ["--text-column=1"], "--text-column is for texts"),
    ):
        done = elman("score", run, table, *options)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert told in done.stderr


def test_series_without_an_ending_are_read_as_those_of_training(
    elman: Elman, series_run: Path, tmp_path: Path
) -> None:
    done = elman("predict", series_run, "-", stdin="1,2,3\n4,5,6\n")
    assert (done.returncode, done.stdout.count("\n")) == (0, 2), done.stderr
    done = elman("score", series_run, "-", "--json", stdin="1,2,3,up\n4,5,6,down\n")
    assert json.loads(done.stdout)["num_rows"] == 2, done.stderr
    with pytest.raises(DataError, match="the file is read as tsv"):
        answered(series_run, tmp_path, "a.tsv", "1,2,3\n")


def test_only_training_is_told_of_a_setting_that_leaves_rows_out(
    elman: Elman, reviews_run: Path, tmp_path: Path
) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("good\tpos\nbad\t\n", encoding="utf-8")
    done = elman("train", "classify", "--data", table, "--out", tmp_path / "run")
    assert "leave them out with --set data.bad_rows=skip" in done.stderr
    with pytest.raises(DataError, match=r"line 2: no label in column 2; mend them$"):
        score_labelled(open_classifier(reviews_run), [str(table)])


def test_predicting_answers_every_line_though_training_skipped_bad_rows(
    elman: Elman, tmp_path: Path
) -> None:
    rows = "".join(f"a {n % 3}\t{'x' if n % 2 else 'y'}\n" for n in range(40))
    run = trained(elman, tmp_path, "classify", "r.tsv", rows + "b\n", "--set=data.bad_rows=skip")
    with pytest.raises(DataError, match="line 2: 1 column, expected 2"):
        answered(run, tmp_path, "a.tsv", "a 1\tx\na 2\na 3\ty\n")


def test_the_column_that_training_named_finds_the_header_and_the_text(
    elman: Elman, tmp_path: Path
) -> None:
    rows = "".join(f"{'x' if n % 2 else 'y'}\ta {n % 3}\n" for n in range(40))
    run = trained(
        elman, tmp_path, "classify", "r.tsv", f"kind\tsaid\n{rows}", "--label-column=kind"
    )
    lines, told = answered(run, tmp_path, "a.tsv", "kind\tsaid\nx\ta 1\n")
    assert (len(lines), "column" in told) == (1, False)


@pytest.mark.parametrize("column", ["text", "label"])
def test_a_column_of_a_folder_of_classes_is_refused(
    reviews_run: Path, elman: Elman, tmp_path: Path, column: str
) -> None:
    for label in ("pos", "neg"):
        (tmp_path / "texts" / label).mkdir(parents=True)
        (tmp_path / "texts" / label / "1.txt").write_text(f"{label} film", encoding="utf-8")
    named = {f"{column}_column": "review"}
    with pytest.raises(SettingError, match=f"has no columns; got --{column}-column review"):
        score_labelled(open_classifier(reviews_run), [str(tmp_path / "texts")], **named)
    out = tmp_path / "run"
    option = f"--{column}-column=review"
    done = elman("train", "classify", "--data", tmp_path / "texts", option, "--out", out, *BRIEF)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert not out.exists()
