"""The corpora that come with Python: their kind, their size, their digests."""

import itertools
import sys
import unicodedata

import pytest

from elman.data.corpora import language_reference, lines_digest, text_digest, unicode_names


def test_the_language_reference_is_long_and_says_nothing_twice() -> None:
    text = language_reference()
    assert 300_000 < len(text) < 600_000
    paragraphs = [part.strip() for part in text.split("\n\n") if part.strip()]
    assert len(paragraphs) == len(set(paragraphs))
    assert text == language_reference()


def test_unicode_names_are_distinct_shuffled_and_free_of_numbered_ones() -> None:
    names = unicode_names()
    assert 27_000 < len(names) < 40_000
    assert len(set(names)) == len(names)
    machine_made = ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HANGUL SYLLABLE", "TANGUT COMP")
    assert not [name for name in names if name.startswith(machine_made)]
    numbered = {
        "EGYPTIAN HIEROGLYPH A045A",
        "CYPRO-MINOAN SIGN CM041",
        "VARIATION SELECTOR-128",
        "KHITAN SMALL SCRIPT CHARACTER-18B13",
        "BRAILLE PATTERN DOTS-12",
    }
    assert not numbered & set(names)
    assert {"LATIN SMALL LETTER A", "CUNEIFORM SIGN KU4", "VARIATION SELECTOR-1"} <= set(names)
    points = [ord(unicodedata.lookup(name)) for name in names]
    rising = sum(a < b for a, b in itertools.pairwise(points))
    assert 0.47 < rising / len(points) < 0.53


@pytest.mark.skipif(sys.version_info[:3] != (3, 11, 7), reason="the text is Python 3.11.7's")
def test_the_language_reference_of_one_python_has_this_digest() -> None:
    text = language_reference()
    assert len(text) == 373_207
    digest = "be7931e17ff882dca952fa3ad8b8b7de3a93f3881dafc2a542d2e522f2913232"
    assert text_digest(text) == digest


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the names are Unicode 14's")
def test_the_names_of_one_unicode_version_have_this_digest() -> None:
    names = unicode_names()
    assert len(names) == 28_915
    digest = "b9d4a03758a28d8ccff7b2aac2dc8c9c856c651cb2d0d1c3374201aad4597271"
    assert lines_digest(names) == digest
