"""Tagged files become parts, vocabularies and rows of ids; whatever is odd is told."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.errors import DataError, SettingError
from elman.recipes.tag import BASE
from elman.recipes.tag_preparing import PreparedTags, prepare_tags

A13 = (
    "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_\n"
    "2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_\n"
    "3\tchat\tchat\tNOUN\t_\t_\t0\troot\t_\t_\n"
    "3.1\tvu\tvoir\tVERB\t_\t_\t_\t_\t3:x\t_\n"
    "\n"
)


def conll(*sentences: str) -> str:
    """Sentences such as "the/O cat/B-X" as two columns."""
    rows = (
        "".join(f"{pair.replace('/', ' ', 1)}\n" for pair in sentence.split())
        for sentence in sentences
    )
    return "\n".join(rows)


def settings_for(*overrides: str, **files: Path) -> Settings:
    named = (f"data.{name}={path}" for name, path in files.items())
    return apply_overrides(BASE, (*named, *overrides))


def prepare(tmp_path: Path, *overrides: str, name: str = "conll", **texts: str) -> PreparedTags:
    files = {}
    for part, text in texts.items():
        files[part] = tmp_path / f"{part}.{name}"
        files[part].write_text(text, encoding="utf-8")
    return prepare_tags(settings_for(*overrides, **files), tmp_path)


def told(prepared: PreparedTags) -> str:
    return "\n".join(prepared.notices)


def test_ranges_empty_nodes_and_ids_are_no_words(tmp_path: Path) -> None:  # case A13
    prepared = prepare(
        tmp_path, "data.test_fraction=0", "data.valid_fraction=0", name="conllu", train=A13
    )
    (row,) = prepared.parts["train"].rows
    assert row.tokens == ("de", "le", "chat")
    assert row.tags == ("ADP", "DET", "NOUN")
    assert prepared.vocabulary.known_words == {"de", "le", "chat"}
    assert prepared.vocabulary.tags.tags == ("ADP", "DET", "NOUN")


def test_a_line_of_nine_columns_is_refused_with_its_number_or_skipped(tmp_path: Path) -> None:
    text = A13 + A13.replace("\troot\t_\t_", "\troot\t_", 1)
    with pytest.raises(DataError, match="line 10: 9 columns, expected 10"):
        prepare(tmp_path, name="conllu", train=text)
    prepared = prepare(
        tmp_path,
        "data.bad_rows=skip",
        "data.valid_fraction=0",
        "data.test_fraction=0",
        name="conllu",
        train=text,
    )
    assert len(prepared.parts["train"].rows) == 1
    assert "1 row skipped (line 10: 9 columns, expected 10)" in told(prepared)


def test_parts_are_split_by_sentences_and_every_token_is_in_one_of_them(tmp_path: Path) -> None:
    sentences = [f"w{n}/A x/B" for n in range(40)]
    prepared = prepare(tmp_path, train=conll(*sentences))
    sizes = {name: len(part.rows) for name, part in prepared.parts.items()}
    assert sizes == {"train": 32, "valid": 4, "test": 4}
    firsts = [row.tokens[0] for part in prepared.parts.values() for row in part.rows]
    assert sorted(firsts) == sorted(f"w{n}" for n in range(40))
    again = prepare(tmp_path, train=conll(*sentences))
    assert again.facts() == prepared.facts()
    assert again.vocabularies() == prepared.vocabularies()
    tail = prepare(tmp_path, "data.split=tail", train=conll(*sentences))
    assert [row.tokens[0] for row in tail.parts["test"].rows] == ["w36", "w37", "w38", "w39"]


def test_batches_hold_the_words_their_spellings_and_the_tags(tmp_path: Path) -> None:
    prepared = prepare(
        tmp_path,
        "data.test_fraction=0",
        train=conll("aa/X ab/Y", "ab/Y", "ba/X aa/X ab/Y"),
        valid=conll("zz/X ab/Y"),
    )
    vocabulary = prepared.vocabulary
    batch = prepared.batches("valid", batch_size=2, seed=1, order="stored").batch(0, 0)
    assert batch.ids_BT.tolist() == [[vocabulary.unk_id, vocabulary.word_id("ab")]]
    assert batch.tags_BT.tolist() == [[vocabulary.tags.tags.index(tag) for tag in "XY"]]
    spelled = [
        vocabulary.characters.decode(ids[:length])
        for ids, length in zip(
            batch.spellings_WK.numpy(), batch.spelling_lengths_W.tolist(), strict=True
        )
    ]
    assert [spelled[place] for place in batch.words_BT[0].tolist()] == ["\ufffd\ufffd", "ab"]
    counts = prepared.word_counts_V
    assert counts[vocabulary.word_id("ab")] == 3
    assert counts[vocabulary.unk_id] == 0


def test_the_schemes_of_files_are_known_and_learnt_as_bioes(tmp_path: Path) -> None:
    for tags, scheme in (
        ("a/B-X b/I-X c/O", "BIO"),
        ("a/I-X b/I-X c/O d/I-X e/B-X", "IOB1"),
        ("a/B-X b/E-X c/S-X", "BIOES"),
        ("a/B-X b/L-X c/U-X", "BILOU"),
        ("a/NOUN b/X", "none"),
    ):
        prepared = prepare(tmp_path, train=conll(tags, tags, tags))
        found = prepared.vocabulary.tags
        assert found.written == scheme
        assert found.learnt == ("none" if scheme == "none" else "BIOES")
    kept = prepare(tmp_path, "model.scheme=file", train=conll(*["a/B-X b/I-X c/O d/O"] * 3))
    assert kept.vocabulary.tags.learnt == "BIO"
    plain = prepare(tmp_path, "data.tag_scheme=none", train=conll("a/B-X b/I-X", "c/O", "d/O"))
    assert plain.vocabulary.tags.learnt == "none"
    with pytest.raises(SettingError, match="needs tags that tell spans"):
        prepare(tmp_path, "model.scheme=BIO", train=conll("a/N", "b/V", "c/N"))


def test_tags_that_only_the_test_has_are_told_scored_and_not_learnt_from(tmp_path: Path) -> None:
    prepared = prepare(
        tmp_path,
        train=conll("a/B-X b/O", "c/B-X", "d/O"),
        valid=conll("a/B-X"),
        test=conll("a/B-NEW b/B-X", "c/B-X"),
    )
    assert "the test part has tags that training does not have: B-NEW (1)" in told(prepared)
    part = prepared.parts["test"]
    assert (len(part.rows), len(part.ids), part.num_unlearnable) == (2, 1, 1)


def test_repeats_shared_sentences_and_tags_out_of_place_are_told(tmp_path: Path) -> None:
    prepared = prepare(
        tmp_path,
        train=conll("a/O b/B-X", "a/O b/B-X", "c/O d/I-X", "e/B-X f/I-X", "g/O h/B-X"),
        valid=conll("a/O b/B-X", "new/O"),
        test=conll("new/O"),
    )
    notices = told(prepared)
    assert "1 of 5 sentences to learn from repeats the tokens of another" in notices
    assert "1 of 2 valid sentences is among those learnt from" in notices
    assert "1 tag to learn from is out of place in BIO" in notices
    dropped = prepare(
        tmp_path, "data.repeats=drop", train=conll("a/O", "a/O", "b/O"), valid=conll("c/O")
    )
    assert "1 repeated sentence is left out" in told(dropped)


def test_what_cannot_be_learnt_from_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no tags"):
        prepare(tmp_path, train="a\nb\n\nc\n")
    with pytest.raises(DataError, match=r"valid.*, line 4: the column of tags.*scheme BIO.*NOUN"):
        prepare(tmp_path, train=conll("a/B-X", "b/O"), valid=conll("a/O", "a/O b/NOUN"))
    with pytest.raises(DataError, match=r"train.*, line 1: the column of tags.*BIOES.*NOUN"):
        prepare(tmp_path, "data.tag_scheme=BIOES", train=conll("a/NOUN"))
    with pytest.raises(DataError, match="no built-in corpus of tagged sentences"):
        prepare_tags(apply_overrides(BASE, ("data.train=builtin:unicode-names",)), tmp_path)
    with pytest.raises(SettingError, match="standard input can be read only once"):
        prepare_tags(apply_overrides(BASE, ('data.train="-"', 'data.test="-"')), tmp_path)
    with pytest.raises(DataError, match="nothing to learn from"):
        prepare_tags(BASE, tmp_path)


def test_gzip_and_another_column_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(A13.encode()))
    settings = settings_for(
        "data.tag_column=DEPREL", "data.valid_fraction=0", "data.test_fraction=0", train=path
    )
    assert prepare_tags(settings, tmp_path).parts["train"].rows[0].tags == ("case", "det", "root")


def test_words_are_compared_in_their_normal_form(tmp_path: Path) -> None:
    composed, parted = "caf\u00e9", "cafe\u0301"
    prepared = prepare(
        tmp_path,
        "text.normal_form=NFC",
        train=conll(f"{composed}/N", "a/N", "b/N"),
        valid=conll(f"{parted}/N"),
    )
    assert prepared.parts["valid"].rows[0].tokens == (composed,)
    batch = prepared.vocabulary.batch([[parted]])
    assert batch.ids_BT.tolist() == [[prepared.vocabulary.word_id(composed)]]


def test_a_word_in_capitals_that_is_new_has_the_vector_of_the_small_one(tmp_path: Path) -> None:
    prepared = prepare(
        tmp_path, train=conll("the/D", "Rome/N", "US/N", "us/P"), valid=conll("THE/D")
    )
    vocabulary = prepared.vocabulary
    assert vocabulary.word_id("THE") == vocabulary.word_id("The") == vocabulary.word_id("the")
    assert vocabulary.word_id("US") != vocabulary.word_id("us")
    # A name in small letters is no name that was seen.
    assert vocabulary.word_id("rome") == vocabulary.word_id("ROME") == vocabulary.unk_id
    assert "THE" not in vocabulary.known_words
    assert vocabulary.usual_tags(["THE"]) == [vocabulary.usual.tags[vocabulary.usual.otherwise]]
    assert vocabulary.spelling("THE").tolist() != vocabulary.spelling("the").tolist()


def test_base_settings_are_those_of_a_tagger() -> None:
    from elman.config.checks import check_settings

    check_settings(BASE)
    for change, message in (
        ({"level": "char"}, "text.level of a tagger"),
        ({"unit": "stream"}, "text.unit of a tagger"),
    ):
        with pytest.raises(SettingError, match=message):
            check_settings(replace(BASE, text=replace(BASE.text, **change)))
    with pytest.raises(SettingError, match="label_smoothing has no effect"):
        check_settings(apply_overrides(BASE, ("model.head=crf", "training.label_smoothing=0.1")))
