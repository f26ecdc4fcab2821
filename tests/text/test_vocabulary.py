"""The order of symbols, the specials, and files that are the same whatever the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import elman
from elman.config.text_settings import TextSettings
from elman.errors import DataError, SettingError
from elman.text.building import build_tokenizer
from elman.text.vocabulary import BOUNDARY, PAD, UNK, Vocabulary, specials_for

SCRIPT = """
from elman.config.text_settings import TextSettings
from elman.text.building import build_tokenizer
text = "b a c\\nthe quick brown fox\\njumps over the lazy dog\\n\\u00e9\\u4e2d z y x\\n"
for level in ("char", "byte", "word", "bpe"):
    for unit in ("line", "stream"):
        tokenizer = build_tokenizer([text], TextSettings(level=level, unit=unit))
        print(tokenizer.digest())
        print(tokenizer.to_json())
"""


def written_under(hash_seed: str) -> bytes:
    source = str(Path(elman.__file__).parents[1])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True
    )
    return done.stdout


def test_vocabulary_files_are_the_same_bytes_whatever_the_hash_seed() -> None:
    # case B12
    first = written_under("1")
    assert len(first) > 10_000
    assert first == written_under("2")


def test_symbols_stand_by_count_and_equals_by_code_point() -> None:
    # case B12
    counts = {"b": 1, "a": 1, "c": 1, "z": 2, "\u00e9": 2}
    vocabulary = Vocabulary.from_counts(counts, specials=(UNK,))
    assert vocabulary.symbols == (UNK, "z", "\u00e9", "a", "b", "c")
    assert [vocabulary.id_of(s) for s in ("z", "c", "nothing")] == [1, 5, None]
    words = build_tokenizer(["b a c"], TextSettings(level="word", unknown="refuse"))
    assert words.vocabulary.symbols == ("a", "b", "c")


def test_rare_symbols_and_those_beyond_the_size_are_left_out() -> None:
    counts = {"a": 3, "b": 2, "c": 2, "d": 1}
    assert Vocabulary.from_counts(counts, min_count=2).symbols == ("a", "b", "c")
    sized = Vocabulary.from_counts(counts, specials=(PAD, BOUNDARY), max_size=4)
    assert sized.symbols == (PAD, BOUNDARY, "a", "b")
    with pytest.raises(SettingError, match=r"got 2; allowed: 0 \(all\), or 3 and more"):
        Vocabulary.from_counts(counts, specials=(PAD, BOUNDARY), max_size=2)
    with pytest.raises(DataError, match=r"got at most 3 times; set text\.min_count below 4"):
        Vocabulary.from_counts(counts, min_count=4)


@pytest.mark.parametrize("level", ["char", "word", "bpe"])
def test_a_text_of_nothing_gives_no_vocabulary(level: str) -> None:
    with pytest.raises(DataError, match="holds no symbol"):
        build_tokenizer([""], TextSettings(level=level))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="holds no symbol"):
        build_tokenizer(["\n"], TextSettings(level="char", unit="line"))


@pytest.mark.parametrize(
    ("settings", "specials"),
    [
        (TextSettings(), (UNK,)),
        (TextSettings(unknown="refuse"), ()),
        (TextSettings(start="mark"), (BOUNDARY, UNK)),
        (TextSettings(unit="line"), (PAD, BOUNDARY, UNK)),
        (TextSettings(unit="line", level="word", unknown="skip"), (PAD, BOUNDARY)),
        (TextSettings(unit="line", level="byte"), (PAD, BOUNDARY)),
        (TextSettings(level="bpe", start="mark"), (BOUNDARY,)),
    ],
)
def test_specials_are_those_that_the_settings_need(
    settings: TextSettings, specials: tuple[str, ...]
) -> None:
    assert specials_for(settings) == specials
    vocabulary = build_tokenizer(["ab ab"], settings).vocabulary
    assert vocabulary.specials == vocabulary.symbols[: len(specials)] == specials
    for name, number in ((PAD, vocabulary.pad_id), (BOUNDARY, vocabulary.boundary_id)):
        assert number == (specials.index(name) if name in specials else None)
    assert vocabulary.unk_id == (specials.index(UNK) if UNK in specials else None)


def test_a_vocabulary_refuses_what_is_none() -> None:
    with pytest.raises(DataError, match="'a' twice"):
        Vocabulary(("a", "b", "a"))
    with pytest.raises(DataError, match="specials come first"):
        Vocabulary(("a", UNK), (UNK,))
