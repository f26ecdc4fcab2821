"""ARPA files as other programs write them, and as ours go out and come back."""

import math
from pathlib import Path

import numpy as np
import pytest

from elman.checkpoints.foreign.arpa_file import ArpaModel, arpa_lines, parse_arpa
from elman.checkpoints.foreign.arpa_tables import grams_of, tables_of_arpa
from elman.errors import ConversionError
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import Smoothing, SmoothingOptions, estimate
from elman.recipes.converting_counts import import_arpa

TIDY = """\\data\\
ngram 1=4
ngram 2=3

\\1-grams:
-99\t<s>\t-0.30103
-0.60206\ta\t-0.1
-0.30103\tb\t-0.2
-0.60206\t</s>

\\2-grams:
-0.1\t<s> a
-0.2\ta b
-0.3\tb </s>

\\end\\
"""


def lines(text: str) -> list[str]:
    return text.split("\n")


def test_the_rule_of_the_format_is_read_to_the_base_ten() -> None:  # case G05
    text = "\\data\\\nngram 1=3\n\\1-grams:\n-0.30103 a\n-0.60206 b\n-0.60206 </s>\n\\end\\\n"
    model = ArpaModel(parse_arpa(lines(text), "x.arpa"))
    total = sum(
        model.log10_prob(word, before)
        for word, before in (("a", ("<s>",)), ("b", ("<s>", "a")), ("</s>", ("<s>", "a", "b")))
    )
    assert total == pytest.approx(-1.50515, abs=1e-12)
    assert 10 ** (-total / 3) == pytest.approx(3.174802, abs=1e-6)


def test_a_history_that_has_no_line_hands_on_without_a_price() -> None:
    model = ArpaModel(parse_arpa(lines(TIDY), "x.arpa"))
    assert model.log10_prob("a", ("b",)) == pytest.approx(-0.2 - 0.60206)
    assert model.log10_prob("b", ("x", "a")) == pytest.approx(-0.2)
    assert model.log10_prob("zzz", ()) == -math.inf


def test_untidy_files_of_other_programs_say_the_same() -> None:  # case G06
    untidy = (
        "made elsewhere\n\\data\\\nngram 1=\t4\nngram 2= 3\nngram 3=0\n\\1-grams:\n"
        "-99 <s> -0.30103\n  \n-0.60206 a -0.1\n-0.30103\tb -0.2\n-0.60206 </s>\n\\2-grams:\n"
        "-0.1 <s> a\n \t \n-0.2 a b\n-0.3 b </s>\n\\3-grams:\n\\end\\"
    )
    tidy, found = parse_arpa(lines(TIDY), "x"), parse_arpa(lines(untidy), "x")
    strip = [[(g.log10_prob, g.words, g.log10_back_off) for g in level] for level in tidy.levels]
    assert strip == [
        [(g.log10_prob, g.words, g.log10_back_off) for g in level] for level in found.levels
    ]
    assert found.notices == ("grams of length 3 are announced and there are none",)
    assert found.preamble == "made elsewhere"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("-0.30103\tb\t-0.2", "-2,62\tb\t-0.2", r"line 8 must be a number; got -2,62.*point"),
        ("ngram 1=4", "ngram 1=7", r"line 11 ends another number of 1-grams.*got 4; allowed: 7"),
        ("\\end\\\n", "", "ends before .*got 16 lines"),
        ("\tb\t-0.2", "\tb\tc\t-0.2", "line 8 must be a number, 1 word and.*got 4 fields"),
        ("\tb\t-0.2", "\tb\tc", "line 8 must be a number; got c"),
        ("-0.60206\ta\t-0.1", "-0.60206\ta b\t-0.1", "line 7 must be a number, 1 word"),
        ("-0.60206\ta\t-0.1", "-0.60206\tb\t-0.1", "line 8 must be each gram once"),
        ("-0.60206\ta\t-0.1", "0.60206\ta\t-0.1", "at most 0"),
        ("-0.60206\ta\t-0.1", "nan\ta\t-0.1", "must be a number"),
        ("\\data\\\n", "", "no ARPA file"),
        ("ngram 2=3", "ngram 3=3", "line 3 must be ngram 2=NUMBER"),
        ("\\2-grams:", "\\3-grams:", "3 words"),
        ("\\2-grams:", "\\two:", "line 11"),
    ],
)
def test_a_broken_file_is_told_with_its_line(old: str, new: str, told: str) -> None:  # case G06
    assert old in TIDY
    with pytest.raises(ConversionError, match=told):
        parse_arpa(lines(TIDY.replace(old, new, 1)), "x.arpa")


def test_a_no_break_space_is_a_part_of_a_word() -> None:  # case G06
    text = TIDY.replace("\tb\t", "\tb\u00a0c\t").replace("a b\n", "a b\u00a0c\n")
    file = parse_arpa(lines(text.replace("b </s>", "b\u00a0c </s>")), "x")
    assert file.levels[0][2].words == ("b\u00a0c",)


def test_six_grams_where_seven_are_announced_are_told_with_both_numbers() -> None:  # case G06
    words = "".join(f"-0.9\t{word}\n" for word in "abcdef")
    text = f"\\data\\\nngram 1=7\n\n\\1-grams:\n{words}\n\\end\\\n"
    with pytest.raises(ConversionError, match=r"x, line 12 ends another.*got 6; allowed: 7"):
        parse_arpa(lines(text), "x")


@pytest.mark.parametrize("spelling", ["<UNK>", "<Unk>"])
def test_another_spelling_of_the_unknown_word_is_told(  # case G06
    tmp_path: Path, spelling: str
) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(TIDY.replace("\ta\t", f"\t{spelling}\t").replace("a b", f"{spelling} b"))
    with pytest.raises(ConversionError, match=f"must be spelt <unk>; got {spelling}; replace"):
        import_arpa(path, "word")


def test_a_gram_without_its_beginning_is_told() -> None:
    text = TIDY.replace("-0.2\ta b", "-0.2\tz b")
    with pytest.raises(
        ConversionError, match=r"line 13 has a word that is none of the 1-grams; got z"
    ):
        tables_of_arpa(parse_arpa(lines(text), "x"), {"<s>": 0, "</s>": 0, "a": 1, "b": 2}, 3, "x")


def test_a_gram_whose_beginning_is_no_gram_is_told() -> None:
    text = TIDY.replace("ngram 2=3", "ngram 2=2").replace("-0.2\ta b\n", "")
    longer = text.replace("ngram 2=2", "ngram 2=2\nngram 3=1")
    longer = longer.replace("\\end\\", "\\3-grams:\n-0.1\ta b a\n\n\\end\\")
    with pytest.raises(ConversionError, match="a gram whose beginning is in no shorter section"):
        tables_of_arpa(
            parse_arpa(lines(longer), "x"), {"<s>": 0, "</s>": 0, "a": 1, "b": 2}, 3, "x"
        )


def test_grams_that_no_text_has_are_counted_out() -> None:
    text = TIDY.replace("ngram 2=3", "ngram 2=4").replace("-0.2\ta b", "-0.2\ta b\n-1\ta <s>")
    ids = {"<s>": 0, "</s>": 0, "a": 1, "b": 2}
    tables, told = tables_of_arpa(parse_arpa(lines(text), "x"), ids, 3, "x")
    assert tables.num_grams == (3, 3)
    assert told == ("1 grams are left out, as no text has them",)


@pytest.mark.parametrize("method", ["kneser_ney", "kneser_ney_backoff", "witten_bell", "none"])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_tables_go_out_and_come_back_as_they_were(method: Smoothing, order: int) -> None:
    draw = np.random.default_rng(4)
    text = [np.concatenate(([0], draw.integers(1, 9, 30), [0])) for _ in range(20)]
    grams = count_grams(joined(text, 9), order=order, vocabulary_size=9)
    tables = estimate(grams, 9, SmoothingOptions(method)).tables
    words = ["</s>", *"abcdefgh"]
    levels, counts = grams_of(tables, words.__getitem__, 0)
    written = "".join(arpa_lines(levels, counts, "by us"))
    ids = {"<s>": 0, **{word: number for number, word in enumerate(words)}}
    back, told = tables_of_arpa(parse_arpa(lines(written), "x"), ids, 9, "x")
    assert told == ()
    assert back.num_grams == tables.num_grams
    for mine, theirs in zip(tables.levels, back.levels, strict=True):
        np.testing.assert_array_equal(mine.keys_N, theirs.keys_N)
        np.testing.assert_allclose(mine.log_probs_N, theirs.log_probs_N, rtol=1e-14)


def test_add_k_does_not_back_off_and_is_refused(tmp_path: Path) -> None:
    grams = count_grams(joined([np.array([0, 1, 2, 1])], 3), order=2, vocabulary_size=3)
    tables = estimate(grams, 3, SmoothingOptions("add_k")).tables
    with pytest.raises(ConversionError, match="add-k does not"):
        grams_of(tables, str, None)
