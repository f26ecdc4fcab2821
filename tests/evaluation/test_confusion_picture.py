"""The picture shows every label and count, and comes without matplotlib in one line."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from elman.errors import MissingPackageError, RunError, SettingError
from elman.evaluation.confusion_picture import confusion_picture, draw_confusion
from elman.evaluation.labels import LabelScores, label_scores


def many(labels: int) -> LabelScores:
    names = [f"label_{number}" for number in range(labels)]
    return label_scores(names, [names[number // 2] for number in range(labels)])


def texts_of(svg: bytes) -> list[str]:
    return re.findall(r"<!-- (.*?) -->", svg.decode("utf-8"))


def test_every_label_and_count_is_written() -> None:
    scores = label_scores(["cost $5", "b", "b", "b"], ["b", "b", "b", "cost $5"])
    texts = texts_of(confusion_picture(scores, kind="svg", title="a title"))
    assert texts.count("cost \\$5") + texts.count("cost $5") == 2
    assert texts.count("b") == 2
    assert sorted(text for text in texts if text.isdigit()) == ["1", "1", "2"]
    assert {"a title", "gold"} <= set(texts)


def test_long_labels_lose_their_middle_and_stay_apart() -> None:
    long = "a very long label that begins as the others "
    names = [f"{long}one", f"{long}two", f"{long[:20]}x{long[21:]}two"]
    texts = texts_of(confusion_picture(label_scores(names, names), kind="svg"))
    drawn = {text for text in texts if "…" in text}
    assert drawn == {
        "a very long label …thers one",
        "(2) a very long label …thers two",
        "(3) a very long label …thers two",
    }


@pytest.mark.parametrize("labels", [18, 150])
def test_labels_do_not_overlap_however_many_they_are(labels: int) -> None:
    picture = Image.open(io.BytesIO(confusion_picture(many(labels))))
    # 18 pixels a row at least: the text in it is more than 10 high.
    assert min(picture.size) >= 18 * labels
    assert max(picture.size) < 4000


def test_right_cells_are_blue_and_wrong_ones_orange() -> None:
    scores = label_scores(["a"] * 2 + ["b"] * 2, ["a", "a", "a", "a"])
    pixels = np.asarray(Image.open(io.BytesIO(confusion_picture(scores))).convert("RGB")).astype(
        int
    )
    red, blue = pixels[:, :, 0], pixels[:, :, 2]
    blue_at = np.argwhere(blue - red > 60).mean(axis=0)
    orange_at = np.argwhere(red - blue > 60).mean(axis=0)
    # Both gold labels are predicted as a: one column, and b lies below a.
    assert abs(blue_at[1] - orange_at[1]) < 2
    assert blue_at[0] < orange_at[0] - 50


def test_more_labels_than_can_be_read_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elman.evaluation.confusion_picture.MOST_DRAWN_LABELS", 5)
    texts = texts_of(confusion_picture(many(12), kind="svg"))
    assert texts.count("(others)") == 2
    assert sum(text.startswith("label_") for text in texts) == 2 * 4


def test_the_same_scores_give_the_same_bytes() -> None:
    for picture_format in ("png", "svg"):
        first = confusion_picture(many(4), kind=picture_format)  # type: ignore[arg-type]
        assert first == confusion_picture(many(4), kind=picture_format)  # type: ignore[arg-type]


def test_any_label_can_be_drawn() -> None:
    rare = "\U0001f469\u200d\U0001f467"  # no font of text has these
    scores = label_scores(["", rare, "a\nb", "x" * 60, "ж"], ["", rare, "a\nb", "x" * 60, "ж"])
    texts = texts_of(confusion_picture(scores, kind="svg"))
    assert {"''", r"a\nb", "x" * 18 + "…" + "x" * 9, "ж"} <= set(texts)
    assert any(text.startswith(r"\U0001f469") for text in texts) or rare in texts


def test_files_are_told_apart_by_their_endings(tmp_path: Path) -> None:
    draw_confusion(many(2), tmp_path / "a.png")
    draw_confusion(many(2), tmp_path / "a.SVG")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "a.SVG").read_bytes()
    with pytest.raises(SettingError, match=r"a .png or .svg file"):
        draw_confusion(many(2), tmp_path / "a.jpg")
    with pytest.raises(RunError, match="cannot write"):
        draw_confusion(many(2), tmp_path / "missing" / "a.png")


def test_without_matplotlib_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingPackageError, match=r"matplotlib is needed to draw.*elman\[metrics\]"
    ):
        confusion_picture(many(2))
