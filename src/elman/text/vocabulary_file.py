"""The vocabulary of another program's model, as a file: tokens in the order of their ids."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from elman.config.text_settings import TextSettings
from elman.errors import DataError
from elman.text.characters import CharacterTokenizer
from elman.text.encodings import holds_surrogate
from elman.text.reading import read_text
from elman.text.tokenizer import Tokenizer
from elman.text.vocabulary import UNK, Vocabulary, specials_for
from elman.text.words import WordTokenizer

UNKNOWN_SPELLING = "<unk>"
LINE_END_SPELLINGS = ("<eos>", "</s>")


@dataclass(frozen=True)
class ForeignVocabulary:
    """A tokenizer of another model's tokens: row `rows[i]` of its weights is our id i."""

    tokenizer: Tokenizer
    rows: tuple[int, ...]
    notices: tuple[str, ...]


def read_tokens(path: Path) -> list[str]:
    """Return the tokens in a file in the order of their ids.

    A JSON list of texts, a JSON object of token to id, or plain text with one token a line. Raises
    `DataError` for anything else, for ids with gaps, and for a token that is there twice.
    """
    if path.is_dir():
        raise DataError("a vocabulary must be a file", got=f"{path}, a folder")
    text, _ = read_text([path])
    value = _json_value(text)
    if value is not None or path.suffix == ".json":
        tokens = _from_json(path, value)
    else:
        tokens = text.removesuffix("\n").split("\n")
    for token in tokens:
        if holds_surrogate(token):
            raise DataError(f"{path} has a token that is no text", got=ascii(token))
    if len(set(tokens)) != len(tokens):
        twice = next(token for token in tokens if tokens.count(token) > 1)
        raise DataError(f"{path} has a token twice", got=repr(twice))
    return tokens


def foreign_vocabulary(
    tokens: Sequence[str], *, level: Literal["char", "word"]
) -> ForeignVocabulary:
    """Return the tokenizer of a stream with these tokens, and which row belongs to each id.

    At word level `<eos>` or `</s>` stands for the line end, where the tokens have no line end of
    their own, and `<unk>` for the unknown word, which comes first here. Raises `DataError` for
    tokens that the level cannot have.
    """
    notices = []
    symbols = list(tokens)
    settings = TextSettings(level=level, unit="stream", unknown="refuse")
    if level == "word":
        ends = [spelling for spelling in LINE_END_SPELLINGS if spelling in symbols]
        if "\n" not in symbols and ends:
            symbols[symbols.index(ends[0])] = "\n"
            notices.append(f"{ends[0]} stands for the line end")
        if UNKNOWN_SPELLING in symbols:
            settings = replace(settings, unknown="replace", literal_unknown=UNKNOWN_SPELLING)
            symbols[symbols.index(UNKNOWN_SPELLING)] = UNK
            notices.append(f"{UNKNOWN_SPELLING} stands for unknown words")
    specials = specials_for(settings)
    _require_level(symbols, specials, level)
    ordered = [*specials, *(symbol for symbol in symbols if symbol not in specials)]
    places = {symbol: row for row, symbol in enumerate(symbols)}
    rows = tuple(places[symbol] for symbol in ordered)
    vocabulary = Vocabulary(tuple(ordered), specials)
    kind = CharacterTokenizer if level == "char" else WordTokenizer
    return ForeignVocabulary(kind(vocabulary, settings), rows, tuple(notices))


def _require_level(symbols: Sequence[str], specials: Sequence[str], level: str) -> None:
    for row, symbol in enumerate(symbols):
        if symbol in specials:
            continue
        fits = len(symbol) == 1 if level == "char" else symbol == "\n" or symbol.split() == [symbol]
        if not fits:
            raise DataError(
                f"token {row} of the vocabulary is no {level}",
                got=repr(symbol),
                hint="give --level word or char as the model was trained",
            )


def _json_value(text: str) -> object:
    """Return the list or object that `text` is as JSON, None where it is neither."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def _from_json(path: Path, value: object) -> list[str]:
    if isinstance(value, dict):
        ids = list(value.values())
        numbered = all(type(number) is int for number in ids)
        if not numbered or sorted(ids) != list(range(len(ids))):
            raise DataError(f"{path} must give the tokens the ids 0 to {len(ids) - 1}, each once")
        value = sorted(value, key=value.__getitem__)
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise DataError(
            f"{path} must be a list of tokens, or an object of token to id",
            got="no such JSON" if value is None else "a list of other things",
        )
    return value
