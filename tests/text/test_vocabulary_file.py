"""Vocabularies of other programs: every form, and what is refused."""

import json
from pathlib import Path

import pytest

from elman.errors import DataError
from elman.text.vocabulary_file import foreign_vocabulary, read_tokens


def written(tmp_path: Path, text: str, name: str = "words.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    ["[PAD]\nthe\n{x}\n", '["[PAD]", "the", "{x}"]', '{"the": 1, "{x}": 2, "[PAD]": 0}'],
)
def test_plain_text_a_list_and_an_object_name_the_same_tokens(tmp_path: Path, text: str) -> None:
    assert read_tokens(written(tmp_path, text)) == ["[PAD]", "the", "{x}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\na\n", "has a token twice; got 'a'"),
        ('{"a": 1, "b": 2}', "the ids 0 to 1, each once"),
        ('{"a": false, "b": true}', "the ids 0 to 1, each once"),
        ('{"a": 0.0, "b": 1.0}', "the ids 0 to 1, each once"),
        ("[1, 2]", "must be a list of tokens"),
        (json.dumps(["a", "\ud800"]), "a token that is no text"),
    ],
)
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_tokens(written(tmp_path, text))


def test_a_folder_is_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be a file"):
        read_tokens(tmp_path)


def test_rows_of_words_are_those_of_the_foreign_order() -> None:
    foreign = foreign_vocabulary(["the", "<unk>", "cat", "<eos>"], level="word")
    assert foreign.rows == (1, 0, 2, 3)
    ids = foreign.tokenizer.encode("the cat\nthe dog\n")
    assert [foreign.rows[i] for i in ids] == [0, 2, 3, 0, 1, 3]
    assert foreign.notices == ("<eos> stands for the line end", "<unk> stands for unknown words")


def test_characters_keep_their_order_and_a_token_of_two_is_refused() -> None:
    foreign = foreign_vocabulary(["b", "\n", "a"], level="char")
    assert foreign.rows == (0, 1, 2)
    assert foreign.tokenizer.encode("ab\n").tolist() == [2, 0, 1]
    with pytest.raises(DataError, match="token 1 of the vocabulary is no char; got 'ab'"):
        foreign_vocabulary(["a", "ab"], level="char")
