"""Pairs of files as parts: what reads alike is one source, and is never on two sides."""

from dataclasses import replace
from pathlib import Path

import pytest

from elman.config.data_settings import DataSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.recipes.pair_preparing import PreparedPairs, prepare_pairs
from elman.recipes.translate import BASE


def prepared(tmp_path: Path, rows: str, text: TextSettings, **data: object) -> PreparedPairs:
    path = tmp_path / "pairs.tsv"
    path.write_text(rows, encoding="utf-8")
    shares = DataSettings(train=(str(path),), valid_fraction=0.2, test_fraction=0.2)
    settings: Settings = replace(BASE, text=text, data=replace(shares, **data))  # type: ignore[arg-type]
    return prepare_pairs(settings, tmp_path)


@pytest.mark.parametrize(
    ("spellings", "text"),
    [
        (("w{} x{}", "w{}  x{}", " w{} x{} "), TextSettings(level="word", unit="line")),
        (("é{}{}", "e\u0301{}{}"), TextSettings(level="char", unit="line", normal_form="NFC")),
    ],
)
def test_sources_that_read_alike_are_held_out_together(
    tmp_path: Path, spellings: tuple[str, ...], text: TextSettings
) -> None:
    rows = "".join(
        f"{spelling.format(*divmod(number, 10))}\t{place}\n"
        for number in range(60)
        for place, spelling in enumerate(spellings)
    )
    found = prepared(tmp_path, rows, text)
    read = {
        name: {tuple(map(int, ids)) for ids in part.sources} for name, part in found.parts.items()
    }
    assert len(read["valid"]) == len(read["test"]) == 12
    for name in ("valid", "test"):
        assert not read[name] & read["train"]
    assert not found.notices


def test_repeated_pairs_and_known_sources_are_told(tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    valid.write_text("a  b\tx\nc d\ty\n", encoding="utf-8")
    text = TextSettings(level="word", unit="line")
    rows = "a b\tx\na b \tx\na b\tz\nq\tr\n"
    found = prepared(tmp_path, rows, text, valid=(str(valid),), test_fraction=0.0)
    assert "valid: 1 of 2 sources are in training too" in found.notices
    assert "train: 1 of 4 pairs repeats one that came before" in found.notices
