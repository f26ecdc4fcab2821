"""Files that come out wrong elsewhere, prepared as a run prepares them, and very small ones."""

import json
import math
from pathlib import Path

import pytest

from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.data.conll import TaggedFile, write_tagged
from elman.data.labelled import read_labelled
from elman.data.row_log import RowLog
from elman.data.token_array import LineArray
from elman.errors import DataError
from elman.recipes.classify import ClassifyTask
from elman.recipes.classifying import open_classifier, score_labelled
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import start_run, train_run
from elman.recipes.prepared_text import PreparedText
from elman.recipes.preparing import prepare_text
from elman.recipes.trained import open_trained
from elman.recipes.training_request import TrainRequest
from elman.text.reading import TextSource
from elman.training.events import TrainingEvent, UpdateEvent

NOTHING_HELD_OUT = ("data.valid_fraction=0", "data.test_fraction=0")
SMALL = ("model.hidden_size=8", "model.embedding_size=8", "training.threads=1")
MARK = b"\xef\xbb\xbf"


def written(path: Path, content: bytes | str) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def prepared(tmp_path: Path, names: list[str], *overrides: str) -> PreparedText:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    files = f"data.train={json.dumps(names)}"
    return prepare_text(
        apply_overrides(Settings(), (files, *NOTHING_HELD_OUT, *overrides)), scratch
    )


def symbols_of(text: PreparedText) -> set[str]:
    vocabulary = text.tokenizer.vocabulary
    return set(vocabulary.symbols) - set(vocabulary.specials)


def ids_of(text: PreparedText) -> list[int]:
    ids = text.parts["train"].ids
    stored = ids.ids if isinstance(ids, LineArray) else ids
    return [int(one) for one in stored[:]]


def test_a_mark_at_the_start_of_each_file_is_no_part_of_its_first_word(  # case A01
    tmp_path: Path,
) -> None:
    content = MARK + b"the cat\nthe dog\n"
    names = [written(tmp_path / name, content) for name in ("a.txt", "b.txt")]
    words = prepared(tmp_path, names, "text.level=word", "text.unit=line")
    assert symbols_of(words) == {"the", "cat", "dog"}
    assert ids_of(words).count(words.tokenizer.vocabulary.id_of("the")) == 4
    assert words.notices == ()
    for unit in ("line", "stream"):
        letters = prepared(tmp_path, names, "text.level=char", f"text.unit={unit}")
        assert "\ufeff" not in symbols_of(letters)
    inside = written(tmp_path / "c.txt", MARK + b"a" + MARK + b"b\n" * 2)
    kept = prepared(tmp_path, [inside], "text.level=char")
    assert "\ufeff" in symbols_of(kept)
    assert any("1 invisible characters (kept)" in notice for notice in kept.notices)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_two_lines_of_utf_16_are_six_characters_or_refused(  # case A02
    tmp_path: Path, encoding: str
) -> None:
    name = written(tmp_path / "wide.txt", "hi\nyo\n".encode(encoding))
    with pytest.raises(DataError, match=f"UTF-16.*--encoding {encoding}"):
        prepared(tmp_path, [name])
    text = prepared(tmp_path, [name], f"text.encoding={encoding}")
    assert text.parts["train"].characters == 6
    assert symbols_of(text) == {"h", "i", "y", "o", "\n"}


def test_both_line_ends_have_the_same_ids(tmp_path: Path) -> None:  # case A04
    x, y = (
        prepared(tmp_path, [written(tmp_path / name, content)])
        for name, content in (("x.txt", b"a\r\nb\r\n"), ("y.txt", b"a\nb\n"))
    )
    assert ids_of(x) == ids_of(y)
    assert len(ids_of(x)) == x.parts["train"].characters == 4
    assert symbols_of(x) == symbols_of(y) == {"a", "b", "\n"}
    lone = prepared(tmp_path, [written(tmp_path / "z.txt", b"a\rb\r\n")])
    assert "\r" in symbols_of(lone)


def test_rows_and_tags_that_end_in_crlf_have_no_return_in_them(tmp_path: Path) -> None:  # case A04
    table = written(tmp_path / "t.csv", b"text,label\r\none,pos\r\ntwo,pos\r\n")
    rows = list(read_labelled(TextSource(table), RowLog("t.csv")))
    assert [(row.text, row.labels) for row in rows] == [("one", ("pos",)), ("two", ("pos",))]
    content = b"one\tpos\r\ntwo\tpos\r\n\r\n"
    tagged = TaggedFile(TextSource(written(tmp_path / "t.conll", content)), RowLog("t.conll"))
    sentences = list(tagged.sentences())
    assert [(one.tokens, one.tags) for one in sentences] == [(("one", "two"), ("pos", "pos"))]
    with (tmp_path / "out.conll").open("wb") as out:
        write_tagged(out, tagged, ((one, ["neg", "neg"]) for one in tagged.sentences()))
    assert (tmp_path / "out.conll").read_bytes() == content.replace(b"pos", b"neg")


BLANKS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 \t\u00a0\u3000\n"


def test_blanks_of_every_kind_have_the_same_ids_after_saving(tmp_path: Path) -> None:  # case A08
    assert len(BLANKS) == 13
    train = written(tmp_path / "blanks.txt", f"a{BLANKS}" * 20)
    request = TrainRequest(
        tmp_path / "run",
        overrides=(f"data.train={train}", "training.updates=1", *NOTHING_HELD_OUT, *SMALL),
    )
    run = start_run(LanguageTask(), request)
    train_run(run)
    before, after = run.prepared.tokenizer.vocabulary, open_trained(tmp_path / "run").tokenizer
    assert len(after.vocabulary) == len(before) == 13 + 1 + len(before.specials)
    for symbol in BLANKS:
        number = before.id_of(symbol)
        assert number is not None
        assert after.vocabulary.id_of(symbol) == number
        assert after.decode([number]) == symbol


def test_three_lines_held_out_are_scored_on_three_whatever_the_batch(  # case A07
    tmp_path: Path,
) -> None:
    train = written(tmp_path / "train.txt", "ab\nba\nabba\n" * 9)
    valid = written(tmp_path / "valid.txt", "ab\nbaab\na\n")
    request = TrainRequest(
        tmp_path / "run",
        overrides=(
            *(f"data.train={train}", f"data.valid={valid}", "data.test_fraction=0"),
            *("text.unit=line", "training.batch_size=64", "training.updates=3", *SMALL),
        ),
    )
    report = train_run(start_run(LanguageTask(), request))
    assert set(report.scores) == {"valid"}
    assert report.scores["valid"]["num_tokens"] == 7 + 3  # symbols and stop marks
    assert math.isfinite(float(str(report.scores["valid"]["loss_nats"])))
    assert report.fit.best_nats is not None
    assert math.isfinite(report.fit.best_nats)


def labelled_run(tmp_path: Path, rows: str, *overrides: str) -> tuple[Path, list[TrainingEvent]]:
    train = written(tmp_path / "rows.tsv", rows)
    out, events = tmp_path / "run", list[TrainingEvent]()
    given = (f"data.train={train}", "training.batch_size=4", *SMALL, *overrides)
    train_run(start_run(ClassifyTask(), TrainRequest(out, overrides=given)), on_event=events.append)
    return out, events


TEN_ROWS = "".join(
    f"{'good ' * (n % 3 + 1)}film {n}\tpos\n" if n % 2 else f"dull {'plot ' * n}\tneg\n"
    for n in range(10)
)


def test_ten_rows_are_learnt_as_four_four_two_and_scored_in_any_batches(  # case B03
    tmp_path: Path,
) -> None:
    run, events = labelled_run(tmp_path, TEN_ROWS, "training.epochs=2", *NOTHING_HELD_OUT)
    sizes = [event.num_tokens for event in events if isinstance(event, UpdateEvent)]
    assert sorted(sizes[:3]) == sorted(sizes[3:]) == [2, 4, 4]
    reports = [
        score_labelled(open_classifier(run), [str(tmp_path / "rows.tsv")], batch_size=size)[
            0
        ].to_json()
        for size in (3, 64)
    ]
    assert [report["num_rows"] for report in reports] == [10, 10]
    nats = [float(str(report["nats_per_row"])) for report in reports]
    assert nats[0] == pytest.approx(nats[1], rel=1e-6)


def test_three_rows_held_out_are_scored_on_three(tmp_path: Path) -> None:  # case A07
    valid = written(tmp_path / "valid.tsv", "good film\tpos\ndull plot\tneg\ndull film\tneg\n")
    run, _ = labelled_run(
        tmp_path,
        TEN_ROWS,
        *(f"data.valid={valid}", "data.test_fraction=0", "training.epochs=1"),
        "training.batch_size=64",
    )
    scores = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["results"]["scores"]
    assert scores["valid"]["num_rows"] == 3
    assert math.isfinite(scores["valid"]["nats_per_row"])
